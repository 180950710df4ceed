import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import http2 from "node:http2";
import type {
  ClientHttp2Session,
  ClientSessionOptions,
  ServerHttp2Session,
  ServerHttp2Stream,
  ServerOptions,
} from "node:http2";
import { connect as connectTcp, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { systemClock } from "../../src/clock.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { Http2Connection } from "../../src/http2/http2-connection.ts";
import type { Http2Limits } from "../../src/http2/http2-limits.ts";
import { Http2ErrorCode } from "../../src/http2/http2-error.ts";
import type { Http2Stream } from "../../src/http2/http2-stream.ts";
import type { Http2StreamHandler, StreamClose } from "../../src/http2/http2-stream-handler.ts";
import { LIMITS as SMALL_LIMITS } from "./raw-peer.ts";

// Node's own HTTP/2 (nghttp2) at the other end of a loopback connection: an implementation that is
// not ours, and that can do what grpc-js does not.

const MIB = 1024 * 1024;
const LIMITS: Http2Limits = { ...SMALL_LIMITS, maxStreams: 1_000 };
const OK: HeaderList = [[":status", "200"]];
const REQUEST: HeaderList = [
  [":method", "POST"],
  [":scheme", "http"],
  [":authority", "localhost"],
  [":path", "/"],
];

/** Echoes a stream's body at the pace of both ends, and ends with trailers that say how much. */
class Echo implements Http2StreamHandler {
  readonly #stream: Http2Stream;
  readonly whenClosed: Promise<StreamClose>;
  #resolveClosed: (reason: StreamClose) => void = () => undefined;
  #bytes = 0;
  #heldBackBytes = 0;
  #isPaused = false;

  constructor(stream: Http2Stream) {
    this.#stream = stream;
    this.whenClosed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  headers(): void {
    // Trailers of the request.
  }

  data(piece: Buffer): void {
    this.#bytes += piece.length;
    if (!this.#stream.write(Buffer.from(piece))) this.#isPaused = true;
    if (this.#isPaused) this.#heldBackBytes += piece.length;
    else this.#stream.consumed(piece.length);
  }

  ended(): void {
    this.#stream.finish([["bytes", String(this.#bytes)]]);
  }

  sent(): void {
    // Of no interest here.
  }

  drained(): void {
    this.#isPaused = false;
    this.#stream.consumed(this.#heldBackBytes);
    this.#heldBackBytes = 0;
  }

  closed(reason: StreamClose): void {
    this.#resolveClosed(reason);
  }
}

/** Collects a response. */
class Response implements Http2StreamHandler {
  readonly stream: Http2Stream;
  readonly hash = createHash("sha256");
  readonly lists: HeaderList[] = [];
  bytes = 0;
  readonly whenClosed: Promise<StreamClose>;
  #resolveClosed: (reason: StreamClose) => void = () => undefined;
  onDrained: () => void = () => undefined;

  constructor(connection: Http2Connection, headers: HeaderList = REQUEST) {
    this.whenClosed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
    this.stream = connection.request(headers, this);
  }

  headers(headers: HeaderList): void {
    this.lists.push(headers);
  }

  data(piece: Buffer): void {
    this.bytes += piece.length;
    this.hash.update(piece);
    this.stream.consumed(piece.length);
  }

  ended(): void {
    this.stream.leave();
  }

  sent(): void {
    // Of no interest here.
  }

  drained(): void {
    this.onDrained();
  }

  closed(reason: StreamClose): void {
    this.#resolveClosed(reason);
  }

  /** Write a body at the server's pace, and end. */
  send(body: Buffer): void {
    let at = 0;
    const sendMore = () => {
      while (at < body.length) {
        const piece = body.subarray(at, at + 30_000);
        at += piece.length;
        if (!this.stream.write(piece)) return;
      }
      this.stream.end();
    };
    this.onDrained = sendMore;
    sendMore();
  }
}

function digest(body: Buffer): string {
  return createHash("sha256").update(body).digest("hex");
}

interface OurServer {
  readonly streams: Echo[];
  readonly connections: Http2Connection[];
  readonly connect: (options?: ClientSessionOptions) => ClientHttp2Session;
}

/** A server of ours that echoes, and node:http2 clients for it. */
async function ourServer(t: TestContext, limits: Partial<Http2Limits> = {}): Promise<OurServer> {
  const streams: Echo[] = [];
  const connections: Http2Connection[] = [];
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    connections.push(
      new Http2Connection(socket, "server", { ...LIMITS, ...limits }, systemClock, {
        request(stream) {
          stream.sendHeaders(OK);
          const echo = new Echo(stream);
          streams.push(echo);
          return echo;
        },
        goaway: () => undefined,
        closed: () => undefined,
      }),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  t.after(() => {
    server.close();
    for (const connection of connections) connection.destroy();
  });
  return {
    streams,
    connections,
    connect(options = {}) {
      const session = http2.connect(`http://127.0.0.1:${port}`, options);
      session.on("error", () => undefined);
      t.after(() => {
        session.destroy();
      });
      return session;
    },
  };
}

interface OurClient {
  readonly connection: Http2Connection;
  readonly events: string[];
  readonly session: ServerHttp2Session;
  readonly serverSocket: Socket;
}

/** A client of ours for a node:http2 server. */
async function ourClient(
  t: TestContext,
  onStream: (stream: ServerHttp2Stream, headers: http2.IncomingHttpHeaders) => void,
  options: ServerOptions = {},
): Promise<OurClient> {
  const server = http2.createServer(options);
  server.on("stream", (stream, headers) => {
    stream.on("error", () => undefined);
    onStream(stream, headers);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const sessionMade = once(server, "session") as Promise<[ServerHttp2Session]>;
  const { port } = server.address() as AddressInfo;
  const socket: Socket = connectTcp({
    port,
    host: "127.0.0.1",
    allowHalfOpen: true,
    noDelay: true,
  });
  await once(socket, "connect");
  const events: string[] = [];
  const connection = new Http2Connection(socket, "client", LIMITS, systemClock, {
    request: () => assert.fail("a server opened a stream"),
    goaway: (code, debug) => {
      events.push(`goaway ${code} ${debug}`.trim());
    },
    closed: (error) => {
      events.push(`closed ${error?.message ?? "in order"}`);
    },
  });
  const [serverSocket] = await accepted;
  const [session] = await sessionMade;
  session.on("error", () => undefined);
  t.after(() => {
    connection.destroy();
    session.destroy();
    server.close();
  });
  return { connection, events, session, serverSocket };
}

function echoBody(stream: ServerHttp2Stream): void {
  stream.respond({ ":status": 200 }, { waitForTrailers: true });
  stream.on("wantTrailers", () => {
    stream.sendTrailers({ "x-end": "yes" });
  });
  stream.pipe(stream);
}

const PADDING = {
  none: http2.constants.PADDING_STRATEGY_NONE,
  aligned: http2.constants.PADDING_STRATEGY_CALLBACK,
  maximal: http2.constants.PADDING_STRATEGY_MAX,
};

async function exchange(
  session: ClientHttp2Session,
  body: Buffer,
): Promise<{ bytes: number; hash: string; trailers: http2.IncomingHttpHeaders }> {
  const request = session.request({ ":method": "POST", ":path": "/" });
  const hash = createHash("sha256");
  let bytes = 0;
  let trailers: http2.IncomingHttpHeaders = {};
  request.on("data", (piece: Buffer) => {
    bytes += piece.length;
    hash.update(piece);
  });
  request.on("trailers", (received: http2.IncomingHttpHeaders) => {
    trailers = received;
  });
  const ended = once(request, "end");
  request.end(body);
  await ended;
  return { bytes, hash: hash.digest("hex"), trailers };
}

describe("node:http2 as a client of our server", () => {
  for (const [name, paddingStrategy] of Object.entries(PADDING)) {
    it(`echoes 3 MiB through small windows, with padding: ${name}`, async (t) => {
      const server = await ourServer(t, {
        streamWindowBytes: 65_535,
        connectionWindowBytes: 65_535,
      });
      const body = randomBytes(3 * MIB);
      const { hash, trailers } = await exchange(server.connect({ paddingStrategy }), body);
      assert.equal(hash, digest(body));
      assert.equal(trailers["bytes"], String(body.length));
      assert.deepEqual(await server.streams[0]?.whenClosed, { kind: "finished" });
    });
  }

  for (const settings of [
    { initialWindowSize: 100 },
    { headerTableSize: 0 },
    { headerTableSize: 65_536, maxFrameSize: 1_000_000, initialWindowSize: 10_000_000 },
  ]) {
    it(`echoes with settings of its own: ${JSON.stringify(settings)}`, async (t) => {
      const server = await ourServer(t);
      const session = server.connect({ settings });
      for (let count = 0; count < 3; count++) {
        const body = randomBytes(30_000);
        const { hash } = await exchange(session, body);
        assert.equal(hash, digest(body));
      }
    });
  }

  it("may change its windows in the middle", async (t) => {
    const server = await ourServer(t);
    const session = server.connect({ settings: { initialWindowSize: 1_000 } });
    const body = randomBytes(2 * MIB);
    const exchanged = exchange(session, body);
    for (const initialWindowSize of [200_000, 10, 70_000, 0, 65_535, 1_000_000]) {
      await new Promise((resolve) => {
        session.settings({ initialWindowSize }, resolve);
      });
    }
    assert.equal((await exchanged).hash, digest(body));
  });

  it("makes two hundred requests at a time", async (t) => {
    const server = await ourServer(t);
    const session = server.connect();
    const bodies = Array.from({ length: 200 }, () => randomBytes(20_000));
    const results = await Promise.all(bodies.map((body) => exchange(session, body)));
    for (const [at, { hash }] of results.entries()) assert.equal(hash, digest(bodies[at]!));
    assert.equal(server.connections.length, 1);
  });

  it("has its PINGs answered with their payload", async (t) => {
    const session = (await ourServer(t)).connect();
    await once(session, "connect");
    const payload = Buffer.from("12345678");
    const answer = await new Promise((resolve, reject) => {
      session.ping(payload, (error, _duration, returned) => {
        if (error === null) resolve(returned);
        else reject(error);
      });
    });
    assert.deepEqual(answer, payload);
  });

  it("may set priorities, in HEADERS and apart", async (t) => {
    const session = (await ourServer(t)).connect();
    const request = session.request(
      { ":method": "POST", ":path": "/" },
      { weight: 200, exclusive: true },
    );
    request.priority({ weight: 17, silent: false });
    request.end("x");
    const [headers] = (await once(request, "response")) as [http2.IncomingHttpHeaders];
    assert.equal(headers[":status"], 200);
    request.resume();
    await once(request, "end");
  });

  it("gets 431 for headers that are too large, and goes on", async (t) => {
    const server = await ourServer(t);
    const session = server.connect({ maxSendHeaderBlockLength: 100_000 });
    const large = session.request({ ":path": "/", "x-large": "x".repeat(9_000) });
    const [headers] = (await once(large, "response")) as [http2.IncomingHttpHeaders];
    assert.equal(headers[":status"], 431);
    large.resume();
    await once(large, "close");
    assert.equal((await exchange(session, Buffer.from("y"))).bytes, 1);
    assert.equal(server.streams.length, 1);
  });

  it("is refused requests beyond the limit, each alone", async (t) => {
    const server = await ourServer(t, { maxStreams: 2 });
    const session = server.connect();
    // Before it knows the limit, or with the peer's settings out of date, a client may overstep.
    const codes: number[] = [];
    const requests = Array.from({ length: 4 }, () => session.request({ ":method": "POST" }));
    const closed = requests.map((request) => {
      request.on("error", () => undefined);
      return new Promise<void>((resolve) => {
        request.on("close", () => {
          codes.push(request.rstCode);
          resolve();
        });
      });
    });
    while (codes.length < 2) await new Promise((resolve) => setImmediate(resolve));
    for (const request of requests) request.end().resume();
    await Promise.all(closed);
    const { REFUSED_STREAM, NO_ERROR } = Http2ErrorCode;
    assert.deepEqual(codes, [REFUSED_STREAM, REFUSED_STREAM, NO_ERROR, NO_ERROR]);
    assert.equal((await exchange(session, Buffer.from("y"))).bytes, 1);
  });

  it("resets a request, which its owner is told with the code", async (t) => {
    const server = await ourServer(t);
    const session = server.connect();
    const request = session.request({ ":method": "POST", ":path": "/" });
    request.on("error", () => undefined);
    request.write("x");
    await once(request, "data");
    request.close(Http2ErrorCode.INTERNAL_ERROR);
    const reason = await server.streams[0]?.whenClosed;
    assert.deepEqual(reason, { kind: "reset", code: Http2ErrorCode.INTERNAL_ERROR, byPeer: true });
    assert.equal((await exchange(session, Buffer.from("y"))).bytes, 1);
  });

  it("finishes what it has begun when the server closes", async (t) => {
    const server = await ourServer(t);
    const session = server.connect();
    const goaway = once(session, "goaway");
    const request = session.request({ ":method": "POST", ":path": "/" });
    request.write("before ");
    await once(request, "data");
    server.connections[0]?.close();
    assert.deepEqual((await goaway).slice(0, 2), [0, 1]);
    let received = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      received += text;
    });
    request.end("after");
    await once(request, "end");
    assert.equal(received, "after");
    await once(session, "close");
  });

  it("closes, and nothing is left", async (t) => {
    const server = await ourServer(t);
    const session = server.connect();
    await exchange(session, Buffer.from("x"));
    session.close();
    await once(session, "close");
    while (server.connections[0]?.isClosed === false) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(server.connections[0]?.streamCount, 0);
  });
});

describe("node:http2 as the server of our client", () => {
  for (const [name, paddingStrategy] of Object.entries(PADDING)) {
    it(`echoes 3 MiB, with padding: ${name}`, async (t) => {
      const { connection } = await ourClient(t, echoBody, { paddingStrategy });
      const body = randomBytes(3 * MIB);
      const response = new Response(connection);
      response.send(body);
      assert.deepEqual(await response.whenClosed, { kind: "finished" });
      assert.equal(response.hash.digest("hex"), digest(body));
      assert.deepEqual(response.lists.at(-1), [["x-end", "yes"]]);
      assert.equal(connection.streamCount, 0);
    });
  }

  for (const settings of [
    { initialWindowSize: 100 },
    { headerTableSize: 0 },
    { maxHeaderListSize: 1_000 },
    { maxFrameSize: 1_000_000, initialWindowSize: 10_000_000 },
  ]) {
    it(`echoes with settings of its own: ${JSON.stringify(settings)}`, async (t) => {
      const { connection } = await ourClient(t, echoBody, { settings });
      for (let count = 0; count < 3; count++) {
        const body = randomBytes(30_000);
        const response = new Response(connection, [...REQUEST, ["x-some", "value"]]);
        response.send(body);
        await response.whenClosed;
        assert.equal(response.hash.digest("hex"), digest(body));
      }
    });
  }

  it("gets header blocks that need CONTINUATION, and sends some", async (t) => {
    const long = "v".repeat(30_000);
    const seen: unknown[] = [];
    const { connection } = await ourClient(
      t,
      (stream, headers) => {
        seen.push(headers["x-long"]);
        stream.respond({ ":status": 200, "x-short": "w".repeat(5_000) }, { endStream: true });
      },
      { settings: { maxHeaderListSize: 100_000 }, maxHeaderListPairs: 100 },
    );
    const response = new Response(connection, [...REQUEST, ["x-long", long]]);
    await response.whenClosed;
    assert.deepEqual(seen, [long]);
    assert.equal(response.lists[0]?.find(([name]) => name === "x-short")?.[1].length, 5_000);
  });

  it("pings, and is answered with its payload", async (t) => {
    const { session } = await ourClient(t, echoBody);
    const payload = Buffer.from("abcdefgh");
    const answer = await new Promise((resolve) => {
      session.ping(payload, (_error, _duration, returned) => {
        resolve(returned);
      });
    });
    assert.deepEqual(answer, payload);
  });

  it("answers PING, which counts as a sign of life", async (t) => {
    const { connection } = await ourClient(t, echoBody);
    const before = connection.lastHeardMs;
    connection.ping();
    while (connection.lastHeardMs === before) await new Promise((resolve) => setImmediate(resolve));
  });

  it("may send what nobody asked for: ALTSVC, ORIGIN and early hints", async (t) => {
    const { connection, session } = await ourClient(t, (stream) => {
      stream.additionalHeaders({ ":status": 103, link: "</x>" });
      stream.respond({ ":status": 204 }, { endStream: true });
    });
    session.altsvc('h2=":8000"', "https://example.org:80");
    session.origin("https://example.com");
    const response = new Response(connection);
    await response.whenClosed;
    assert.equal(response.lists.length, 1);
    assert.equal(response.lists[0]?.[0]?.[1], "204");
  });

  it("resets a request with any code", async (t) => {
    const { connection } = await ourClient(t, (stream) => {
      stream.close(Http2ErrorCode.ENHANCE_YOUR_CALM);
    });
    const reason = await new Response(connection).whenClosed;
    assert.deepEqual(reason, {
      kind: "reset",
      code: Http2ErrorCode.ENHANCE_YOUR_CALM,
      byPeer: true,
    });
    assert.equal(connection.isClosed, false);
  });

  it("leaves with GOAWAY, its reason and its last words", async (t) => {
    const { connection, session, events } = await ourClient(t, echoBody);
    const response = new Response(connection);
    while (response.lists.length === 0) await new Promise((resolve) => setImmediate(resolve));
    session.goaway(Http2ErrorCode.NO_ERROR, 1, Buffer.from("maintenance"));
    while (events.length === 0) await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(events, ["goaway 0 maintenance"]);
    assert.equal(connection.canRequest, false);
    response.send(Buffer.from("still"));
    assert.deepEqual(await response.whenClosed, { kind: "finished" });
    assert.equal(response.bytes, 5);
  });

  it("dies, and every request knows", async (t) => {
    const { connection, serverSocket } = await ourClient(t, echoBody);
    const responses = [new Response(connection), new Response(connection)];
    while (responses[1]?.lists.length === 0) await new Promise((resolve) => setImmediate(resolve));
    serverSocket.destroy();
    for (const response of responses) {
      assert.equal((await response.whenClosed).kind, "connection");
    }
    assert.equal(connection.isClosed, true);
  });

  it("is told the end of a connection that closes", async (t) => {
    const { connection, session, events } = await ourClient(t, echoBody);
    const response = new Response(connection);
    response.send(Buffer.from("x"));
    await response.whenClosed;
    const closed = once(session, "close");
    connection.close();
    await closed;
    assert.equal(session.destroyed, true);
    assert.equal(events.at(-1), "closed in order");
  });
});
