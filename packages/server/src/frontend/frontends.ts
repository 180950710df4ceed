import type { Socket } from "node:net";
import { GrpcServer } from "@reachback/common";
import type { Clock, Random, SocketListener } from "@reachback/common";
import type { DialBroker } from "../dial/dial-broker.ts";
import {
  CONNECT_SOCKET,
  FIRST_REQUEST_TIMEOUT_MS,
  FRONTEND_HTTP2,
  FRONTEND_KEEPALIVE_TIMEOUT_MS,
  HEAD_TIMEOUT_MS,
  MAX_CONNECT_HEAD_BYTES,
  REFUSAL_LINGER_MS,
} from "../limits.ts";
import { openFrontendListener } from "../listeners.ts";
import type { ListenerPorts } from "../listeners.ts";
import type { ServerMetrics } from "../metrics.ts";
import type { ServerOptions } from "../options.ts";
import type { FrontendProtocol } from "../options/frontend-spec.ts";
import { ConnectFrontend } from "./connect-frontend.ts";
import { GrpcFrontend } from "./grpc-frontend.ts";

export interface FrontendPorts {
  readonly clock: Clock;
  readonly random: Random;
  readonly metrics: ServerMetrics;
}

/** All frontends of a server, of both protocols, and their listeners. */
export class Frontends {
  readonly #options: ServerOptions;
  readonly #grpc: GrpcFrontend;
  readonly #grpcServer: GrpcServer;
  readonly #connect: ConnectFrontend;
  readonly #listeners: SocketListener[] = [];

  constructor(
    options: ServerOptions,
    broker: DialBroker,
    { clock, random, metrics }: FrontendPorts,
  ) {
    this.#options = options;
    this.#grpc = new GrpcFrontend(broker, metrics, clock);
    this.#connect = new ConnectFrontend(
      {
        headTimeoutMs: HEAD_TIMEOUT_MS,
        maxHeadBytes: MAX_CONNECT_HEAD_BYTES,
        lingerMs: REFUSAL_LINGER_MS,
        socketLimits: CONNECT_SOCKET,
      },
      broker,
      clock,
      random,
    );
    this.#grpcServer = new GrpcServer(
      {
        services: { ProxyService: { Proxy: this.#grpc.proxy } },
        limits: FRONTEND_HTTP2,
        keepalive: {
          intervalMs: options.frontendKeepaliveTimeMs,
          timeoutMs: FRONTEND_KEEPALIVE_TIMEOUT_MS,
        },
        firstRequestTimeoutMs: FIRST_REQUEST_TIMEOUT_MS,
      },
      clock,
    );
  }

  /** Open all listeners, in the order of the flags. @throws in upstream's words. */
  async open(
    ports: ListenerPorts,
    opened: (name: string, listener: SocketListener) => void,
  ): Promise<void> {
    for (const spec of this.#options.frontends) {
      const accept = this.#acceptorOf(spec.protocol);
      const listener = await openFrontendListener(spec, this.#options, accept, ports);
      this.#listeners.push(listener);
      opened(`${spec.protocol} frontend`, listener);
    }
  }

  /** TCP ports that were bound, in the order of the flags. */
  get ports(): number[] {
    return this.#listeners.map((listener) => listener.port);
  }

  /** `Proxy` streams. */
  get streamCount(): number {
    return this.#grpc.streamCount;
  }

  /** CONNECT requests. */
  get requestCount(): number {
    return this.#connect.requestCount;
  }

  /** Take no more sockets and no more calls; what is open goes on. Idempotent. */
  close(): void {
    for (const listener of this.#listeners) listener.close();
    this.#connect.close();
    this.#grpcServer.close();
  }

  /** End every stream, behind what it was sent. */
  end(): void {
    this.#grpc.end();
  }

  /** Resolves once every socket is gone. */
  async whenEmpty(): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener.whenEmpty()));
  }

  destroy(): void {
    this.#grpcServer.destroy();
    this.#connect.destroy();
    for (const listener of this.#listeners) listener.destroy();
  }

  #acceptorOf(protocol: FrontendProtocol): (socket: Socket) => void {
    return protocol === "grpc"
      ? (socket) => {
          this.#grpcServer.accept(socket);
        }
      : (socket) => {
          this.#connect.accept(socket);
        };
  }
}
