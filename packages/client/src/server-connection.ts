import { Http2Connection } from "@reachback/common";
import type { Clock, Http2Limits } from "@reachback/common";
import type { ClientOptions } from "./client-options.ts";
import { connectToServer } from "./server-socket.ts";

const KIB = 1024;

/** HTTP/2 towards the server: one stream per connection. See LIMITS.md. */
const LIMITS: Http2Limits = {
  streamWindowBytes: 1024 * KIB,
  connectionWindowBytes: 16 * 1024 * KIB,
  maxFrameBytes: 128 * KIB,
  maxStreams: 1,
  maxHeaderListBytes: 64 * KIB,
  writeHighWaterBytes: 256 * KIB,
};

/**
 * An HTTP/2 connection to the server, from the attempt to connect on. It lives as long as somebody
 * uses it: with the last one gone it is closed, or no longer attempted.
 */
export class ServerConnection {
  /** Who owns what its calls receive: the `reading` of an {@link Http2Connection}. */
  readonly reading: "borrowed" | "owned";
  readonly #connected: Promise<Http2Connection>;
  readonly #attempt = new AbortController();
  readonly #onOver: () => void;
  #http2: Http2Connection | undefined;
  #userCount = 0;
  #isOver = false;

  /** @param onOver - Called once, when it is closed or could not be had. */
  constructor(
    options: ClientOptions,
    reading: "borrowed" | "owned",
    clock: Clock,
    onOver: () => void,
  ) {
    this.reading = reading;
    this.#onOver = onOver;
    this.#connected = this.#connect(options, clock);
    // Those who wait are told; perhaps nobody does any more.
    this.#connected.catch(() => {
      this.#over();
    });
  }

  /** Whether one more dial may use it. */
  get isUsable(): boolean {
    return !this.#isOver && !this.#attempt.signal.aborted && this.#http2?.canRequest !== false;
  }

  /**
   * Use it from now on, until {@link release}. Resolves when it is connected.
   *
   * @throws {ClientError} if it cannot be, or what `signal` aborts with; it is released then.
   */
  async use(signal: AbortSignal): Promise<Http2Connection> {
    this.#userCount++;
    try {
      return await unlessAborted(this.#connected, signal);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  release(): void {
    this.#userCount--;
    if (this.#userCount > 0) return;
    this.#attempt.abort();
    this.#http2?.close();
  }

  /** End it at once, with all its calls. */
  destroy(): void {
    this.#attempt.abort();
    this.#http2?.destroy();
  }

  async #connect(options: ClientOptions, clock: Clock): Promise<Http2Connection> {
    const socket = await connectToServer(options, clock, this.#attempt.signal);
    const handler = {
      request: () => {
        throw new Error("a server cannot open streams");
      },
      goaway: () => {
        // No more dials over this one, see isUsable; those that are open live on.
      },
      closed: () => {
        this.#over();
      },
    };
    this.#http2 = new Http2Connection(socket, "client", LIMITS, clock, handler, this.reading);
    // Given up in the moment in which it was connected.
    if (this.#attempt.signal.aborted) this.#http2.destroy();
    return this.#http2;
  }

  #over(): void {
    this.#isOver = true;
    this.#onOver();
  }
}

/** `promise`, unless `signal` aborts first. */
function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      reject(signal.reason as Error);
    };
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort);
    promise.then(resolve, reject).finally(() => {
      signal.removeEventListener("abort", onAbort);
    });
  });
}
