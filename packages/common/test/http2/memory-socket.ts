import { Duplex } from "node:stream";
import type { Socket } from "node:net";

type Chunk = Readonly<{ chunk: Buffer; encoding: BufferEncoding }>;

/**
 * A socket with no system under it: the test is the other end. It delivers bytes when the test says
 * so, shows each write as the system would have seen it, and stops taking them on demand.
 */
export class MemorySocket extends Duplex {
  /** One entry for each write that the system would have been asked for, with its buffers. */
  readonly writes: Buffer[][] = [];

  /** As of a TCP socket; others have none. */
  readonly localAddress: string | undefined;

  /** Told of each write as it happens. */
  onWrite: (buffers: readonly Buffer[]) => void = () => undefined;

  #isStalled = false;
  #take: (() => void) | undefined;

  constructor(localAddress?: string) {
    super({ allowHalfOpen: true });
    this.localAddress = localAddress;
  }

  get asSocket(): Socket {
    return this as unknown as Socket;
  }

  /** Everything that has been written. */
  get written(): Buffer {
    return Buffer.concat(this.writes.flat());
  }

  /** Bytes arrive from the other end, in memory that is overwritten then. */
  receive(...bytes: readonly Buffer[]): void {
    for (const piece of bytes) {
      if (this.destroyed) return;
      const borrowed = Buffer.from(piece);
      this.emit("data", borrowed);
      borrowed.fill(0xee);
    }
  }

  /** The other end finishes sending. */
  receiveEnd(): void {
    this.push(null);
  }

  /** The other end stops reading, or reads again. A write that it has not taken keeps waiting. */
  stall(isStalled = true): void {
    this.#isStalled = isStalled;
    if (!isStalled) this.takeWrite();
  }

  /** Take the one write that waits; the next will wait as well. */
  takeWrite(): void {
    const take = this.#take;
    this.#take = undefined;
    take?.();
  }

  override _read(): void {
    // The test decides when bytes arrive.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, taken: () => void): void {
    this.#write([chunk], taken);
  }

  override _writev(chunks: Chunk[], taken: () => void): void {
    this.#write(
      chunks.map(({ chunk }) => chunk),
      taken,
    );
  }

  #write(buffers: Buffer[], taken: () => void): void {
    this.writes.push(buffers);
    if (this.#isStalled) this.#take = taken;
    else taken();
    this.onWrite(buffers);
  }
}
