import { Agent as HttpAgent } from "node:http";
import type { AgentOptions, ClientRequestArgs } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { AgentOptions as HttpsAgentOptions, RequestOptions } from "node:https";
import type { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { joinHostPort } from "@reachback/common";

/** Opens a connection to `host:port`. */
export type DialEndpoint = (endpoint: string) => Promise<Duplex>;

type Created = (error: Error | null, stream: Duplex) => void;

/** An HTTP agent whose connections are dialed by something else than TCP. */
export class TunnelHttpAgent extends HttpAgent {
  readonly #dial: DialEndpoint;

  constructor(dial: DialEndpoint, options: AgentOptions) {
    super(options);
    this.#dial = dial;
  }

  override createConnection(options: ClientRequestArgs, created?: Created): undefined {
    handOver(this.#dial(endpointOf(options, 80)), created);
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
    const secured = this.#dial(endpointOf(options, 443)).then((stream) =>
      // What an HTTPS request can be told about TLS is what tls.connect takes.
      connectTls({ ...(options as ConnectionOptions), socket: stream }),
    );
    handOver(secured, created);
    return undefined;
  }
}

/** Give Node the stream when it is there, or the error. */
function handOver(stream: Promise<Duplex>, created: Created | undefined): void {
  stream.then(
    (ready) => created?.(null, ready),
    (error: unknown) => created?.(error as Error, undefined as unknown as Duplex),
  );
}

function endpointOf({ host, port }: ClientRequestArgs, defaultPort: number): string {
  return joinHostPort(host ?? "localhost", port ?? defaultPort);
}
