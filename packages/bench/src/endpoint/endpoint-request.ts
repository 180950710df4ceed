/**
 * What a connection wants of the endpoint; the first thing it sends, so that one port serves every
 * scenario.
 *
 * - `ping`: answer one byte, and wait for another request.
 * - `source`: send this many bytes.
 * - `sink`: take this many bytes, and answer one byte for every {@link ACK_EVERY_BYTES} and one for
 *   what remains.
 * - `echo`: send back what comes.
 * - `exchange`: take this many bytes, these included, then send as many.
 * - `stall`: never read again.
 */
export type EndpointService = "ping" | "source" | "sink" | "echo" | "exchange" | "stall";

export interface EndpointRequest {
  readonly service: EndpointService;
  readonly byteCount: number;
}

export const REQUEST_BYTES = 16;
export const ACK_EVERY_BYTES = 4 * 1024 * 1024;

const MAGIC = 0x52_42_42_31;
const SERVICES: readonly EndpointService[] = [
  "ping",
  "source",
  "sink",
  "echo",
  "exchange",
  "stall",
];

export function encodeRequest({ service, byteCount }: EndpointRequest): Buffer {
  const bytes = Buffer.alloc(REQUEST_BYTES);
  bytes.writeUInt32BE(MAGIC, 0);
  bytes.writeUInt32BE(SERVICES.indexOf(service), 4);
  bytes.writeDoubleBE(byteCount, 8);
  return bytes;
}

/** @throws {Error} if these are not the bytes of a request: something on the way has changed them. */
export function decodeRequest(bytes: Buffer): EndpointRequest {
  const service = SERVICES[bytes.readUInt32BE(4)];
  if (bytes.readUInt32BE(0) !== MAGIC || service === undefined) {
    throw new Error(`not a request: ${bytes.toString("hex", 0, REQUEST_BYTES)}`);
  }
  return { service, byteCount: bytes.readDoubleBE(8) };
}

/** How many bytes a sink has taken, as far as `ackCount` of its answers tell. */
export function acknowledgedBytes(ackCount: number, byteCount: number): number {
  return Math.min(ackCount * ACK_EVERY_BYTES, byteCount);
}
