import { MalformedPacketError } from "../packet/malformed-packet-error.ts";
import type { PacketDecoder } from "../packet/packet-decoder.ts";
import { MESSAGE_PREFIX_BYTES } from "../packet/packet-encoder.ts";
import { GrpcCode, GrpcError } from "./grpc-status.ts";

/** Largest gRPC message that is accepted, in bytes: the default of all gRPC implementations. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/**
 * Takes the body of a gRPC call apart into messages (a compression flag, a length, the bytes) and
 * feeds them to a {@link PacketDecoder}, in pieces of any size.
 */
export class GrpcMessageReader {
  readonly #decoder: PacketDecoder;
  readonly #prefix = Buffer.alloc(MESSAGE_PREFIX_BYTES);
  #prefixBytes = 0;
  #remaining = 0;
  #stopped = false;

  constructor(decoder: PacketDecoder) {
    this.#decoder = decoder;
  }

  /** Whether the body could end here: between two messages. */
  get atBoundary(): boolean {
    return this.#remaining === 0 && this.#prefixBytes === 0;
  }

  /** Hand out nothing more, not even what else is in the chunk being read. */
  stop(): void {
    this.#stopped = true;
  }

  /** @throws {GrpcError} The call cannot go on; the texts are grpc-go's. */
  push(chunk: Buffer): void {
    try {
      this.#push(chunk);
    } catch (error) {
      if (!(error instanceof MalformedPacketError)) throw error;
      throw new GrpcError(
        GrpcCode.INTERNAL,
        `grpc: failed to unmarshal the received message: ${error.message}`,
      );
    }
  }

  #push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && !this.#stopped) {
      if (this.#remaining === 0) {
        at = this.#readPrefix(chunk, at);
        if (this.#prefixBytes > 0) return;
      }
      if (this.#remaining > 0 && at < chunk.length) {
        const end = Math.min(chunk.length, at + this.#remaining);
        this.#remaining -= end - at;
        this.#decoder.push(chunk, at, end);
        at = end;
      }
    }
  }

  #readPrefix(chunk: Buffer, from: number): number {
    let prefix = chunk;
    let start = from;
    let at = from + MESSAGE_PREFIX_BYTES;
    if (this.#prefixBytes > 0 || at > chunk.length) {
      const taken = Math.min(MESSAGE_PREFIX_BYTES - this.#prefixBytes, chunk.length - from);
      chunk.copy(this.#prefix, this.#prefixBytes, from, from + taken);
      this.#prefixBytes += taken;
      at = from + taken;
      if (this.#prefixBytes < MESSAGE_PREFIX_BYTES) return at;
      this.#prefixBytes = 0;
      prefix = this.#prefix;
      start = 0;
    }
    const compressed = prefix.readUInt8(start);
    if (compressed === 1) {
      // Without a grpc-encoding that we know (there is none), this flag may not be set.
      throw new GrpcError(
        GrpcCode.INTERNAL,
        "grpc: compressed flag set with identity or empty encoding",
      );
    }
    if (compressed !== 0) {
      throw new GrpcError(
        GrpcCode.INTERNAL,
        `grpc: received unexpected payload format ${compressed}`,
      );
    }
    const bytes = prefix.readUInt32BE(start + 1);
    if (bytes > MAX_MESSAGE_BYTES) {
      throw new GrpcError(
        GrpcCode.RESOURCE_EXHAUSTED,
        `grpc: received message larger than max (${bytes} vs. ${MAX_MESSAGE_BYTES})`,
      );
    }
    this.#remaining = bytes;
    this.#decoder.begin(bytes);
    return at;
  }
}
