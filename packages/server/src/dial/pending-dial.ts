import type { CancelTimer } from "@reachback/common";
import type { Candidate } from "../backend/candidate.ts";
import type { DialFailureReason } from "../metrics.ts";
import { Connection } from "./connection.ts";
import type { ConnectionPorts, DialKeeper } from "./connection.ts";
import { FIRST_AGENT_MS } from "./dial-limits.ts";
import type { DialLimits } from "./dial-limits.ts";
import type { DialRequest, FrontendEnd } from "./frontend-end.ts";

/** Where a pending dial gets its agents, and who counts it. */
export interface DialDesk {
  readonly limits: DialLimits;
  readonly ports: ConnectionPorts;
  /** A backend for the dial, any but `tried`. */
  choose(address: string, tried?: Candidate): Candidate | undefined;
  /** The dial is over. */
  forget(dial: PendingDial): void;
}

/**
 * A dial from its request to its outcome: which agents are asked, and how long each has. One whose
 * agent says nothing, drops it or is lost goes to one more agent; what an endpoint answers is final.
 */
export class PendingDial implements DialKeeper {
  readonly connection: Connection;
  readonly #desk: DialDesk;
  #backend: Candidate | undefined;
  #askedAtMs = 0;
  /** When the dial has had all its time. */
  #deadlineMs = Infinity;
  /** Who is asked when the first agent is told to forget the dial. */
  #second: Candidate | undefined;
  /** Until the second agent is asked, or the time is over. */
  #mayAskAnother = true;
  #cancelTimer: CancelTimer | undefined;

  constructor(request: DialRequest, frontend: FrontendEnd, desk: DialDesk) {
    this.#desk = desk;
    this.connection = new Connection(request, frontend, this, desk.ports);
  }

  /** Wait for an agent to come: {@link agentCame} is to be called then. */
  hold(): void {
    const { limits, ports } = this.#desk;
    this.#cancelTimer = ports.clock.schedule(limits.startupDialHoldMs, () => {
      this.connection.dialFailed({ kind: "noAgent" }, "no_agent");
    });
  }

  agentCame(): void {
    if (this.#backend !== undefined) return;
    const backend = this.#desk.choose(this.connection.request.address);
    if (backend !== undefined) this.begin(backend);
  }

  /** Ask the first agent. */
  begin(backend: Candidate): void {
    const { limits, ports } = this.#desk;
    const { backendDialTimeoutMs } = limits;
    if (backendDialTimeoutMs > 0) this.#deadlineMs = ports.clock.now() + backendDialTimeoutMs;
    this.#ask(backend);
  }

  /** The server stops: a dial that no agent has yet will never have one. */
  end(): void {
    if (this.#backend === undefined) this.connection.dialFailed({ kind: "noAgent" }, "no_agent");
  }

  // DialKeeper

  askAnother(reason: DialFailureReason): boolean {
    if (!this.#mayAskAnother) return false;
    const { metrics, logger } = this.#desk.ports;
    const { address, dialId } = this.connection.request;
    const first = this.#backend;
    const second = this.#second ?? this.#desk.choose(address, first);
    if (second === undefined) return false;
    this.#mayAskAnother = false;
    metrics.dialFailed(reason);
    metrics.dialRetried(reason);
    logger.warn("dial.retried", {
      dialId: String(dialId),
      agentId: first?.agentId,
      nextAgentId: second.agentId,
      address,
      reason,
    });
    this.#ask(second);
    return true;
  }

  dialOver(): void {
    this.#cancelTimer?.();
    this.#desk.forget(this);
  }

  #ask(backend: Candidate): void {
    const { clock } = this.#desk.ports;
    this.#backend = backend;
    this.#askedAtMs = clock.now();
    backend.dial(this.connection);
    const { firstAgentMs = FIRST_AGENT_MS } = this.#desk.limits;
    const remainingMs = this.#deadlineMs - this.#askedAtMs;
    if (this.#mayAskAnother && remainingMs > firstAgentMs) {
      this.#wait(firstAgentMs, () => {
        this.#firstAgentIsLate(backend);
      });
    } else {
      this.#waitForDeadline();
    }
  }

  /** The agent goes on if nobody else can do better. */
  #firstAgentIsLate(backend: Candidate): void {
    backend.dialUnanswered(this.#askedAtMs);
    this.#second = this.#desk.choose(this.connection.request.address, backend);
    if (this.#second === undefined || this.#second.standing === "failing") {
      this.#second = undefined;
      this.#waitForDeadline();
    } else {
      this.connection.dialUnanswered();
    }
  }

  #waitForDeadline(): void {
    this.#cancelTimer?.();
    const remainingMs = this.#deadlineMs - this.#desk.ports.clock.now();
    if (remainingMs === Infinity) return;
    this.#wait(remainingMs, () => {
      this.#mayAskAnother = false;
      this.#backend?.dialUnanswered(this.#askedAtMs);
      this.connection.dialUnanswered();
    });
  }

  #wait(timeMs: number, then: () => void): void {
    this.#cancelTimer?.();
    this.#cancelTimer = this.#desk.ports.clock.schedule(timeMs, then);
  }
}
