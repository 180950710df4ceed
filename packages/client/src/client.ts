import type { Agent as HttpAgent, AgentOptions } from "node:http";
import type { Agent as HttpsAgent, AgentOptions as HttpsAgentOptions } from "node:https";
import type { Duplex } from "node:stream";
import { systemClock, systemRandom } from "@reachback/common";
import type { Clock, Random } from "@reachback/common";
import { DEFAULT_DIAL_TIMEOUT_MS } from "./client-options.ts";
import type { ClientOptions, DialOptions } from "./client-options.ts";
import { dialByConnect } from "./connect-dialer.ts";
import { GrpcDialer } from "./grpc-dialer.ts";
import { TunnelHttpAgent, TunnelHttpsAgent } from "./http-agents.ts";

/**
 * Opens connections through a server, to whatever its agents reach.
 *
 * ```ts
 * const client = new Client({
 *   protocol: "grpc",
 *   address: { kind: "unix", path: "/run/reachback/server.sock" },
 * });
 * const connection = await client.dial("10.0.0.7:10250", { timeoutMs: 5_000 });
 * http.get({ host: "10.0.0.8", port: 80, agent: client.httpAgent() }, (response) => { ... });
 * ```
 */
export class Client {
  readonly #options: ClientOptions;
  readonly #clock: Clock;
  readonly #grpcDialer: GrpcDialer;

  constructor(options: ClientOptions, clock: Clock = systemClock, random: Random = systemRandom) {
    this.#options = options;
    this.#clock = clock;
    this.#grpcDialer = new GrpcDialer(options, clock, random);
  }

  /**
   * Open a connection to `endpoint` (`host:port`; the agent resolves the host).
   *
   * Over HTTP CONNECT the stream is the socket to the server. Over gRPC, `end` closes the whole
   * connection behind what was written, because the wire has no half-close.
   *
   * @throws {ClientError}, or the signal's reason when it aborts.
   */
  async dial(endpoint: string, options: DialOptions = {}): Promise<Duplex> {
    const timeoutMs = options.timeoutMs ?? this.#options.dialTimeoutMs ?? DEFAULT_DIAL_TIMEOUT_MS;
    return this.#options.protocol === "grpc"
      ? this.#grpcDialer.dial(endpoint, timeoutMs, options.signal)
      : dialByConnect(this.#options, endpoint, timeoutMs, this.#clock, options.signal);
  }

  /** An agent for `http.request` whose connections go through the server. */
  httpAgent(options: AgentOptions = {}): HttpAgent {
    return new TunnelHttpAgent((endpoint) => this.dial(endpoint), options);
  }

  /**
   * An agent for `https.request` whose connections go through the server. TLS is between here and
   * the endpoint, verified as `options` say (`ca`, `cert`, `key`, `servername`, ...).
   */
  httpsAgent(options: HttpsAgentOptions = {}): HttpsAgent {
    return new TunnelHttpsAgent((endpoint) => this.dial(endpoint), options);
  }

  /** Cut what is open over gRPC. Connections over CONNECT are sockets of their own. */
  close(): void {
    this.#grpcDialer.close();
  }
}
