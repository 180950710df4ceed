import { FRONTEND_EXTENSIONS, GrpcClientCarrier, offeredExtensions } from "@reachback/common";
import type {
  CarrierCounters,
  Clock,
  DialId,
  GrpcCallTarget,
  Http2Connection,
  Random,
} from "@reachback/common";
import type { ClientOptions } from "./client-options.ts";
import type { ConnectionStream } from "./connection-stream.ts";
import type { DialAttempt } from "./dial-attempt.ts";
import type { Dialer } from "./dialer.ts";
import { ProxyCall } from "./proxy-call.ts";
import { ServerConnection } from "./server-connection.ts";
import { serverName } from "./server-socket.ts";

const UNCOUNTED: CarrierCounters = {
  sent: { count: () => undefined },
  received: { count: () => undefined },
};

/**
 * Dials through a gRPC frontend. Dials and connections that overlap in time share one HTTP/2
 * connection, those with `onRead` another one; it ends with the last of them.
 */
export class GrpcDialer implements Dialer {
  readonly #options: ClientOptions;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #target: GrpcCallTarget;
  /** More than one while an older one, which takes no more dials, still carries connections. */
  readonly #servers = new Set<ServerConnection>();

  constructor(options: ClientOptions, clock: Clock, random: Random) {
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
    this.#target = {
      path: "/ProxyService/Proxy",
      authority: "reachback",
      scheme: options.tls === undefined ? "http" : "https",
      userAgent: "reachback-client",
      metadata: offeredExtensions(FRONTEND_EXTENSIONS),
    };
  }

  async dial(attempt: DialAttempt): Promise<ConnectionStream> {
    attempt.step = `connecting to server ${serverName(this.#options)}`;
    const server = this.#usableServer(attempt.onRead === undefined ? "owned" : "borrowed");
    const http2 = await server.use(attempt.signal);
    attempt.step = "waiting for the server's answer";
    return this.#call(attempt, http2, () => {
      server.release();
    });
  }

  close(): void {
    for (const server of [...this.#servers]) server.destroy();
  }

  #usableServer(reading: ServerConnection["reading"]): ServerConnection {
    for (const server of this.#servers) {
      if (server.isUsable && server.reading === reading) return server;
    }
    const server = new ServerConnection(this.#options, reading, this.#clock, () => {
      this.#servers.delete(server);
    });
    this.#servers.add(server);
    return server;
  }

  #call(
    { endpoint, allowHalfOpen, onRead, signal }: DialAttempt,
    http2: Http2Connection,
    onOver: () => void,
  ): Promise<ConnectionStream> {
    return new Promise((resolve, reject) => {
      const dialId = this.#random.int63() as DialId;
      const call = new ProxyCall(dialId, { allowHalfOpen, onRead }, this.#clock, {
        dialed: resolve,
        dialFailed: reject,
        over: onOver,
      });
      const onAbort = () => {
        call.cancel();
        reject(signal.reason as Error);
      };
      call.dial(new GrpcClientCarrier(http2, this.#target, UNCOUNTED, call), endpoint);
      if (signal.aborted) onAbort();
      else signal.addEventListener("abort", onAbort, { once: true });
    });
  }
}
