import { DataHeadReader, MAX_DATA_HEAD_BYTES, NOT_PLAIN_DATA } from "./data-head-reader.ts";
import { PacketType } from "./packet.ts";
import type { PacketCounter, PacketHandler } from "./packet.ts";
import { WholePacketDecoder } from "./whole-packet-decoder.ts";

const EMPTY = Buffer.alloc(0);

/**
 * Reads packets from messages that arrive in pieces of any size.
 *
 * A DATA packet in the form every known peer writes (see {@link DataHeadReader}) is cut through: its
 * bytes go to the handler as they arrive, as views. Every other packet, field order or unknown field
 * takes the slow path, which collects the message first (see {@link WholePacketDecoder}).
 */
export class PacketDecoder {
  readonly #handler: PacketHandler;
  readonly #counter: PacketCounter;
  readonly #dataHead = new DataHeadReader();
  readonly #wholePackets: WholePacketDecoder;

  /** Bytes of the current message that have not been pushed yet. */
  #remaining = 0;
  #messageBytes = 0;
  /** Whether the rest of the message is payload of the connection that its head names. */
  #streaming = false;
  #pieceSeen = false;
  /** Whether the message is known to need the slow path. */
  #slow = false;
  /** What was pushed of a message that could not be decided or decoded yet. */
  #held: Buffer = EMPTY;
  #heldBytes = 0;

  constructor(handler: PacketHandler, counter: PacketCounter) {
    this.#handler = handler;
    this.#counter = counter;
    this.#wholePackets = new WholePacketDecoder(handler, counter);
  }

  /** Whether the last message begun has been pushed to its end. */
  get idle(): boolean {
    return this.#remaining === 0;
  }

  /** Begin a message of `messageBytes`; the one before must be complete. */
  begin(messageBytes: number): void {
    this.#remaining = messageBytes;
    this.#messageBytes = messageBytes;
    this.#streaming = false;
    this.#slow = false;
    this.#heldBytes = 0;
    if (messageBytes === 0) this.#wholePackets.decode(EMPTY, 0, 0);
  }

  /**
   * Take the next bytes of the current message, `bytes[start..end)`; never beyond its end.
   *
   * @throws {MalformedPacketError} The stream cannot go on.
   */
  push(bytes: Buffer, start: number, end: number): void {
    this.#remaining -= end - start;
    if (this.#streaming) {
      this.#handler.data(this.#dataHead.connectionId, bytes.subarray(start, end), !this.#pieceSeen);
      this.#pieceSeen = true;
      return;
    }
    if (this.#heldBytes > 0 || this.#slow) {
      this.#hold(bytes, start, end);
      this.#pushHeld();
      return;
    }
    const payloadStart = this.#dataHead.read(bytes, start, end, this.#messageBytes);
    if (payloadStart >= 0) {
      this.#stream(bytes, payloadStart, end);
      return;
    }
    if (this.#remaining === 0) {
      this.#wholePackets.decode(bytes, start, end);
      return;
    }
    this.#slow = payloadStart === NOT_PLAIN_DATA;
    this.#hold(bytes, start, end);
  }

  /** Go on with a message whose beginning is in {@link #held}. */
  #pushHeld(): void {
    if (!this.#slow) {
      const payloadStart = this.#dataHead.read(this.#held, 0, this.#heldBytes, this.#messageBytes);
      if (payloadStart >= 0) {
        // The view handed on must survive the next message's use of the buffer.
        const held = this.#held;
        this.#held = EMPTY;
        const heldBytes = this.#heldBytes;
        this.#heldBytes = 0;
        this.#stream(held, payloadStart, heldBytes);
        return;
      }
      this.#slow = payloadStart === NOT_PLAIN_DATA;
    }
    if (this.#remaining === 0) {
      const held = this.#held;
      this.#held = EMPTY;
      this.#wholePackets.decode(held, 0, this.#heldBytes);
      this.#heldBytes = 0;
    }
  }

  #stream(bytes: Buffer, start: number, end: number): void {
    this.#counter.count(PacketType.DATA);
    this.#streaming = true;
    this.#pieceSeen = end > start;
    if (!this.#pieceSeen) return;
    this.#handler.data(this.#dataHead.connectionId, bytes.subarray(start, end), true);
  }

  #hold(bytes: Buffer, start: number, end: number): void {
    const needed = this.#heldBytes + end - start;
    if (needed > this.#held.length) {
      // Doubling, so that neither an announced length nor one-byte pieces cost more than they bring.
      const capacity = Math.max(MAX_DATA_HEAD_BYTES, needed, this.#held.length * 2);
      const larger = Buffer.allocUnsafeSlow(Math.min(capacity, this.#messageBytes));
      this.#held.copy(larger, 0, 0, this.#heldBytes);
      this.#held = larger;
    }
    bytes.copy(this.#held, this.#heldBytes, start, end);
    this.#heldBytes = needed;
  }
}
