import type { ConnectionId, DialId, Logger } from "@reachback/common";
import type { AgentMetrics } from "../metrics.ts";
import { CUT_HINTS } from "./close-reason.ts";
import type { CloseReason } from "./close-reason.ts";
import type { DialError } from "./dial-error.ts";

export interface RecordPorts {
  readonly metrics: AgentMetrics;
  readonly logger: Logger;
}

/** How log lines name a connection. */
export interface Recorded {
  readonly dialId: DialId;
  readonly connectionId: ConnectionId;
  readonly address: string;
}

/** What metrics and log lines say of one dial, and of the connection that it becomes. */
export class ConnectionRecord {
  readonly #connection: Recorded;
  readonly #ports: RecordPorts;
  #bytesToEndpoint = 0;
  #bytesFromEndpoint = 0;

  constructor(connection: Recorded, ports: RecordPorts) {
    this.#connection = connection;
    this.#ports = ports;
  }

  dialFailed({ reason, message }: DialError): void {
    const { metrics, logger } = this.#ports;
    metrics.endpointDialFailed(reason);
    logger.warn("dial.failed", { ...this.#logFields(), error: message });
  }

  opened(dialMs: number): void {
    const { metrics, logger } = this.#ports;
    metrics.endpointDialed(dialMs / 1000);
    metrics.connectionOpened();
    if (logger.debugEnabled) logger.debug("connection.opened", this.#logFields());
  }

  toEndpoint(bytes: number): void {
    this.#bytesToEndpoint += bytes;
    this.#ports.metrics.bytes.toEndpoint.add(bytes);
  }

  fromEndpoint(bytes: number): void {
    this.#bytesFromEndpoint += bytes;
    this.#ports.metrics.bytes.fromEndpoint.add(bytes);
  }

  /** @param error - Empty after an orderly end. */
  closed(reason: CloseReason, error: string): void {
    const { metrics, logger } = this.#ports;
    metrics.connectionClosed(reason);
    const hint = CUT_HINTS[reason];
    if (hint === undefined && !logger.debugEnabled) return;
    const fields = {
      ...this.#logFields(),
      reason,
      ...(error === "" ? {} : { error }),
      bytesToEndpoint: this.#bytesToEndpoint,
      bytesFromEndpoint: this.#bytesFromEndpoint,
    };
    if (hint === undefined) logger.debug("connection.closed", fields);
    else logger.warn("connection.closed", { ...fields, hint });
  }

  #logFields(): Record<string, string> {
    const { dialId, connectionId, address } = this.#connection;
    return { dialId: String(dialId), connectionId: String(connectionId), address };
  }
}
