import type { TestContext } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { HpackEncoder } from "../../src/hpack/hpack-encoder.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { CLIENT_PREFACE, FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { Http2Connection } from "../../src/http2/http2-connection.ts";
import type { Http2Limits } from "../../src/http2/http2-limits.ts";
import { http2ErrorName } from "../../src/http2/http2-error.ts";
import type { Http2Stream } from "../../src/http2/http2-stream.ts";
import type { Http2StreamHandler, StreamClose } from "../../src/http2/http2-stream-handler.ts";
import { FrameLog, frameBytes, settingsPayload, uint32 } from "./frames.ts";
import type { Frame } from "./frames.ts";
import { MemorySocket } from "./memory-socket.ts";

export const REQUEST: HeaderList = [
  [":method", "POST"],
  [":scheme", "http"],
  [":path", "/"],
];

export const LIMITS: Http2Limits = {
  streamWindowBytes: 100_000,
  connectionWindowBytes: 1_000_000,
  maxFrameBytes: 16_384,
  maxStreams: 100,
  maxHeaderListBytes: 8_192,
  writeHighWaterBytes: 64 * 1024,
};

/** The other end of an `Http2Connection`, which says frame by frame what the test wants it to. */
export class RawPeer {
  readonly socket: MemorySocket;
  readonly #log: FrameLog;
  readonly #encoder = new HpackEncoder({ maxTableBytes: 0 });
  #readWrites = 0;

  /**
   * @param side - The peer's own.
   * @param localAddress - Of the connection's end, where it is over TCP.
   */
  constructor(side: "client" | "server", localAddress?: string) {
    this.socket = new MemorySocket(localAddress);
    this.#log = new FrameLog(side === "client" ? "server" : "client");
  }

  send(type: number, flags: number, streamId: number, payload?: Uint8Array): void {
    this.socket.receive(frameBytes(type, flags, streamId, payload));
  }

  sendSettings(settings: Readonly<Record<number, number>> = {}): void {
    this.send(FrameType.SETTINGS, 0, 0, settingsPayload(settings));
  }

  sendHeaders(streamId: number, headers: HeaderList, endStream = false): void {
    this.socket.receive(this.headersFrame(streamId, headers, endStream));
  }

  headersFrame(streamId: number, headers: HeaderList, endStream = false): Buffer {
    const flags = FrameFlag.END_HEADERS | (endStream ? FrameFlag.END_STREAM : 0);
    return frameBytes(FrameType.HEADERS, flags, streamId, this.#encoder.encode(headers));
  }

  block(headers: HeaderList): Buffer {
    return this.#encoder.encode(headers);
  }

  sendData(streamId: number, payload: Uint8Array, endStream = false): void {
    this.send(FrameType.DATA, endStream ? FrameFlag.END_STREAM : 0, streamId, payload);
  }

  sendReset(streamId: number, code: number): void {
    this.send(FrameType.RST_STREAM, 0, streamId, uint32(code));
  }

  sendWindowUpdate(streamId: number, bytes: number): void {
    this.send(FrameType.WINDOW_UPDATE, 0, streamId, uint32(bytes));
  }

  sendPing(payload: string, flags = 0): void {
    this.send(FrameType.PING, flags, 0, Buffer.from(payload, "latin1"));
  }

  sendGoaway(lastStreamId: number, code: number, debug = ""): void {
    const payload = Buffer.concat([uint32(lastStreamId), uint32(code), Buffer.from(debug)]);
    this.send(FrameType.GOAWAY, 0, 0, payload);
  }

  /** The frames that the connection has sent since the last look, once it has nothing more to do. */
  async frames(): Promise<Frame[]> {
    await this.settled();
    const writes = this.socket.writes.slice(this.#readWrites);
    this.#readWrites += writes.length;
    return this.#log.push(Buffer.concat(writes.flat()));
  }

  /** {@link frames}, in words. */
  async seen(): Promise<string[]> {
    return (await this.frames()).map((frame) => frame.text);
  }

  /** Wait until the connection neither writes nor takes anything any more. */
  async settled(): Promise<void> {
    for (let quietTurns = 0; quietTurns < 3; quietTurns++) {
      const writesBefore = this.socket.writes.length;
      await new Promise((resolve) => setImmediate(resolve));
      if (this.socket.writes.length > writesBefore) quietTurns = -1;
    }
  }
}

/** A stream's owner that writes down what it is told. */
export class RecordedStream implements Http2StreamHandler {
  readonly stream: Http2Stream;
  readonly events: string[] = [];
  readonly pieces: Buffer[] = [];
  /** How often something is said to have left. */
  sentCount = 0;
  /** Whether what is received is given back at once. */
  consumes = true;
  onEnded: () => void = () => undefined;
  onDrained: () => void = () => undefined;
  onClosed: () => void = () => undefined;

  constructor(stream: Http2Stream) {
    this.stream = stream;
  }

  get received(): Buffer {
    return Buffer.concat(this.pieces);
  }

  headers(headers: HeaderList, endStream: boolean): void {
    const fields = headers.map(([name, value]) => ` ${name}=${value}`).join("");
    this.events.push(`headers${fields}${endStream ? " END_STREAM" : ""}`);
  }

  data(piece: Buffer): void {
    this.pieces.push(Buffer.from(piece));
    if (this.consumes) this.stream.consumed(piece.length);
  }

  ended(): void {
    this.events.push("ended");
    this.onEnded();
  }

  sent(): void {
    this.sentCount++;
  }

  drained(): void {
    this.events.push("drained");
    this.onDrained();
  }

  closed(reason: StreamClose): void {
    this.events.push(`closed: ${closeText(reason)}`);
    this.onClosed();
  }
}

function closeText(reason: StreamClose): string {
  switch (reason.kind) {
    case "finished":
      return "finished";
    case "reset":
      return `reset by ${reason.byPeer ? "peer" : "us"} ${http2ErrorName(reason.code)}`;
    case "connection":
      return `connection ${reason.error?.message ?? "closed"}`;
  }
}

export interface TestConnection {
  readonly connection: Http2Connection;
  readonly peer: RawPeer;
  readonly clock: ManualClock;
  /** Streams in the order in which they began. */
  readonly streams: RecordedStream[];
  /** What the connection's owner is told. */
  readonly events: string[];
  /** What the owner of a connection does with a stream while it makes the stream's owner. */
  onRequest: (recorded: RecordedStream) => void;
  /** Begin a request (clients only). */
  readonly request: (headers?: HeaderList) => RecordedStream;
}

function open(
  t: TestContext,
  side: "client" | "server",
  limits: Partial<Http2Limits>,
  localAddress?: string,
): TestConnection {
  const peer = new RawPeer(side === "server" ? "client" : "server", localAddress);
  const clock = new ManualClock();
  const streams: RecordedStream[] = [];
  const events: string[] = [];
  const connection = new Http2Connection(
    peer.socket.asSocket,
    side,
    { ...LIMITS, ...limits },
    clock,
    {
      request(stream, headers, endStream) {
        const recorded = new RecordedStream(stream);
        recorded.headers(headers, endStream);
        streams.push(recorded);
        opened.onRequest(recorded);
        return recorded;
      },
      goaway: (code, debug) => {
        events.push(`goaway ${http2ErrorName(code)} ${debug}`.trim());
      },
      closed: (error) => {
        events.push(`closed: ${error?.message ?? "in order"}`);
      },
    },
  );
  t.after(() => {
    connection.destroy();
    peer.socket.destroy();
  });
  const request = (headers: HeaderList = REQUEST) => {
    const delegate: { to?: RecordedStream } = {};
    const stream = connection.request(headers, {
      headers: (fields, endStream) => delegate.to?.headers(fields, endStream),
      data: (piece) => delegate.to?.data(piece),
      ended: () => delegate.to?.ended(),
      sent: () => delegate.to?.sent(),
      drained: () => delegate.to?.drained(),
      closed: (reason) => delegate.to?.closed(reason),
    });
    delegate.to = new RecordedStream(stream);
    streams.push(delegate.to);
    return delegate.to;
  };
  const opened: TestConnection = {
    connection,
    peer,
    clock,
    streams,
    events,
    onRequest: () => undefined,
    request,
  };
  return opened;
}

/** A server that has said nothing yet, and that nothing has been said to. */
export function openFreshServer(t: TestContext, limits: Partial<Http2Limits> = {}): TestConnection {
  return open(t, "server", limits);
}

/** A server that has exchanged prefaces with its peer. */
export async function openServer(
  t: TestContext,
  limits: Partial<Http2Limits> = {},
  peerSettings: Readonly<Record<number, number>> = {},
): Promise<TestConnection> {
  const opened = open(t, "server", limits);
  opened.peer.socket.receive(CLIENT_PREFACE);
  opened.peer.sendSettings(peerSettings);
  opened.peer.send(FrameType.SETTINGS, FrameFlag.ACK, 0);
  await opened.peer.frames();
  return opened;
}

/** A client that has exchanged prefaces with its peer. */
export async function openClient(
  t: TestContext,
  limits: Partial<Http2Limits> = {},
  peerSettings: Readonly<Record<number, number>> = {},
  localAddress?: string,
): Promise<TestConnection> {
  const opened = open(t, "client", limits, localAddress);
  opened.peer.sendSettings(peerSettings);
  opened.peer.send(FrameType.SETTINGS, FrameFlag.ACK, 0);
  await opened.peer.frames();
  return opened;
}
