import { GrpcClientCarrier, Http2Connection } from "@reachback/common";
import type { CarrierCounters, Clock, DialId, Http2Limits, Random } from "@reachback/common";
import { ClientError } from "./client-error.ts";
import type { ClientOptions } from "./client-options.ts";
import type { ConnectionStream } from "./connection-stream.ts";
import { ProxyCall } from "./proxy-call.ts";
import { connectToServer, serverName } from "./server-socket.ts";

const KIB = 1024;

/** HTTP/2 towards the server: one stream per connection. See LIMITS.md. */
const LIMITS: Http2Limits = {
  streamWindowBytes: 1024 * KIB,
  connectionWindowBytes: 16 * 1024 * KIB,
  maxFrameBytes: 65 * KIB,
  maxStreams: 1,
  maxHeaderListBytes: 64 * KIB,
  writeHighWaterBytes: 256 * KIB,
};

const UNCOUNTED: CarrierCounters = {
  sent: { count: () => undefined },
  received: { count: () => undefined },
};

/**
 * Dials through a gRPC frontend. Dials and connections that overlap in time share one HTTP/2
 * connection; it ends with the last of them.
 */
export class GrpcDialer {
  readonly #options: ClientOptions;
  readonly #clock: Clock;
  readonly #random: Random;
  #connection: Http2Connection | undefined;
  #connecting: Promise<Http2Connection> | undefined;
  #dialCount = 0;

  constructor(options: ClientOptions, clock: Clock, random: Random) {
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
  }

  /** @throws {ClientError}, or `signal`'s reason when it aborts. */
  async dial(
    endpoint: string,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<ConnectionStream> {
    const startedAtMs = this.#clock.now();
    this.#dialCount++;
    try {
      const connection = await this.#connected(timeoutMs, signal);
      signal?.throwIfAborted();
      const remainingMs = timeoutMs - (this.#clock.now() - startedAtMs);
      return await this.#call(connection, endpoint, remainingMs, signal);
    } finally {
      this.#dialCount--;
      this.#closeIfUnused();
    }
  }

  /** End every connection. */
  close(): void {
    this.#connection?.destroy();
  }

  /** The connection there is, or a new one; concurrent dials wait for the same. */
  #connected(timeoutMs: number, signal: AbortSignal | undefined): Promise<Http2Connection> {
    if (this.#connection?.canRequest === true) return Promise.resolve(this.#connection);
    // A dial that is given up must not take the others with it, so only the first one's time counts.
    this.#connecting ??= this.#connect(timeoutMs).finally(() => {
      this.#connecting = undefined;
    });
    return signal === undefined ? this.#connecting : abortable(this.#connecting, signal);
  }

  async #connect(timeoutMs: number): Promise<Http2Connection> {
    const socket = await connectToServer(this.#options, timeoutMs, this.#clock, undefined);
    const connection = new Http2Connection(socket, "client", LIMITS, this.#clock, {
      request: () => {
        throw new Error("a server cannot open streams");
      },
      goaway: () => {
        // No more dials over this one; those that are open live on.
        if (this.#connection === connection) this.#connection = undefined;
      },
      closed: () => {
        if (this.#connection === connection) this.#connection = undefined;
      },
    });
    this.#connection = connection;
    return connection;
  }

  #call(
    connection: Http2Connection,
    endpoint: string,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<ConnectionStream> {
    return new Promise((resolve, reject) => {
      const settle = (outcome: ConnectionStream | Error) => {
        cancelTimer();
        signal?.removeEventListener("abort", onAbort);
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      };
      const call = new ProxyCall(this.#random.int63() as DialId, settle, () => {
        // The stream is forgotten behind this call.
        queueMicrotask(() => {
          this.#closeIfUnused();
        });
      });
      const onAbort = () => {
        call.cancel(signal?.reason as Error);
      };
      const cancelTimer = this.#clock.schedule(timeoutMs, () => {
        const text = `no answer for ${endpoint} in time from ${serverName(this.#options)}`;
        call.cancel(new ClientError("ERR_DIAL_TIMEOUT", text));
      });
      signal?.addEventListener("abort", onAbort);
      const target = {
        path: "/ProxyService/Proxy",
        authority: "reachback",
        scheme: this.#options.tls === undefined ? ("http" as const) : ("https" as const),
        userAgent: "reachback-client",
        metadata: [],
      };
      call.dial(new GrpcClientCarrier(connection, target, UNCOUNTED, call), endpoint);
    });
  }

  #closeIfUnused(): void {
    if (this.#dialCount === 0 && this.#connection?.streamCount === 0) {
      this.#connection.close();
      this.#connection = undefined;
    }
  }
}

/** `promise`, unless `signal` aborts first. */
function abortable<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason as Error);
    };
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", onAbort);
    });
  });
}
