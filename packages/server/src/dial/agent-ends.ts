import { PacketType } from "@reachback/common";
import type { ControlPacket, Flow } from "@reachback/common";

/** The tunnel that an agent is told over. */
export interface EndsTunnel {
  /** Whether the agent knows FINISH and RESET. */
  readonly hasHalfClose: boolean;
  send(packet: ControlPacket): void;
}

/**
 * How an agent is told of the ends of one connection, in packets that it knows; see PROTOCOL.md,
 * "Ends and resets". When, and what becomes of the connection then, is the connection's concern.
 */
export class AgentEnds {
  readonly #flow: Flow;
  readonly #tunnel: EndsTunnel;
  /** CLOSE_REQ: it goes behind all data, once. */
  #closeRequest: "none" | "queued" | "sent" = "none";

  constructor(flow: Flow, tunnel: EndsTunnel) {
    this.#flow = flow;
    this.#tunnel = tunnel;
  }

  /** The client has finished sending; only where the agent knows half-close. */
  finish(): void {
    const { connectionId } = this.#flow;
    this.#flow.sendBehind({ type: PacketType.FINISH, connectionId });
  }

  /** Whether {@link close} has been sent. */
  get isCloseSent(): boolean {
    return this.#closeRequest === "sent";
  }

  /** Close both ways, behind what the client sent. Idempotent. @param sent - Called once it is. */
  close(sent: () => void): void {
    if (this.#closeRequest !== "none") return;
    this.#closeRequest = "queued";
    const { connectionId } = this.#flow;
    this.#flow.sendBehind({ type: PacketType.CLOSE_REQ, connectionId }, () => {
      this.#closeRequest = "sent";
      sent();
    });
  }

  /** Close both ways now; what the client sent and there is no credit for is dropped. */
  closeNow(): void {
    const { connectionId } = this.#flow;
    this.#flow.sendAbort({ type: PacketType.CLOSE_REQ, connectionId });
  }

  /** Behind {@link close}: nobody wants what the endpoint still sends. */
  wantNoMore(): void {
    // The answer could wait for ever behind data that has no credit: a second CLOSE_REQ drops it.
    if (!this.#flow.hasCredit) return;
    const { connectionId } = this.#flow;
    this.#tunnel.send({ type: PacketType.CLOSE_REQ, connectionId });
  }

  /**
   * An end now that the endpoint must not take for an orderly one, as far as the agent can tell it.
   *
   * @param error - Why, for the agent.
   */
  reset(error: string): void {
    const { connectionId } = this.#flow;
    if (this.#tunnel.hasHalfClose) {
      this.#flow.sendAbort({ type: PacketType.RESET, connectionId, error });
    } else if (!this.isCloseSent) {
      this.closeNow();
    }
  }
}
