import type { Clock, ConnectionId, DialId, Logger } from "@reachback/common";
import type { DialFailureReason, ServerMetrics } from "../metrics.ts";
import { CUT_HINTS } from "./close-reason.ts";
import type { CloseReason } from "./close-reason.ts";

export interface RecordPorts {
  readonly clock: Clock;
  readonly metrics: ServerMetrics;
  readonly logger: Logger;
}

/** How log lines name a connection, as far as it is known at the time. */
export interface Recorded {
  readonly wireDialId: DialId;
  readonly connectionId: ConnectionId;
  readonly agentId: string;
  readonly address: string;
}

/** What metrics and log lines say of one dial, and of the connection that it becomes. */
export class ConnectionRecord {
  readonly #connection: Recorded;
  readonly #ports: RecordPorts;
  readonly #startedAtMs: number;
  #openedAtMs = 0;
  #bytesToAgent = 0;
  #bytesFromAgent = 0;

  /** The dial begins. */
  constructor(connection: Recorded, ports: RecordPorts) {
    this.#connection = connection;
    this.#ports = ports;
    this.#startedAtMs = ports.clock.now();
  }

  dialFailed(reason: DialFailureReason, error?: string): void {
    const { metrics, logger } = this.#ports;
    metrics.dialFailed(reason);
    logger.warn("dial.failed", { ...this.#logFields(), reason, error });
  }

  opened(): void {
    const { clock, metrics, logger } = this.#ports;
    this.#openedAtMs = clock.now();
    metrics.dialSucceeded((this.#openedAtMs - this.#startedAtMs) / 1000, this.#openedAtMs);
    metrics.connectionOpened();
    if (logger.debugEnabled) logger.debug("connection.opened", this.#logFields());
  }

  toAgent(bytes: number): void {
    this.#bytesToAgent += bytes;
    this.#ports.metrics.bytes.toAgent.add(bytes);
  }

  fromAgent(bytes: number): void {
    this.#bytesFromAgent += bytes;
    this.#ports.metrics.bytes.fromAgent.add(bytes);
  }

  /** @param error - Empty after an orderly end. */
  closed(reason: CloseReason, error: string): void {
    const { clock, metrics, logger } = this.#ports;
    metrics.connectionClosed(reason, (clock.now() - this.#openedAtMs) / 1000);
    const hint = CUT_HINTS[reason];
    if (hint === undefined && !logger.debugEnabled) return;
    const fields = {
      ...this.#logFields(),
      reason,
      ...(error === "" ? {} : { error }),
      bytesToAgent: this.#bytesToAgent,
      bytesFromAgent: this.#bytesFromAgent,
    };
    if (hint === undefined) logger.debug("connection.closed", fields);
    else logger.warn("connection.closed", { ...fields, hint });
  }

  #logFields(): Record<string, string> {
    const { wireDialId, connectionId, agentId, address } = this.#connection;
    return { dialId: String(wireDialId), connectionId: String(connectionId), agentId, address };
  }
}
