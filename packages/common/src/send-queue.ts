import { recycledMemory } from "./recycled-memory.ts";

/** Places of taken buffers in front of the others, before those move up. */
const COMPACT_AFTER = 64;

/** What is no larger is the head of the buffers behind it; or a message, which may as well wait for those. */
const MAX_HEAD_BYTES = 64;

/** In the place of a buffer that was taken, so that its memory is not held. */
const TAKEN = Buffer.alloc(0);

/**
 * Behind so many buffers small ones are joined: each takes some 150 bytes beside its own, and bounds are on bytes, so what
 * is sent in single ones would otherwise take 150 times what may wait. Fewer are cheaper left as they are.
 */
export const JOINED_BEHIND = 256;
export const SMALL_BYTES = 512;

/** Memory that small buffers are joined in. */
const JOINED_BYTES = 4 * 1024;

/** Buffers waiting to be sent, taken from the front in any number of bytes; copied only if many small ones wait. */
export class SendQueue {
  #buffers: Buffer[] = [];
  #head = 0;
  #bytes = 0;
  /** What small buffers were last joined to. While it is the last one here, the memory behind it is free. */
  #joined: Buffer | undefined;

  get bytes(): number {
    return this.#bytes;
  }

  /** Queue `buffer`, which the caller leaves alone from now on. */
  push(buffer: Buffer): void {
    this.#bytes += buffer.length;
    const isJoined =
      buffer.length < SMALL_BYTES &&
      this.#buffers.length - this.#head >= JOINED_BEHIND &&
      this.#joinToLast(buffer);
    if (!isJoined) this.#buffers.push(buffer);
  }

  /**
   * Put `replacement` where `buffer` is, with so many buffers behind it. False, and nothing done, if that has
   * been taken, be it in part, or joined to others.
   */
  replace(buffer: Buffer, behind: number, replacement: Buffer): boolean {
    const at = this.#buffers.length - 1 - behind;
    if (this.#buffers[at] !== buffer) return false;
    this.#buffers[at] = replacement;
    this.#bytes += replacement.length - buffer.length;
    return true;
  }

  /**
   * The most bytes up to `limit` that can be taken without cutting a head and what is behind it up to the next
   * one; `limit` where the first is larger. More than that have to wait here.
   */
  uncutBytes(limit: number): number {
    let bytes = 0;
    let uncutBytes = 0;
    for (let at = this.#head; ; at++) {
      const { length } = this.#buffers[at]!;
      bytes += length;
      if (bytes > limit) break;
      const isHeadNext = this.#buffers[at + 1]!.length <= MAX_HEAD_BYTES;
      if (length > MAX_HEAD_BYTES && isHeadNext) uncutBytes = bytes;
    }
    return uncutBytes > 0 ? uncutBytes : limit;
  }

  /** The most bytes up to `limit` that can be taken without cutting a buffer; `limit` where the first is larger. */
  wholeBytes(limit: number): number {
    let bytes = 0;
    for (let at = this.#head; at < this.#buffers.length; at++) {
      const { length } = this.#buffers[at]!;
      if (bytes + length > limit) return bytes > 0 ? bytes : limit;
      bytes += length;
    }
    return bytes;
  }

  /** Move the first `bytes` (at most what waits here) to the end of `out`. */
  take(bytes: number, out: Buffer[]): void {
    this.#bytes -= bytes;
    let wanted = bytes;
    while (wanted > 0) {
      const first = this.#buffers[this.#head]!;
      if (first.length > wanted) {
        out.push(first.subarray(0, wanted));
        this.#buffers[this.#head] = first.subarray(wanted);
        break;
      }
      out.push(first);
      wanted -= first.length;
      this.#buffers[this.#head++] = TAKEN;
    }
    this.#forgetTaken();
  }

  /** Drop what waits here. */
  clear(): void {
    for (let i = this.#head; i < this.#buffers.length; i++) {
      recycledMemory.release(this.#buffers[i]!);
    }
    this.#buffers = [];
    this.#head = 0;
    this.#bytes = 0;
    this.#joined = undefined;
  }

  #joinToLast(buffer: Buffer): boolean {
    const at = this.#buffers.length - 1;
    const last = this.#buffers[at]!;
    const bytes = last.length + buffer.length;
    let joined: Buffer;
    if (last === this.#joined && bytes <= JOINED_BYTES) {
      joined = Buffer.from(last.buffer, 0, bytes);
    } else {
      if (last.length >= SMALL_BYTES) return false;
      joined = Buffer.allocUnsafeSlow(JOINED_BYTES).subarray(0, bytes);
      joined.set(last);
      recycledMemory.release(last);
    }
    joined.set(buffer, last.length);
    recycledMemory.release(buffer);
    this.#buffers[at] = joined;
    this.#joined = joined;
    return true;
  }

  #forgetTaken(): void {
    if (this.#head === this.#buffers.length) {
      this.#buffers.length = 0;
      this.#head = 0;
      this.#joined = undefined;
    } else if (this.#head >= COMPACT_AFTER) {
      this.#buffers.splice(0, this.#head);
      this.#head = 0;
    }
  }
}
