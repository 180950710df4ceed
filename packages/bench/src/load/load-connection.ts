import type { Duplex } from "node:stream";

/** What a task does with one of its connections. */
export interface LoadHandler {
  /** So many more bytes have come. What they are does not matter. */
  received(byteCount: number): void;
  /** {@link LoadConnection.send} takes bytes again. */
  room?(): void;
  /** It is over, and not because of {@link LoadConnection.destroy}. */
  closed(reason: string): void;
}

/** A connection to the endpoint, as a task uses it; it counts bytes and keeps none. */
export interface LoadConnection {
  handler: LoadHandler;
  /** Returns false when enough waits to be sent; {@link LoadHandler.room} follows. */
  send(bytes: Buffer): boolean;
  stopReading(): void;
  resumeReading(): void;
  destroy(): void;
}

/** Until the task takes over. */
export const IDLE_HANDLER: LoadHandler = {
  received: () => undefined,
  closed: () => undefined,
};

/** A stream whose bytes are counted by {@link StreamConnection.count}. */
export class StreamConnection implements LoadConnection {
  handler: LoadHandler = IDLE_HANDLER;
  readonly #stream: Duplex;
  #reason = "closed by the other side";
  #isDestroyed = false;

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on("drain", () => {
      this.handler.room?.();
    });
    stream.on("error", (error) => {
      this.#reason = error.message;
    });
    stream.on("close", () => {
      if (!this.#isDestroyed) this.handler.closed(this.#reason);
    });
  }

  count(byteCount: number): void {
    this.handler.received(byteCount);
  }

  send(bytes: Buffer): boolean {
    return this.#stream.write(bytes);
  }

  stopReading(): void {
    this.#stream.pause();
  }

  resumeReading(): void {
    this.#stream.resume();
  }

  destroy(): void {
    this.#isDestroyed = true;
    this.#stream.destroy();
  }
}
