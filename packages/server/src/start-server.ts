import type { ProcessMetrics } from "@reachback/common";
import type { ServerOptions } from "./options.ts";
import { Server } from "./server.ts";
import type { ServerPorts } from "./server.ts";
import { Primary } from "./workers/primary.ts";

export interface StartPorts extends Omit<ServerPorts, "worker" | "processMetrics"> {
  /** Metrics of the process, which only its executable can make. */
  readonly processMetrics?: ProcessMetrics;
}

/** A server, in one process or in several. */
export interface RunningServer {
  /** Ports that were bound, for whoever asked for any free one: frontends in their order. */
  readonly ports: {
    readonly frontends: readonly number[];
    readonly agent: number;
    readonly health: number;
    readonly admin: number;
  };
  /** Stop, see {@link Server.stop}. */
  stop(): Promise<void>;
}

/**
 * Start a server: all its listeners and workers, or none. Workers have the environment of this process.
 *
 * @throws in upstream's words if something cannot be opened, read or reached.
 */
export function startServer(options: ServerOptions, ports: StartPorts): Promise<RunningServer> {
  return options.workers > 1 ? Primary.start(options, ports) : Server.start(options, ports);
}
