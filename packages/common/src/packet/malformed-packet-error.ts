/** A message that is no protobuf `Packet`. Ends the stream it came on, and nothing else. */
export class MalformedPacketError extends Error {
  override readonly name = "MalformedPacketError";

  /** @param message - Go's words, which are what upstream's servers answer. */
  constructor(message = "proto: cannot parse invalid wire-format data") {
    super(message);
  }
}
