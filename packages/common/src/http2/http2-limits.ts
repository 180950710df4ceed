/** Every bound of one connection. See LIMITS.md for what each default is for. */
export interface Http2Limits {
  /** Receive window of each stream, in bytes; 65535 or more. */
  readonly streamWindowBytes: number;
  /** Receive window of the connection, in bytes; 65535 or more. Given back as data arrives. */
  readonly connectionWindowBytes: number;
  /** Largest frame that we accept (SETTINGS_MAX_FRAME_SIZE), in bytes: 16384 to 16777215. */
  readonly maxFrameBytes: number;
  /** Streams that the peer may have open at a time; more are refused with REFUSED_STREAM. */
  readonly maxStreams: number;
  /** Largest header list, in bytes as RFC 9113 section 6.5.2 counts them; beyond: status 431. */
  readonly maxHeaderListBytes: number;
  /** Bytes that may wait on one stream before its `write` says stop. */
  readonly writeHighWaterBytes: number;
}
