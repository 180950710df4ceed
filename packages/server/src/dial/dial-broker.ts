import type { BackendRegistry } from "../backend/backend-registry.ts";
import type { ServerMetrics } from "../metrics.ts";
import type { Logger } from "@reachback/common";
import { MAX_ADDRESS_LENGTH } from "../limits.ts";
import type { Connection, DialRequest } from "./connection.ts";
import type { FrontendEnd } from "./frontend-end.ts";

/** Finds a backend for each dial of a frontend. */
export class DialBroker {
  readonly #registry: BackendRegistry;
  readonly #metrics: ServerMetrics;
  readonly #logger: Logger;
  readonly #timeoutMs: number;

  /** @param timeoutMs - For the answer of the agent; 0 for ever. */
  constructor(
    registry: BackendRegistry,
    timeoutMs: number,
    metrics: ServerMetrics,
    logger: Logger,
  ) {
    this.#registry = registry;
    this.#timeoutMs = timeoutMs;
    this.#metrics = metrics;
    this.#logger = logger;
  }

  /**
   * Dial for a frontend, which is told the outcome. Returns the connection in the making, or
   * `undefined` if no agent can be asked: then the frontend has been told already.
   */
  dial(request: DialRequest, frontend: FrontendEnd): Connection | undefined {
    const { protocol, address } = request;
    if (protocol.length + address.length > MAX_ADDRESS_LENGTH) {
      frontend.dialFailed({ kind: "refused", error: "dial tcp: address too long" });
      return undefined;
    }
    const backend = this.#registry.find(address);
    if (backend === undefined) {
      this.#metrics.dialFailed("no_agent");
      this.#logger.warn("dial.failed", { reason: "no_agent", address });
      frontend.dialFailed({ kind: "noAgent" });
      return undefined;
    }
    return backend.dial(request, frontend, this.#timeoutMs);
  }
}
