import type { SubjectFamily } from "./subject.ts";

/** No tunnel at all: what the machine, the load process and the endpoint can do. */
export const direct: SubjectFamily = {
  ids: ["direct"],
  start: async ({ endpointPorts, link }) => [
    {
      id: "direct",
      routes: {
        main: { kind: "tcp", port: await link(endpointPorts.main) },
        beside: { kind: "tcp", port: await link(endpointPorts.beside) },
      },
      processes: [],
    },
  ],
};
