import { stringType } from "@reachback/common";
import { BIND_ADDRESS, listen, portFlag, runProgram } from "../program.ts";
import { createPod } from "./pod.ts";

await runProgram({
  name: "demo-pod",
  summary: "A pod's HTTP server: /healthz, /echo for what is posted, a greeting elsewhere.",
  examples: "demo/bin/pod.js --name=web-a --bind-address=0.0.0.0",
  flags: {
    "bind-address": BIND_ADDRESS,
    port: portFlag(8080, "Port to listen on."),
    name: {
      type: stringType,
      default: "pod",
      group: "Pod",
      placeholder: "name",
      help: "The pod's name, for its greeting.",
    },
  },
  start: async (flags, log) => {
    const server = createPod(flags.name, log);
    await listen(server, flags.port, flags["bind-address"]);
    return { stop: () => server.close() };
  },
});
