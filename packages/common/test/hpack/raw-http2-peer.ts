import type { Duplex } from "node:stream";

const FRAME_TYPE = { headers: 1, settings: 4, goaway: 7, continuation: 9 } as const;

const END_STREAM = 0x1;
const ACK = 0x1;
const END_HEADERS = 0x4;
const PADDED = 0x8;
const PRIORITY = 0x20;

const HEADER_TABLE_SIZE_ID = 1;

const FRAME_HEADER_BYTES = 9;
const PREFACE = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** What the other end sent, as far as HPACK is concerned. */
export type PeerEvent =
  | { readonly type: "block"; readonly streamId: number; readonly block: Buffer }
  | { readonly type: "settings"; readonly headerTableBytes: number | undefined }
  | { readonly type: "settingsAcknowledged" };

/**
 * One end of an HTTP/2 connection whose header blocks a test makes and reads itself. It does not
 * do flow control, and it acknowledges SETTINGS only when told to.
 */
export class RawHttp2Peer {
  readonly #socket: Duplex;
  readonly #role: "client" | "server";
  readonly #chunks: AsyncIterator<Buffer, unknown>;
  #received = Buffer.alloc(0);
  readonly #fragments: Buffer[] = [];
  #prefaceBytesDue: number;

  constructor(socket: Duplex, role: "client" | "server") {
    this.#socket = socket;
    this.#role = role;
    this.#chunks = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer, unknown>;
    this.#prefaceBytesDue = role === "server" ? PREFACE.length : 0;
  }

  /** Send what a connection begins with. */
  open(headerTableBytes?: number): void {
    if (this.#role === "client") this.#socket.write(PREFACE);
    const setting = Buffer.alloc(headerTableBytes === undefined ? 0 : 6);
    if (headerTableBytes !== undefined) {
      setting.writeUInt16BE(HEADER_TABLE_SIZE_ID, 0);
      setting.writeUInt32BE(headerTableBytes, 2);
    }
    this.#send(FRAME_TYPE.settings, 0, 0, setting);
  }

  acknowledgeSettings(): void {
    this.#send(FRAME_TYPE.settings, ACK, 0, Buffer.alloc(0));
  }

  /** Send a block of at most 16 KiB as a whole request or response. */
  sendBlock(streamId: number, block: Buffer): void {
    this.#send(FRAME_TYPE.headers, END_STREAM | END_HEADERS, streamId, block);
  }

  /** The next event. One call at a time; fails when the other end gives up. */
  async nextEvent(): Promise<PeerEvent> {
    while (true) {
      const { type, flags, streamId, payload } = await this.#nextFrame();
      switch (type) {
        case FRAME_TYPE.settings:
          if ((flags & ACK) !== 0) return { type: "settingsAcknowledged" };
          return { type: "settings", headerTableBytes: headerTableBytesIn(payload) };
        case FRAME_TYPE.headers:
        case FRAME_TYPE.continuation:
          this.#fragments.push(
            type === FRAME_TYPE.headers ? withoutPadding(flags, payload) : payload,
          );
          if ((flags & END_HEADERS) === 0) break;
          return { type: "block", streamId, block: Buffer.concat(this.#fragments.splice(0)) };
        case FRAME_TYPE.goaway:
          throw new Error(`the peer gave up with HTTP/2 error ${payload.readUInt32BE(4)}`);
      }
    }
  }

  close(): void {
    this.#socket.destroy();
  }

  async #nextFrame(): Promise<{ type: number; flags: number; streamId: number; payload: Buffer }> {
    await this.#take(this.#prefaceBytesDue);
    this.#prefaceBytesDue = 0;
    const header = await this.#take(FRAME_HEADER_BYTES);
    return {
      type: header.readUInt8(3),
      flags: header.readUInt8(4),
      streamId: header.readUInt32BE(5) & 0x7fff_ffff,
      payload: await this.#take(header.readUIntBE(0, 3)),
    };
  }

  async #take(bytes: number): Promise<Buffer> {
    while (this.#received.length < bytes) {
      const chunk = await this.#chunks.next();
      if (chunk.done === true) throw new Error("the peer closed the connection");
      this.#received = Buffer.concat([this.#received, chunk.value]);
    }
    const taken = this.#received.subarray(0, bytes);
    this.#received = this.#received.subarray(bytes);
    return taken;
  }

  #send(type: number, flags: number, streamId: number, payload: Buffer): void {
    const header = Buffer.alloc(FRAME_HEADER_BYTES);
    header.writeUIntBE(payload.length, 0, 3);
    header.writeUInt8(type, 3);
    header.writeUInt8(flags, 4);
    header.writeUInt32BE(streamId, 5);
    this.#socket.write(Buffer.concat([header, payload]));
  }
}

function headerTableBytesIn(settings: Buffer): number | undefined {
  let headerTableBytes: number | undefined;
  for (let at = 0; at < settings.length; at += 6) {
    if (settings.readUInt16BE(at) === HEADER_TABLE_SIZE_ID) {
      headerTableBytes = settings.readUInt32BE(at + 2);
    }
  }
  return headerTableBytes;
}

function withoutPadding(flags: number, payload: Buffer): Buffer {
  const padded = (flags & PADDED) !== 0;
  const start = (padded ? 1 : 0) + ((flags & PRIORITY) === 0 ? 0 : 5);
  return payload.subarray(start, payload.length - (padded ? payload.readUInt8(0) : 0));
}
