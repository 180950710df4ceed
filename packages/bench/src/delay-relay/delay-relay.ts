import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { startDelayLine } from "./delay-line.ts";

const WRITE_AHEAD_BYTES = 1024 * 1024;
const BACKLOG = 4096;

export interface DelayRelayConfig {
  /** Added to every byte, each way. */
  readonly delayMs: number;
}

export interface DelayRelayCommands {
  /** Lead a new port to `targetPort`; returns the new one. */
  add(targetPort: number): Promise<number>;
}

/** A link that takes time, in user space: TCP in, TCP out, on loopback. */
export function delayRelayCommands({ delayMs }: DelayRelayConfig): DelayRelayCommands {
  return {
    add: async (targetPort) => {
      const options = { noDelay: true, allowHalfOpen: true, highWaterMark: WRITE_AHEAD_BYTES };
      const server = createServer(options, (near) => {
        const far = connect({ ...options, host: "127.0.0.1", port: targetPort });
        startDelayLine(near, far, delayMs);
        startDelayLine(far, near, delayMs);
      });
      server.listen(0, "127.0.0.1", BACKLOG);
      await once(server, "listening");
      return (server.address() as AddressInfo).port;
    },
  };
}
