import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import type { Clock } from "../clock.ts";
import { Http2Connection } from "../http2/http2-connection.ts";
import type { Http2Limits } from "../http2/http2-limits.ts";
import { Http2ErrorCode } from "../http2/http2-error.ts";
import { peerName } from "../net/socket-listener.ts";
import { Keepalive } from "../timers/keepalive.ts";
import type { KeepaliveOptions } from "../timers/keepalive.ts";
import { routeGrpcRequest } from "./grpc-service.ts";
import type { GrpcServices, Peer } from "./grpc-service.ts";

export interface GrpcServerOptions {
  readonly services: GrpcServices;
  readonly limits: Http2Limits;
  readonly keepalive: KeepaliveOptions;
  /** From accept to the first request, in milliseconds; then a connection is closed. */
  readonly firstRequestTimeoutMs: number;
}

/** Serves gRPC calls on the sockets that it is given. */
export class GrpcServer {
  readonly #options: GrpcServerOptions;
  readonly #clock: Clock;
  readonly #connections = new Set<Http2Connection>();
  #closing = false;

  constructor(options: GrpcServerOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Serve one connected socket; on TLS, one that has negotiated `h2`. */
  accept(socket: Socket): void {
    const peer = peerOf(socket);
    const { services, limits, keepalive: keepaliveOptions } = this.#options;
    const cancelDeadline = this.#clock.schedule(this.#options.firstRequestTimeoutMs, () => {
      connection.abort(Http2ErrorCode.NO_ERROR, "no request in time");
    });
    const connection = new Http2Connection(socket, "server", limits, this.#clock, {
      request: (stream, headers) => {
        cancelDeadline();
        return routeGrpcRequest(services, stream, headers, peer, this.#clock);
      },
      goaway: () => undefined,
      closed: () => {
        cancelDeadline();
        keepalive.stop();
        this.#connections.delete(connection);
      },
    });
    this.#connections.add(connection);
    const keepalive = new Keepalive(keepaliveOptions, this.#clock, {
      get lastHeardMs() {
        return connection.lastHeardMs;
      },
      sendPing: () => {
        connection.ping();
      },
      onDead: (silentForMs) => {
        connection.destroy(new Error(`nothing heard for ${Math.round(silentForMs)} ms`));
      },
    });
    keepalive.start();
    // Its TLS handshake was under way when the listener closed.
    if (this.#closing) connection.close();
  }

  /** Take no new calls; connections end when their calls have. */
  close(): void {
    this.#closing = true;
    for (const connection of [...this.#connections]) connection.close();
  }

  /** End every connection, and every call with it. */
  destroy(): void {
    this.#closing = true;
    for (const connection of [...this.#connections]) connection.destroy();
  }
}

function peerOf(socket: Socket): Peer {
  const certificate = socket instanceof TLSSocket ? socket.getPeerCertificate() : undefined;
  // Without a certificate Node returns an empty object, and an array where a name occurs twice,
  // whatever its types say. Of several names, Go takes the last.
  const subject = certificate?.subject as { CN?: string | string[] } | undefined;
  const commonName = Array.isArray(subject?.CN) ? subject.CN.at(-1) : subject?.CN;
  return { address: peerName(socket), commonName };
}
