import { packageVersion, runService } from "@reachback/common";
import { serverProgram } from "./options.ts";
import { Server } from "./server.ts";
import { Primary } from "./workers/primary.ts";

const version = packageVersion(import.meta.url);

await runService(process, serverProgram(version), {
  start: (options, ports) =>
    options.workers > 1
      ? Primary.start(options, { ...ports, version })
      : Server.start(options, { ...ports, version, env: process.env }),
  secondSignalExitCode: 1,
});
