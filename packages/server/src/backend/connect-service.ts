import {
  GrpcCode,
  TUNNEL_EXTENSIONS,
  agreedExtensions,
  goQuote,
  headerValues,
  namedExtensions,
  parseAgentIdentifiers,
} from "@reachback/common";
import type {
  AgentIdentifiers,
  FlowPorts,
  GrpcMethod,
  GrpcStatus,
  HeaderList,
  IncomingCall,
  Random,
} from "@reachback/common";
import type { TokenAuthenticator } from "../authentication/token-authenticator.ts";
import type { Verdict } from "../authentication/verdict.ts";
import type { ConnectionPorts } from "../dial/connection.ts";
import { limitFlag } from "../dial/dial-limits.ts";
import type { TunnelRefusalReason } from "../metrics.ts";
import { Backend } from "./backend.ts";
import type { BackendRegistry } from "./backend-registry.ts";
import { TunnelQuota } from "./tunnel-quota.ts";

/** What agents are told about this server in the answer to `Connect`. */
export interface ServerIdentity {
  readonly serverId: string;
  /** How many servers an agent should have tunnels to. */
  readonly serverCount: number;
}

export interface ConnectOptions extends ServerIdentity {
  /**
   * Tunnels that one identity may have; 0 for no limit. It is the common name of the client
   * certificate, without one the token's user, which agents usually share. Agents without either
   * are one identity.
   */
  readonly maxTunnelsPerIdentity: number;
  /** Processes that each have this limit. */
  readonly workers: number;
}

/** `AgentService.Connect`: makes a backend of every agent that opens a tunnel. */
export class ConnectService {
  readonly #identity: ServerIdentity;
  readonly #registry: BackendRegistry;
  readonly #ports: ConnectionPorts;
  readonly #flowPorts: FlowPorts;
  readonly #random: Random;
  readonly #maxTunnelsPerIdentity: number;
  readonly #workers: number;
  readonly #quota: TunnelQuota;
  readonly #authenticator: TokenAuthenticator | undefined;
  #isLeaving = false;

  /** @param authenticator - `undefined` if agents need no token. */
  constructor(
    options: ConnectOptions,
    registry: BackendRegistry,
    ports: ConnectionPorts,
    flowPorts: FlowPorts,
    random: Random,
    authenticator: TokenAuthenticator | undefined,
  ) {
    this.#identity = options;
    this.#maxTunnelsPerIdentity = options.maxTunnelsPerIdentity;
    this.#workers = options.workers;
    this.#quota = new TunnelQuota(options.maxTunnelsPerIdentity);
    this.#registry = registry;
    this.#ports = ports;
    this.#flowPorts = flowPorts;
    this.#random = random;
    this.#authenticator = authenticator;
  }

  /**
   * Tell every agent, and those that still come, that this server is about to leave: they connect
   * elsewhere and keep the tunnel. Agents that know of no such thing are told nothing.
   */
  leave(): void {
    this.#isLeaving = true;
    for (const backend of this.#registry.backends) backend.announceLeave();
  }

  // In upstream's order: metadata, token, answer, registration.
  readonly connect: GrpcMethod = (call) => {
    let claim: AgentClaim;
    try {
      claim = { agentId: agentIdOf(call.metadata), identifiers: identifiersOf(call.metadata) };
    } catch (error) {
      return this.#refusal(call, refusalOf(error));
    }
    const verdict = this.#authenticator?.authenticate(call.metadata) ?? NO_TOKEN_NEEDED;
    if ("accepted" in verdict) return this.#decide(call, claim, verdict);
    call.hold(() => {
      verdict.cancel();
    });
    verdict.onVerdict = (decided) => {
      const refusal = this.#decide(call, claim, decided);
      if (refusal !== undefined) call.refuse(refusal);
    };
    return undefined;
  };

  /** Accept the call, or return the status to refuse it with. */
  #decide(call: IncomingCall, claim: AgentClaim, verdict: Verdict): GrpcStatus | undefined {
    if (!verdict.accepted) {
      return this.#refusal(call, { status: verdict.status, reason: "authentication" });
    }
    try {
      this.#accept(call, claim, verdict.username);
      return undefined;
    } catch (error) {
      return this.#refusal(call, refusalOf(error));
    }
  }

  #refusal(call: IncomingCall, { status, reason }: Refusal): GrpcStatus {
    this.#ports.metrics.tunnelRefused(reason);
    this.#ports.logger.warn("tunnel.refused", { peer: call.peer.address, error: status.message });
    return status;
  }

  #accept(call: IncomingCall, { agentId, identifiers }: AgentClaim, username: string): void {
    const { metrics, logger } = this.#ports;
    const openedAtMs = this.#ports.clock.now();
    const identity = call.peer.commonName ?? username;
    if (!this.#quota.take(identity)) {
      throw new QuotaError(
        `too many tunnels of ${goQuote(identity)}: ${this.#maxTunnelsPerIdentity} are open ${limitFlag("--max-tunnels-per-identity of the server", this.#workers)}`,
      );
    }
    const peer = {
      agentId,
      peer: call.peer.address,
      ...(call.peer.commonName === undefined ? {} : { commonName: call.peer.commonName }),
      ...(username === "" ? {} : { user: username }),
    };
    const extensions = namedExtensions(call.metadata, TUNNEL_EXTENSIONS);
    const backend = new Backend(
      agentId,
      identifiers,
      extensions,
      {
        backendDraining: () => {
          this.#registry.draining(backend);
        },
        backendLeaving: () => {
          this.#registry.retire(backend);
        },
        backendClosed: (_backend, status) => {
          this.#registry.remove(backend);
          this.#quota.giveBack(identity);
          logger.info("tunnel.lost", {
            ...peer,
            status: status.message,
            seconds: Math.round((this.#ports.clock.now() - openedAtMs) / 1000),
          });
        },
      },
      this.#ports,
      this.#flowPorts,
      this.#random,
    );
    const carrier = call.accept(
      { sent: metrics.packets.toAgent, received: metrics.packets.fromAgent },
      backend,
      // Agents wait for these before anything else, so they go at once.
      [
        ["serverid", this.#identity.serverId],
        ["servercount", String(this.#identity.serverCount)],
        ...agreedExtensions(call.metadata, extensions),
      ],
    );
    backend.attach(carrier);
    this.#registry.add(backend);
    if (this.#isLeaving) backend.announceLeave();
    logger.info("tunnel.opened", {
      ...peer,
      identifiers: headerValues(call.metadata, "agentidentifiers")[0] ?? "",
      extensions: [...extensions].join(","),
    });
  }
}

/** What an agent says about itself. */
interface AgentClaim {
  readonly agentId: string;
  readonly identifiers: AgentIdentifiers;
}

const NO_TOKEN_NEEDED: Verdict = { accepted: true, username: "" };

/** Metadata that breaks a rule; the message is upstream's. */
class MetadataError extends Error {}

/** An identity that has all the tunnels it may have. */
class QuotaError extends Error {}

function agentIdOf(metadata: HeaderList): string {
  const [agentId, ...more] = headerValues(metadata, "agentid");
  if (agentId === undefined || more.length > 0) {
    const all = headerValues(metadata, "agentid").join(" ");
    throw new MetadataError(`expected one agent ID in the context, got [${all}]`);
  }
  return agentId;
}

function identifiersOf(metadata: HeaderList): AgentIdentifiers {
  const values = headerValues(metadata, "agentidentifiers");
  if (values.length > 1) {
    throw new MetadataError(
      `expected at most one set of agent identifiers in the context, got [${values.join(" ")}]`,
    );
  }
  try {
    return parseAgentIdentifiers(values[0] ?? "");
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new MetadataError(`fail to parse url encoded string: ${error.message}`);
  }
}

/** How a call is refused, and how that counts. */
interface Refusal {
  readonly status: GrpcStatus;
  readonly reason: TunnelRefusalReason;
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof QuotaError) {
    const status = { code: GrpcCode.RESOURCE_EXHAUSTED, message: error.message };
    return { status, reason: "identity_tunnels_limit" };
  }
  if (!(error instanceof MetadataError)) throw error;
  // Go's servers give plain errors of a handler this code.
  return { status: { code: GrpcCode.UNKNOWN, message: error.message }, reason: "metadata" };
}
