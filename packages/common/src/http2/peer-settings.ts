import { DEFAULT_MAX_FRAME_BYTES, MAX_WINDOW_BYTES, Setting } from "./frame.ts";
import { Http2Error, Http2ErrorCode } from "./http2-error.ts";
import type { Outbox } from "./outbox.ts";
import type { StreamTable } from "./stream-table.ts";

/** The largest value of SETTINGS_MAX_FRAME_SIZE. */
const LARGEST_MAX_FRAME_BYTES = 0xff_ffff;

/**
 * Heed what the peer says in SETTINGS, one setting after the other (RFC 9113 section 6.5). Unknown
 * ones are passed over; so is its largest header list, which is advice: ours are small.
 *
 * @throws {Http2Error} A value that may not be.
 */
export function applyPeerSettings(payload: Buffer, streams: StreamTable, outbox: Outbox): void {
  if (payload.length % 6 !== 0) {
    throw new Http2Error(Http2ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a broken length");
  }
  for (let at = 0; at < payload.length; at += 6) {
    applySetting(payload.readUInt16BE(at), payload.readUInt32BE(at + 2), streams, outbox);
  }
}

function applySetting(id: number, value: number, streams: StreamTable, outbox: Outbox): void {
  switch (id) {
    case Setting.HEADER_TABLE_SIZE:
      outbox.setPeerHeaderTableBytes(value);
      return;
    case Setting.ENABLE_PUSH:
      if (value > 1) throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "bad ENABLE_PUSH");
      return;
    case Setting.MAX_CONCURRENT_STREAMS:
      streams.setPeerMaxStreams(value);
      return;
    case Setting.INITIAL_WINDOW_SIZE:
      if (value > MAX_WINDOW_BYTES) {
        throw new Http2Error(Http2ErrorCode.FLOW_CONTROL_ERROR, "bad INITIAL_WINDOW_SIZE");
      }
      streams.setInitialSendWindow(value);
      return;
    case Setting.MAX_FRAME_SIZE:
      if (value < DEFAULT_MAX_FRAME_BYTES || value > LARGEST_MAX_FRAME_BYTES) {
        throw new Http2Error(Http2ErrorCode.PROTOCOL_ERROR, "bad MAX_FRAME_SIZE");
      }
      outbox.setPeerMaxFrameBytes(value);
      return;
    default:
      return;
  }
}
