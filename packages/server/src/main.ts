import { packageVersion, runService } from "@reachback/common";
import { serverProgram } from "./options.ts";
import { Server } from "./server.ts";

const version = packageVersion(import.meta.url);

await runService(process, serverProgram(version), {
  start: (options, ports) => Server.start(options, { ...ports, version, env: process.env }),
  secondSignalExitCode: 1,
});
