import { Agent as HttpAgent } from "node:http";
import type { AgentOptions, ClientRequestArgs } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { AgentOptions as HttpsAgentOptions, RequestOptions } from "node:https";
import type { Duplex } from "node:stream";
import { joinHostPort } from "@reachback/common";
import type { DialOptions } from "./client-options.ts";

/** Opens a connection to `host:port`. */
export type DialEndpoint = (endpoint: string, options: DialOptions) => Promise<Duplex>;

type Created = (error: Error | null, stream: Duplex) => void;

/** An HTTP agent whose connections are dialed by something else than TCP. */
export class TunnelHttpAgent extends HttpAgent {
  readonly #dial: DialEndpoint;

  constructor(dial: DialEndpoint, options: AgentOptions) {
    super(options);
    this.#dial = dial;
  }

  override createConnection(options: ClientRequestArgs, created?: Created): undefined {
    handOver(dialFor(options, 80, this.#dial), created);
    return undefined;
  }
}

/** The same with TLS inside, between here and the endpoint. */
export class TunnelHttpsAgent extends HttpsAgent {
  readonly #dial: DialEndpoint;

  constructor(dial: DialEndpoint, options: HttpsAgentOptions) {
    super(options);
    this.#dial = dial;
  }

  override createConnection(options: RequestOptions, created?: Created): undefined {
    handOver(
      dialFor(options, 443, this.#dial).then((stream) => this.#secure(stream, options)),
      created,
    );
    return undefined;
  }

  #secure(stream: Duplex, options: RequestOptions): Duplex {
    try {
      // Node's own, which resumes TLS sessions, takes the socket to put TLS on as an option.
      const socket: unknown = super.createConnection({
        ...options,
        socket: stream,
      } as RequestOptions);
      return socket as Duplex;
    } catch (error) {
      // A certificate or key that cannot be used.
      stream.destroy();
      throw error;
    }
  }
}

/** Node's own limit for a request, its `timeout`, includes the time it takes to connect. */
function dialFor(
  { host, port, timeout }: ClientRequestArgs,
  defaultPort: number,
  dial: DialEndpoint,
): Promise<Duplex> {
  const endpoint = joinHostPort(host ?? "localhost", port ?? defaultPort);
  return dial(endpoint, timeout === undefined || timeout === 0 ? {} : { timeoutMs: timeout });
}

/** Give Node the stream when it is there, or the error. */
function handOver(stream: Promise<Duplex>, created: Created | undefined): void {
  stream.then(
    (ready) => created?.(null, ready),
    (error: unknown) => created?.(error as Error, undefined as unknown as Duplex),
  );
}
