import type { Candidate } from "../backend/candidate.ts";
import type { IsUsable } from "../backend/agent-pool.ts";
import { MAX_ADDRESS_LENGTH } from "../limits.ts";
import type { DialFailureReason } from "../metrics.ts";
import type { Connection, ConnectionPorts } from "./connection.ts";
import { isAt, limitFlag } from "./dial-limits.ts";
import type { DialLimits } from "./dial-limits.ts";
import type { DialFailure, DialRequest, FrontendEnd } from "./frontend-end.ts";
import { PendingDial } from "./pending-dial.ts";
import type { DialDesk } from "./pending-dial.ts";

/** How the error begins where no agent may have one more connection. */
export const AGENT_LIMIT_TEXT = "too many connections: each agent for this address has";

/** Why a dial is turned away before any agent is asked. */
interface Refusal {
  readonly failure: DialFailure;
  readonly reason: DialFailureReason;
}

/** Where a broker's agents are. */
export interface AgentChooser {
  /** One for `address`, or `undefined` if nobody may be asked. */
  choose(address: string, isUsable?: IsUsable): Candidate | undefined;
  /** Whether there has ever been one. */
  readonly hasHadBackend: boolean;
  /** Call `listener` whenever there is a new one. For one owner. */
  onAdded(listener: () => void): void;
}

/** Finds agents for the dials of frontends, and bounds how many dials there are. */
export class DialBroker {
  readonly #registry: AgentChooser;
  readonly #limits: DialLimits;
  readonly #ports: ConnectionPorts;
  readonly #desk: DialDesk;
  readonly #pending = new Set<PendingDial>();
  #heldCount = 0;

  constructor(registry: AgentChooser, limits: DialLimits, ports: ConnectionPorts) {
    this.#registry = registry;
    this.#limits = limits;
    this.#ports = ports;
    this.#desk = {
      limits,
      ports: {
        ...ports,
        connectionEnded: () => {
          this.#heldCount--;
          ports.connectionEnded();
        },
      },
      choose: (address, tried) => this.#choose(address, tried),
      forget: (dial) => this.#pending.delete(dial),
    };
    registry.onAdded(() => {
      for (const dial of [...this.#pending]) dial.agentCame();
    });
  }

  /** Dials that have no outcome yet, those that wait for the first agent included. */
  get pendingDialCount(): number {
    return this.#pending.size;
  }

  /** Connections and pending dials. */
  get heldCount(): number {
    return this.#heldCount;
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
    const limit = this.#limitReached();
    const backend = limit === undefined ? this.#choose(address) : undefined;
    const mayHold = this.#limits.startupDialHoldMs > 0 && !this.#registry.hasHadBackend;
    if (limit !== undefined || (backend === undefined && !mayHold)) {
      const { failure, reason } = limit ?? this.#whyNobody(address);
      this.#ports.metrics.dialFailed(reason);
      this.#ports.logger.warn("dial.failed", { reason, address });
      frontend.dialFailed(failure);
      return undefined;
    }
    const dial = new PendingDial(request, frontend, this.#desk);
    this.#pending.add(dial);
    this.#heldCount++;
    if (backend === undefined) dial.hold();
    else dial.begin(backend);
    return dial.connection;
  }

  /** Give up the dials that still wait for the first agent. */
  end(): void {
    for (const dial of [...this.#pending]) dial.end();
  }

  #choose(address: string, tried?: Candidate): Candidate | undefined {
    const { maxConnectionsPerAgent } = this.#limits;
    return this.#registry.choose(
      address,
      (backend) => backend !== tried && !isAt(maxConnectionsPerAgent, backend.heldCount),
    );
  }

  #limitReached(): Refusal | undefined {
    const { maxPendingDials, maxConnections, workers } = this.#limits;
    if (isAt(maxPendingDials, this.#pending.size)) {
      return limitRefusal(
        "pending_dials_limit",
        `too many pending dials: ${maxPendingDials} wait for an answer ${limitFlag("--max-pending-dials", workers)}`,
      );
    }
    if (isAt(maxConnections, this.#heldCount)) {
      return limitRefusal(
        "connections_limit",
        `too many connections: ${maxConnections} are open or being dialed ${limitFlag("--max-connections", workers)}`,
      );
    }
    return undefined;
  }

  #whyNobody(address: string): Refusal {
    if (this.#registry.choose(address) === undefined) {
      return { failure: { kind: "noAgent" }, reason: "no_agent" };
    }
    const { maxConnectionsPerAgent } = this.#limits;
    return limitRefusal(
      "agent_connections_limit",
      `${AGENT_LIMIT_TEXT} ${maxConnectionsPerAgent} (--max-connections-per-agent)`,
    );
  }
}

function limitRefusal(reason: DialFailureReason, error: string): Refusal {
  return { failure: { kind: "limit", error }, reason };
}
