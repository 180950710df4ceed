import { readFileSync } from "node:fs";
import { createKubelet } from "../demo/endpoints/demo-kubelet.ts";
import { createPod } from "../demo/endpoints/demo-pod.ts";
import type { EndpointLog } from "../demo/endpoints/endpoint-log.ts";
import { LOOPBACK } from "../demo/loopback.ts";
import type { CliCommand } from "../cli-command.ts";

/** `reachback demo-endpoint`: an endpoint for the demo, in a process of its own. Help hides it. */
export const demoEndpointCommand: CliCommand = {
  declare: (parser, host, run) =>
    parser.command(
      "demo-endpoint <kind>",
      false,
      (options) =>
        options
          .positional("kind", { choices: ["kubelet", "pod"] as const, demandOption: true })
          .option("port", { number: true, demandOption: true })
          .option("cert", { string: true, default: "" })
          .option("key", { string: true, default: "" })
          .option("client-ca", { string: true, default: "" }),
      (given) =>
        run(() => {
          const log: EndpointLog = (event, fields = {}) => {
            const time = new Date(host.clock.wallTimeMs()).toISOString();
            host.stdout(`${JSON.stringify({ time, event, ...fields })}\n`);
          };
          const clientCa = given["client-ca"];
          const server =
            given.kind === "pod"
              ? createPod(log)
              : createKubelet(
                  {
                    cert: readFileSync(given.cert),
                    key: readFileSync(given.key),
                    clientCa: clientCa === "" ? undefined : readFileSync(clientCa),
                  },
                  host.clock,
                  log,
                );
          return new Promise((_, reject) => {
            server.once("error", reject);
            server.listen({ port: given.port, host: LOOPBACK }, () => {
              log("program.started", { port: given.port });
            });
          });
        }),
    ),
};
