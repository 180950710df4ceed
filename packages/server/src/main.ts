import { packageVersion, runService } from "@reachback/common";
import { serverProgram } from "./options.ts";
import { startServer } from "./start-server.ts";

const version = packageVersion(import.meta.url);

await runService(process, serverProgram(version), {
  start: (options, ports) => startServer(options, { ...ports, version, env: process.env }),
  secondSignalExitCode: 1,
});
