import { packageVersion, runService } from "@reachback/common";
import { serverProgram } from "./options.ts";
import { Server } from "./server.ts";

await runService(process, serverProgram(packageVersion(import.meta.url)), {
  start: (options, ports) => Server.start(options, ports),
  secondSignalExitCode: 1,
});
