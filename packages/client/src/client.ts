import type { Agent as HttpAgent, AgentOptions } from "node:http";
import type { Agent as HttpsAgent, AgentOptions as HttpsAgentOptions } from "node:https";
import type { Duplex } from "node:stream";
import { systemClock, systemRandom } from "@reachback/common";
import type { Clock, Random } from "@reachback/common";
import { ClientError } from "./client-error.ts";
import { DEFAULT_DIAL_TIMEOUT_MS, requireEndpoint, requireTimeout } from "./client-options.ts";
import type { ClientOptions, DialOptions } from "./client-options.ts";
import { ConnectDialer } from "./connect-dialer.ts";
import { DialAttempt } from "./dial-attempt.ts";
import type { Dialer } from "./dialer.ts";
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
 *
 * // A connection, as a stream:
 * const connection = await client.dial("10.0.0.7:5432", { timeoutMs: 5_000 });
 * connection.end("hello");
 * for await (const chunk of connection) console.log(String(chunk));
 *
 * // Requests to a pod, one after the other over the same connection:
 * const agent = client.httpAgent({ keepAlive: true });
 * http.get({ host: "10.0.0.8", port: 8080, path: "/healthz", agent }, (response) => {
 *   response.pipe(process.stdout);
 * });
 *
 * // To a kubelet, whose certificate is verified here:
 * const kubelet = client.httpsAgent({ ca: readFileSync("kubelet-ca.crt") });
 * https.get("https://10.0.0.7:10250/healthz", { agent: kubelet }, (response) => { ... });
 *
 * // When all is done:
 * client.close();
 * ```
 *
 * Through HTTP CONNECT by mutual TLS:
 *
 * ```ts
 * const client = new Client({
 *   protocol: "http-connect",
 *   address: { kind: "tcp", host: "server.example", port: 8090 },
 *   tls: { caPath: "ca.crt", certPath: "client.crt", keyPath: "client.key" },
 * });
 * ```
 */
export class Client {
  readonly #clock: Clock;
  readonly #dialTimeoutMs: number;
  readonly #dialer: Dialer;
  readonly #attempts = new Set<DialAttempt>();
  readonly #connections = new Set<Duplex>();
  #isClosed = false;

  /** @throws {ClientError} `ERR_INVALID_OPTIONS` */
  constructor(options: ClientOptions, clock: Clock = systemClock, random: Random = systemRandom) {
    const { protocol, dialTimeoutMs = DEFAULT_DIAL_TIMEOUT_MS } = options;
    requireTimeout("dialTimeoutMs", dialTimeoutMs);
    this.#clock = clock;
    this.#dialTimeoutMs = dialTimeoutMs;
    this.#dialer =
      protocol === "grpc"
        ? new GrpcDialer(options, clock, random)
        : new ConnectDialer(options, clock);
  }

  /**
   * Open a connection to `endpoint` (`host:port`; the agent resolves the host).
   *
   * Either side may end while the other goes on. With an upstream server or agent on the way, which
   * know no half-close, the end of one side closes the connection both ways, behind what that side
   * has sent. A failure is never passed off as an end, except on a Unix socket of a CONNECT frontend,
   * which knows no other (LIMITS.md).
   *
   * Over gRPC, connections share one HTTP/2 connection to the server. `close` without an error says
   * that the endpoint was given everything; failures are `ERR_CONNECTION_LOST`. Over HTTP CONNECT the
   * stream is the socket to the server, with a socket's errors.
   *
   * @throws {ClientError}, or the signal's reason when it aborts.
   */
  async dial(endpoint: string, options: DialOptions = {}): Promise<Duplex> {
    const { timeoutMs = this.#dialTimeoutMs, signal } = options;
    requireEndpoint(endpoint);
    requireTimeout("timeoutMs", timeoutMs);
    if (this.#isClosed) throw closedError();
    signal?.throwIfAborted();
    const attempt = new DialAttempt(endpoint, { ...options, timeoutMs }, this.#clock);
    this.#attempts.add(attempt);
    try {
      const connection = await this.#dialer.dial(attempt);
      // Perhaps it was given up in the very moment in which it came about.
      if (attempt.signal.aborted) {
        connection.destroy();
        throw attempt.signal.reason;
      }
      this.#connections.add(connection);
      connection.once("close", () => this.#connections.delete(connection));
      return connection;
    } finally {
      attempt.settle();
      this.#attempts.delete(attempt);
    }
  }

  /**
   * An agent for `http.request` whose connections go through the server. A request's `timeout`
   * limits its dial as well. With `keepAlive`, idle connections stay until the agent is destroyed or
   * the client is closed; over gRPC they keep the process alive.
   */
  httpAgent(options: AgentOptions = {}): HttpAgent {
    return new TunnelHttpAgent((endpoint, dial) => this.dial(endpoint, dial), options);
  }

  /**
   * {@link httpAgent} for `https.request`. TLS is between here and the endpoint, verified as
   * `options`, or those of the request, say (`ca`, `cert`, `key`, `servername`, ...).
   */
  httpsAgent(options: HttpsAgentOptions = {}): HttpsAgent {
    return new TunnelHttpsAgent((endpoint, dial) => this.dial(endpoint, dial), options);
  }

  /**
   * Destroy every connection and give up every dial, which reject with `ERR_CLIENT_CLOSED`; so do
   * those to come. Idempotent.
   */
  close(): void {
    this.#isClosed = true;
    for (const attempt of this.#attempts) attempt.giveUp(closedError());
    for (const connection of this.#connections) connection.destroy();
    this.#dialer.close();
  }
}

function closedError(): ClientError {
  return new ClientError("ERR_CLIENT_CLOSED", "the client is closed");
}
