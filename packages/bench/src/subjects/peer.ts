import { UnavailableError } from "./subject.ts";
import type { SubjectFamily } from "./subject.ts";

/** Another proxy that the user has started and that speaks CONNECT on a Unix socket. */
export interface PeerOptions {
  readonly socketPath: string;
  /** Processes whose CPU time and memory count; may be none. */
  readonly pids: readonly number[];
}

export function peer({ socketPath, pids }: PeerOptions): SubjectFamily {
  return {
    ids: ["peer"],
    start: ({ endpointPorts, isDelayed }) => {
      if (isDelayed) {
        throw new UnavailableError("its link is out of our hands, so nothing can delay it");
      }
      return Promise.resolve([
        {
          id: "peer" as const,
          routes: {
            main: {
              kind: "connect",
              path: socketPath,
              endpoint: `127.0.0.1:${endpointPorts.main}`,
            } as const,
            beside: {
              kind: "connect",
              path: socketPath,
              endpoint: `127.0.0.1:${endpointPorts.beside}`,
            } as const,
          },
          processes: pids.map((pid) => ({ name: "peer", pid })),
        },
      ]);
    },
  };
}
