/** What bytes are written to: `send` returns false when enough waits. */
export type SendBytes = (bytes: Buffer) => boolean;

/** One buffer for everything that is sent: nobody looks at the bytes. */
const FILLER = Buffer.alloc(256 * 1024, 0x5a);

/** Sends a given number of bytes, as fast as they are taken. */
export class ByteSource {
  readonly #send: SendBytes;
  #remainingBytes: number;

  constructor(byteCount: number, send: SendBytes) {
    this.#remainingBytes = byteCount;
    this.#send = send;
  }

  /** Send until no more is taken. To be called again whenever there is room. */
  pump(): void {
    let hasRoom = true;
    while (hasRoom && this.#remainingBytes > 0) {
      const piece =
        this.#remainingBytes >= FILLER.length ? FILLER : FILLER.subarray(0, this.#remainingBytes);
      this.#remainingBytes -= piece.length;
      hasRoom = this.#send(piece);
    }
  }
}
