import { GrpcCode, headerValues, parseAgentIdentifiers } from "@reachback/common";
import type {
  AgentIdentifiers,
  GrpcMethod,
  GrpcStatus,
  HeaderList,
  IncomingCall,
  Random,
} from "@reachback/common";
import type { TokenAuthenticator } from "../authentication/token-authenticator.ts";
import type { Verdict } from "../authentication/verdict.ts";
import type { ConnectionPorts } from "../dial/connection.ts";
import { Backend } from "./backend.ts";
import type { BackendRegistry } from "./backend-registry.ts";

/** What agents are told about this server in the answer to `Connect`. */
export interface ServerIdentity {
  readonly serverId: string;
  /** How many servers an agent should have tunnels to. */
  readonly serverCount: number;
}

/** `AgentService.Connect`: makes a backend of every agent that opens a tunnel. */
export class ConnectService {
  readonly #identity: ServerIdentity;
  readonly #registry: BackendRegistry;
  readonly #ports: ConnectionPorts;
  readonly #random: Random;
  readonly #authenticator: TokenAuthenticator | undefined;

  /** @param authenticator - `undefined` if agents need no token. */
  constructor(
    identity: ServerIdentity,
    registry: BackendRegistry,
    ports: ConnectionPorts,
    random: Random,
    authenticator: TokenAuthenticator | undefined,
  ) {
    this.#identity = identity;
    this.#registry = registry;
    this.#ports = ports;
    this.#random = random;
    this.#authenticator = authenticator;
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
    if (!verdict.accepted) return this.#refusal(call, verdict.status);
    this.#accept(call, claim, verdict.username);
    return undefined;
  }

  #refusal(call: IncomingCall, status: GrpcStatus): GrpcStatus {
    this.#ports.logger.warn("tunnel.refused", { peer: call.peer.address, error: status.message });
    return status;
  }

  #accept(call: IncomingCall, { agentId, identifiers }: AgentClaim, username: string): void {
    const { metrics, logger } = this.#ports;
    const openedAtMs = this.#ports.clock.now();
    const peer = {
      agentId,
      peer: call.peer.address,
      ...(call.peer.commonName === undefined ? {} : { commonName: call.peer.commonName }),
      ...(username === "" ? {} : { user: username }),
    };
    const backend = new Backend(
      agentId,
      identifiers,
      {
        backendLeaving: () => {
          this.#registry.retire(backend);
        },
        backendClosed: (_backend, status) => {
          this.#registry.remove(backend);
          logger.info("tunnel.lost", {
            ...peer,
            status: status.message,
            seconds: Math.round((this.#ports.clock.now() - openedAtMs) / 1000),
          });
        },
      },
      this.#ports,
      this.#random,
    );
    const carrier = call.accept(
      { sent: metrics.packets.toAgent, received: metrics.packets.fromAgent },
      backend,
      // Agents wait for these before anything else, so they go at once.
      [
        ["serverid", this.#identity.serverId],
        ["servercount", String(this.#identity.serverCount)],
      ],
    );
    backend.attach(carrier);
    this.#registry.add(backend);
    logger.info("tunnel.opened", {
      ...peer,
      identifiers: headerValues(call.metadata, "agentidentifiers")[0] ?? "",
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

function refusalOf(error: unknown): GrpcStatus {
  if (!(error instanceof MetadataError)) throw error;
  // Go's servers give plain errors of a handler this code.
  return { code: GrpcCode.UNKNOWN, message: error.message };
}
