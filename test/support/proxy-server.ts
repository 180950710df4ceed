import { once } from "node:events";
import { createServer } from "node:net";
import type { Server as NetServer, Socket } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { ServerDuplexStream, ServerOptions } from "@grpc/grpc-js";
import { AgentTunnel } from "./agent-server.ts";
import { temporaryFolder } from "./cluster.ts";
import { createTestPki } from "./pki.ts";

// A server for frontends that follows a script: each packet it sends is written in the test. grpc-js
// underneath, so it shares no code with what it tests; on sockets of its own, which can be counted.

type RawServerCall = ServerDuplexStream<Buffer, Buffer>;

export interface ProxyServerOptions {
  /** @defaultValue a Unix socket */
  readonly transport?: "unix" | "tls";
  /** Whether a client's end is answered with status OK. @defaultValue true */
  readonly answersEnd?: boolean;
  readonly grpc?: ServerOptions;
}

/** A `Proxy` stream, as the server has it. */
export { AgentTunnel as ProxyStream };

export type OnDial = (stream: AgentTunnel, random: string) => void;

export class ProxyServer {
  /** Connections that are open. */
  readonly sockets = new Set<Socket>();
  /** How many there have been. */
  socketCount = 0;
  /** Streams in order, but for those that are served. */
  readonly streams: AgentTunnel[] = [];
  readonly path: string;
  port = 0;
  readonly #options: ProxyServerOptions;
  readonly #grpc: Server;
  readonly #listener: NetServer;
  #takenCount = 0;
  #onStream: (() => void) | undefined;
  #onDial: OnDial | undefined;

  constructor(path: string, options: ProxyServerOptions) {
    this.path = path;
    this.#options = options;
    this.#grpc = new Server(options.grpc);
    const identity = (bytes: Buffer) => bytes;
    this.#grpc.addService(
      {
        Proxy: {
          path: "/ProxyService/Proxy",
          requestStream: true,
          responseStream: true,
          requestSerialize: identity,
          requestDeserialize: identity,
          responseSerialize: identity,
          responseDeserialize: identity,
        },
      },
      {
        Proxy: (call: RawServerCall) => {
          this.#called(new AgentTunnel(call, options.answersEnd ?? true));
        },
      },
    );
    const injector = this.#grpc.createConnectionInjector(this.#credentials());
    this.#listener = createServer((socket) => {
      this.socketCount++;
      this.sockets.add(socket);
      socket.once("close", () => this.sockets.delete(socket));
      socket.on("error", () => undefined);
      injector.injectConnection(socket);
    });
  }

  async listen(): Promise<void> {
    if (this.#options.transport === "tls") this.#listener.listen(0, "127.0.0.1");
    else this.#listener.listen(this.path);
    await once(this.#listener, "listening");
    const address = this.#listener.address();
    this.port = typeof address === "object" && address !== null ? address.port : 0;
  }

  /** The next stream that has not been asked for. */
  async next(): Promise<AgentTunnel> {
    while (this.streams.length <= this.#takenCount) {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          reject(new Error("no stream came"));
        }, 10_000);
        this.#onStream = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return this.streams[this.#takenCount++]!;
  }

  /** From now on, hand the dial of each new stream to `onDial` instead of leaving it to {@link next}. */
  serve(onDial: OnDial): void {
    this.#onDial = onDial;
  }

  /** Everything is gone at once, without a word. */
  vanish(): void {
    this.#listener.close();
    for (const socket of [...this.sockets]) socket.destroy();
    this.#grpc.forceShutdown();
  }

  #called(stream: AgentTunnel): void {
    const onDial = this.#onDial;
    if (onDial === undefined) {
      this.streams.push(stream);
      this.#onStream?.();
    } else {
      stream.serve(({ dialRequest }) => {
        if (dialRequest != null) onDial(stream, dialRequest.random ?? "");
      });
    }
  }

  #credentials(): ServerCredentials {
    if (this.#options.transport !== "tls") return ServerCredentials.createInsecure();
    const { frontendCa, serverFrontend } = createTestPki();
    const pair = {
      cert_chain: Buffer.from(serverFrontend.cert),
      private_key: Buffer.from(serverFrontend.key),
    };
    return ServerCredentials.createSsl(Buffer.from(frontendCa.cert), [pair], true);
  }
}

/** Start a server for frontends; it is gone when the test ends. */
export async function startProxyServer(
  t: TestContext,
  options: ProxyServerOptions = {},
): Promise<ProxyServer> {
  const server = new ProxyServer(join(temporaryFolder(t), "proxy.sock"), options);
  t.after(() => {
    server.vanish();
  });
  await server.listen();
  return server;
}
