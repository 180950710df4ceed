import { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { CLIENT_PREFACE, FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { http2ErrorName } from "../../src/http2/http2-error.ts";

// Frames as RFC 9113 section 4.1 draws them, made and read apart from the code under test.

const HEADER_BYTES = 9;

export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
  /** In words, e.g. `DATA 1 of 5 END_STREAM` or `RST_STREAM 3 CANCEL`. */
  readonly text: string;
}

export function frameBytes(
  type: number,
  flags: number,
  streamId: number,
  payload: Uint8Array = Buffer.alloc(0),
): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUIntBE(payload.length, 0, 3);
  header.writeUInt8(type, 3);
  header.writeUInt8(flags, 4);
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

/** `payload` as a padded frame carries it. */
export function padded(payload: Uint8Array, paddingBytes: number): Buffer {
  return Buffer.concat([Buffer.from([paddingBytes]), payload, Buffer.alloc(paddingBytes)]);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Payload of a SETTINGS frame. */
export function settingsPayload(settings: Readonly<Record<number, number>>): Buffer {
  return Buffer.concat(
    Object.entries(settings).map(([id, value]) => {
      const entry = Buffer.alloc(6);
      entry.writeUInt16BE(Number(id), 0);
      entry.writeUInt32BE(value, 2);
      return entry;
    }),
  );
}

const SETTING_NAMES = [
  "?",
  "HEADER_TABLE_SIZE",
  "ENABLE_PUSH",
  "MAX_CONCURRENT_STREAMS",
  "INITIAL_WINDOW_SIZE",
  "MAX_FRAME_SIZE",
  "MAX_HEADER_LIST_SIZE",
];

/** Reads what one end of a connection sends, in pieces of any size. */
export class FrameLog {
  readonly #decoder: HpackDecoder;
  #bytes: Buffer = Buffer.alloc(0);
  #prefaceDue: boolean;
  readonly #block: Buffer[] = [];

  /** @param side - Whose bytes these are: a client's begin with the preface. */
  constructor(side: "client" | "server", maxTableBytes = 4096) {
    this.#prefaceDue = side === "client";
    this.#decoder = new HpackDecoder({ maxTableBytes });
  }

  /** The frames that are complete with `bytes`. */
  push(bytes: Buffer): Frame[] {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    if (this.#prefaceDue) {
      if (this.#bytes.length < CLIENT_PREFACE.length) return [];
      const preface = this.#bytes.subarray(0, CLIENT_PREFACE.length);
      if (!preface.equals(CLIENT_PREFACE)) throw new Error(`no preface: ${preface.toString()}`);
      this.#prefaceDue = false;
      this.#bytes = this.#bytes.subarray(CLIENT_PREFACE.length);
    }
    const frames: Frame[] = [];
    while (this.#bytes.length >= HEADER_BYTES) {
      const end = HEADER_BYTES + this.#bytes.readUIntBE(0, 3);
      if (this.#bytes.length < end) break;
      const frame = {
        type: this.#bytes.readUInt8(3),
        flags: this.#bytes.readUInt8(4),
        streamId: this.#bytes.readUInt32BE(5),
        payload: this.#bytes.subarray(HEADER_BYTES, end),
      };
      frames.push({ ...frame, text: this.#textOf(frame) });
      this.#bytes = this.#bytes.subarray(end);
    }
    return frames;
  }

  #textOf({ type, flags, streamId, payload }: Omit<Frame, "text">): string {
    const has = (flag: number, name: string) => ((flags & flag) === 0 ? "" : ` ${name}`);
    switch (type) {
      case FrameType.DATA:
        return `DATA ${streamId} of ${payload.length}${has(FrameFlag.END_STREAM, "END_STREAM")}`;
      case FrameType.HEADERS:
      case FrameType.CONTINUATION: {
        const name = type === FrameType.HEADERS ? "HEADERS" : "CONTINUATION";
        const fields = this.#fields(payload, (flags & FrameFlag.END_HEADERS) !== 0);
        const end = type === FrameType.HEADERS ? has(FrameFlag.END_STREAM, "END_STREAM") : "";
        return `${name} ${streamId}${fields}${end}`;
      }
      case FrameType.RST_STREAM:
        return `RST_STREAM ${streamId} ${http2ErrorName(payload.readUInt32BE(0))}`;
      case FrameType.SETTINGS:
        return (flags & FrameFlag.ACK) === 0
          ? `SETTINGS ${settingsText(payload)}`
          : `SETTINGS ack${payload.length === 0 ? "" : " with payload"}`;
      case FrameType.PING:
        return `PING${has(FrameFlag.ACK, "ack")} ${payload.toString("hex")}`;
      case FrameType.GOAWAY: {
        const code = http2ErrorName(payload.readUInt32BE(4));
        return `GOAWAY last ${payload.readUInt32BE(0)} ${code} ${payload.toString("utf8", 8)}`.trim();
      }
      case FrameType.WINDOW_UPDATE:
        return `WINDOW_UPDATE ${streamId} +${payload.readUInt32BE(0)}`;
      default:
        return `frame of type ${type}`;
    }
  }

  #fields(fragment: Buffer, isLast: boolean): string {
    this.#block.push(fragment);
    if (!isLast) return " ...";
    const block = this.#decoder.decode(Buffer.concat(this.#block.splice(0)));
    if (block.tooLarge) return " too large";
    return block.headers.map(([name, value]) => ` ${name}=${value}`).join("");
  }
}

function settingsText(payload: Buffer): string {
  const settings: string[] = [];
  for (let at = 0; at < payload.length; at += 6) {
    const id = payload.readUInt16BE(at);
    settings.push(`${SETTING_NAMES[id] ?? id}=${payload.readUInt32BE(at + 2)}`);
  }
  return settings.join(" ");
}
