import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { GrpcCode, MetricRegistry, OK_STATUS, PacketType } from "@reachback/common";
import type { ConnectionId, DialId } from "@reachback/common";
import { ManualClock, RecordingLogger, readExposition } from "@reachback/common/testing";
import { until } from "../../../../test/support/cluster.ts";
import { DialError } from "../../src/endpoint/dial-error.ts";
import type { EndpointDialer } from "../../src/endpoint/endpoint-dialer.ts";
import { AgentMetrics } from "../../src/metrics.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { FakeCarrier } from "./fake-carrier.ts";
import { TEST_FLOW } from "./test-flow.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const STALL_MS = 10_000;
const FULL_STALL_MS = TEST_FLOW.limits.stallTimeoutMs;

/** An endpoint's side of a connection. */
interface Endpoint {
  readonly socket: Socket;
  receivedBytes: number;
  /** Where it stops to read. */
  wantedBytes: number;
  fate: "open" | "ended" | "reset";
}

/** What Node's socket knows of bytes that the system has not taken. */
interface WithHandle {
  readonly _handle: { readonly writeQueueSize: number };
}

/** Read so many bytes more, then stop. */
async function take(endpoint: Endpoint, bytes: number): Promise<void> {
  endpoint.wantedBytes = endpoint.receivedBytes + bytes;
  endpoint.socket.resume();
  await until(() => endpoint.receivedBytes >= endpoint.wantedBytes);
  endpoint.wantedBytes = Infinity;
}

/** Connects to a listener of the test, or fails, or holds the dial until it is aborted. */
class FakeDialer implements EndpointDialer {
  readonly dialed: { address: string; signal: AbortSignal }[] = [];
  readonly sockets: Socket[] = [];
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  async dial(_protocol: string, address: string, signal: AbortSignal): Promise<Socket> {
    this.dialed.push({ address, signal });
    if (address.startsWith("refused")) throw new DialError(`dial tcp ${address}: refused`);
    if (address.startsWith("odd")) throw new RangeError("odd");
    if (address.startsWith("held")) {
      await once(signal, "abort");
      throw signal.reason as Error;
    }
    const socket = connect({ port: this.#port, host: "127.0.0.1", allowHalfOpen: true });
    await once(socket, "connect");
    this.sockets.push(socket);
    return socket;
  }
}

async function setup(t: TestContext) {
  const clock = new ManualClock();
  const registry = new MetricRegistry();
  const logger = new RecordingLogger();
  const endpoints: Endpoint[] = [];
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    const endpoint: Endpoint = { socket, receivedBytes: 0, wantedBytes: Infinity, fate: "open" };
    endpoints.push(endpoint);
    socket.on("data", (piece: Buffer) => {
      endpoint.receivedBytes += piece.length;
      if (endpoint.receivedBytes >= endpoint.wantedBytes) socket.pause();
    });
    socket.on("end", () => {
      // libuv calls it an end when a reset comes together with data, but the peer's name is lost.
      const isReset = !socket.writableEnded && socket.remoteAddress === undefined;
      if (endpoint.fate === "open") endpoint.fate = isReset ? "reset" : "ended";
    });
    socket.on("error", () => {
      endpoint.fate = "reset";
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    for (const { socket } of endpoints) socket.destroy();
  });

  const dialer = new FakeDialer((server.address() as AddressInfo).port);
  const carrier = new FakeCarrier();
  let goneCount = 0;
  let drainCount = 0;
  const tunnel = new Tunnel(
    {
      tunnelOpened: () => undefined,
      serverDraining: () => {
        drainCount++;
      },
      tunnelClosed: () => undefined,
      connectionGone: () => {
        goneCount++;
      },
    },
    {
      clock,
      logger,
      dialer,
      metrics: new AgentMetrics(registry),
      socketLimits: { closeStallMs: STALL_MS },
      flow: TEST_FLOW,
      halfCloseTimeoutMs: 10_000,
    },
  );
  tunnel.attach(carrier);
  tunnel.opened([]);
  t.after(async () => {
    tunnel.end();
    await until(() => tunnel.isIdle);
    assert.equal(clock.pendingTimers, 0, "timers left behind");
    assert.equal(tunnel.connectionCount, 0);
  });

  const dial = (id: number | bigint, address = "endpoint:80") => {
    tunnel.control({ type: PacketType.DIAL_REQ, dialId: id as DialId, protocol: "tcp", address });
  };
  /** Dial, and wait for the answer; with the endpoint's side of it. */
  const connectionTo = async (id: number, address?: string): Promise<Endpoint> => {
    const index = endpoints.length;
    dial(id, address);
    await until(() => endpoints.length > index && carrier.sent.some(isAnswerTo(id)));
    return endpoints[index]!;
  };
  const data = (id: number, bytes: number | string, first = true) => {
    tunnel.data(
      id as ConnectionId,
      typeof bytes === "number" ? Buffer.alloc(bytes, id) : Buffer.from(bytes),
      first,
    );
  };
  const closeRequest = (id: number) => {
    tunnel.control({ type: PacketType.CLOSE_REQ, connectionId: id as ConnectionId });
  };
  /** Write to a connection whose endpoint does not read until nothing more fits. */
  const fill = async (id: number) => {
    for (let quiet = 0; quiet < 3;) {
      if (carrier.isReadingPaused) {
        await nextTurn();
        await nextTurn();
        quiet++;
      } else {
        quiet = 0;
        data(id, 256 * KIB);
      }
    }
  };
  const closedFor = async () =>
    readExposition(await registry.exposition())
      .filter(({ name }) => name === "reachback_agent_connections_closed_total")
      .map(({ labels, value }) => `${labels["reason"]} ${value}`);
  return {
    drainCount: () => drainCount,
    clock,
    logger,
    tunnel,
    carrier,
    dialer,
    endpoints,
    dial,
    connectionTo,
    data,
    closeRequest,
    fill,
    closedFor,
    goneCount: () => goneCount,
  };
}

function isAnswerTo(id: number) {
  return (line: string) => line.startsWith(`DIAL_RSP ${id} `);
}

describe("a dial", () => {
  it("is numbered from 1, failed ones included, and answered when it is done", async (t) => {
    const { carrier, connectionTo, dial, tunnel } = await setup(t);
    dial(11, "refused:1");
    await until(() => carrier.sent.length === 1);
    await connectionTo(12);
    dial(13, "held:1");
    await connectionTo(14);
    assert.deepEqual(carrier.sent, [
      'DIAL_RSP 11 0 "dial tcp refused:1: refused"',
      "DIAL_RSP 12 2",
      "DIAL_RSP 14 4",
    ]);
    assert.equal(tunnel.connectionCount, 2);
    assert.equal(tunnel.isIdle, false);
  });

  it("is answered whatever goes wrong", async (t) => {
    const { carrier, dial, tunnel } = await setup(t);
    dial(1, "odd:1");
    await until(() => carrier.sent.length === 1);
    assert.deepEqual(carrier.sent, ['DIAL_RSP 1 0 "dial tcp: RangeError: odd"']);
    assert.equal(tunnel.isIdle, true);
  });

  it("is known by all 63 bits of its id", async (t) => {
    const { carrier, dial, dialer, tunnel } = await setup(t);
    const ids = [2n ** 63n - 1n, 2n ** 63n - 2n, -(2n ** 63n)];
    for (const id of ids) dial(id, "held:1");
    tunnel.control({ type: PacketType.DIAL_CLS, dialId: ids[1]! as DialId });
    assert.deepEqual(
      dialer.dialed.map(({ signal }) => signal.aborted),
      [false, true, false],
    );
    assert.deepEqual(carrier.sent, []);
  });

  it("is given up without an answer when its frontend has left", async (t) => {
    const { carrier, dial, dialer, tunnel, goneCount, logger } = await setup(t);
    dial(1, "held:1");
    tunnel.control({ type: PacketType.DIAL_CLS, dialId: 1 as DialId });
    assert.equal(dialer.dialed[0]?.signal.aborted, true);
    assert.equal(tunnel.isIdle, true);
    assert.equal(goneCount(), 1);
    await nextTurn();
    assert.deepEqual(carrier.sent, []);
    assert.deepEqual(logger.lines, []);
  });

  it("is dropped when it succeeds after that", async (t) => {
    const { carrier, dial, endpoints, tunnel } = await setup(t);
    dial(1);
    tunnel.control({ type: PacketType.DIAL_CLS, dialId: 1 as DialId });
    await until(() => endpoints.length === 1);
    endpoints[0]!.socket.resume();
    await until(() => endpoints[0]!.fate !== "open");
    assert.deepEqual(carrier.sent, []);
    assert.equal(tunnel.connectionCount, 0);
  });

  it("is not given up by the frontend of another, nor once it is a connection", async (t) => {
    const { connectionTo, dial, dialer, tunnel } = await setup(t);
    dial(1, "held:1");
    await connectionTo(2);
    tunnel.control({ type: PacketType.DIAL_CLS, dialId: 2 as DialId });
    tunnel.control({ type: PacketType.DIAL_CLS, dialId: 3 as DialId });
    assert.equal(dialer.dialed[0]?.signal.aborted, false);
    assert.equal(tunnel.connectionCount, 1);
  });

  it("survives another one with the same id", async (t) => {
    const { carrier, dial, dialer, tunnel } = await setup(t);
    dial(1, "held:1");
    dial(1, "refused:1");
    await until(() => carrier.sent.length === 1);
    dial(1, "held:2");
    tunnel.control({ type: PacketType.DIAL_CLS, dialId: 1 as DialId });
    assert.deepEqual(
      dialer.dialed.map(({ signal }) => signal.aborted),
      [false, false, true],
    );
  });

  it("is not begun once the tunnel has ended", async (t) => {
    const { dial, dialer, tunnel, carrier } = await setup(t);
    tunnel.end();
    dial(1);
    assert.equal(carrier.isEnded, true);
    assert.deepEqual(dialer.dialed, []);
    assert.equal(tunnel.isIdle, true);
  });
});

describe("an unknown id", () => {
  it("is answered once for each packet that names it, unless it is 0", async (t) => {
    const { carrier, closeRequest, data } = await setup(t);
    data(77, "hello");
    data(77, " again", false);
    data(0, "hello");
    closeRequest(77);
    closeRequest(0);
    assert.deepEqual(carrier.sent, [
      'CLOSE_RSP 77 "unrecognized connectID"',
      'CLOSE_RSP 77 "Unknown connectID"',
      'CLOSE_RSP 0 "Unknown connectID"',
    ]);
  });

  it("is that of a dial that is not done, or of a connection that is over", async (t) => {
    const { carrier, closeRequest, connectionTo, data, dial } = await setup(t);
    dial(1, "held:1");
    data(1, "early");
    const endpoint = await connectionTo(2);
    endpoint.socket.end();
    await until(() => carrier.sent.includes("CLOSE_RSP 2"));
    data(2, "late");
    closeRequest(2);
    assert.deepEqual(carrier.sent, [
      'CLOSE_RSP 1 "unrecognized connectID"',
      "DIAL_RSP 2 2",
      "CLOSE_RSP 2",
      'CLOSE_RSP 2 "unrecognized connectID"',
      'CLOSE_RSP 2 "Unknown connectID"',
    ]);
  });

  it("is none of the packets that are not for an agent", async (t) => {
    const { carrier, tunnel } = await setup(t);
    tunnel.control({
      type: PacketType.DIAL_RSP,
      dialId: 1 as DialId,
      connectionId: 1 as ConnectionId,
      error: "",
    });
    tunnel.control({ type: PacketType.CLOSE_RSP, connectionId: 1 as ConnectionId, error: "" });
    tunnel.control({ type: PacketType.DRAIN });
    assert.deepEqual(carrier.sent, []);
  });
});

describe("an endpoint that is full", () => {
  it("holds the server up, and others get theirs again when it has read", async (t) => {
    const { carrier, clock, connectionTo, data, fill, closedFor } = await setup(t);
    const slow = await connectionTo(1);
    const other = await connectionTo(2);
    other.socket.resume();
    await fill(1);
    assert.equal(carrier.isReadingPaused, true);
    // What is on its way still arrives, for everybody.
    data(2, "hello");
    await until(() => other.receivedBytes === 5);
    clock.advance(FULL_STALL_MS - 1);
    slow.socket.resume();
    await until(() => !carrier.isReadingPaused);
    clock.advance(FULL_STALL_MS);
    assert.deepEqual(await closedFor(), []);
    assert.equal(clock.pendingTimers, 0);
  });

  it("is closed alone when it takes nothing for the stall timeout", async (t) => {
    const { carrier, clock, connectionTo, fill, closedFor, tunnel } = await setup(t);
    const stalled = await connectionTo(1, "stalled:80");
    await connectionTo(2);
    await fill(1);
    clock.advance(FULL_STALL_MS - 1);
    assert.equal(carrier.isReadingPaused, true);
    clock.advance(1);
    assert.equal(carrier.isReadingPaused, false);
    assert.deepEqual(carrier.sent.at(-1), 'CLOSE_RSP 1 "write tcp stalled:80: i/o timeout"');
    assert.deepEqual(await closedFor(), ["slow_consumer 1"]);
    assert.equal(tunnel.connectionCount, 1);
    stalled.socket.resume();
    await until(() => stalled.fate === "reset");
  });

  it("is served as long as it takes something, however little", async (t) => {
    const { carrier, clock, connectionTo, fill, closedFor } = await setup(t);
    const slow = await connectionTo(1);
    await fill(1);
    for (let turn = 0; turn < 5; turn++) {
      await take(slow, 4 * MIB);
      await fill(1);
      clock.advance(FULL_STALL_MS - 1);
      assert.equal(carrier.isReadingPaused, true);
    }
    assert.deepEqual(await closedFor(), []);
  });

  it("is served as long as the system takes something of one write, which it tells if asked", async (t) => {
    const { clock, connectionTo, dialer, fill, closedFor } = await setup(t);
    await connectionTo(1);
    await fill(1);
    const { _handle: handle } = dialer.sockets[0] as unknown as WithHandle;
    const leftBytes = handle.writeQueueSize - 1;
    Object.defineProperty(handle, "writeQueueSize", { value: leftBytes });
    clock.advance(FULL_STALL_MS);
    assert.deepEqual(await closedFor(), []);
    clock.advance(FULL_STALL_MS);
    assert.deepEqual(await closedFor(), ["slow_consumer 1"]);
  });

  it("holds nobody up any more when it fails", async (t) => {
    const { carrier, connectionTo, fill, closedFor } = await setup(t);
    const endpoint = await connectionTo(1);
    await fill(1);
    endpoint.socket.resetAndDestroy();
    await until(() => !carrier.isReadingPaused);
    assert.match(carrier.sent.at(-1) ?? "", /^CLOSE_RSP 1 "\w+ tcp endpoint:80: .+"$/);
    assert.deepEqual(await closedFor(), ["endpoint_error 1"]);
  });
});

describe("a close", () => {
  it("is behind everything sent before it", async (t) => {
    const { carrier, closeRequest, connectionTo, data, closedFor } = await setup(t);
    const endpoint = await connectionTo(1);
    data(1, 4 * MIB);
    closeRequest(1);
    data(1, "behind the close");
    closeRequest(1);
    endpoint.socket.resume();
    await until(() => carrier.sent.includes("CLOSE_RSP 1"));
    await until(() => endpoint.fate === "ended");
    assert.equal(endpoint.receivedBytes, 4 * MIB);
    assert.deepEqual(carrier.sent, ["DIAL_RSP 1 1", "CLOSE_RSP 1"]);
    assert.deepEqual(await closedFor(), ["server_closed 1"]);
  });

  it("waits for nobody else", async (t) => {
    const { carrier, closeRequest, connectionTo, fill } = await setup(t);
    await connectionTo(1);
    await fill(1);
    closeRequest(1);
    assert.equal(carrier.isReadingPaused, false);
  });

  it("holds the server up when endpoints have too much left to take", async (t) => {
    const { carrier, closeRequest, connectionTo, data, fill } = await setup(t);
    const endpoints: Endpoint[] = [];
    for (let id = 1; id <= 4; id++) {
      endpoints.push(await connectionTo(id));
      await fill(id);
      // What was on its way when the server was told to wait.
      data(id, 10 * MIB);
      closeRequest(id);
      assert.equal(carrier.isReadingPaused, id === 4);
    }
    endpoints[3]!.socket.resume();
    await until(() => !carrier.isReadingPaused);
    assert.deepEqual(carrier.sent.at(-1), "CLOSE_RSP 4");
  });

  it("is given up when the endpoint takes nothing for ten seconds, and says so", async (t) => {
    const { carrier, clock, closeRequest, connectionTo, fill, closedFor } = await setup(t);
    const endpoint = await connectionTo(1, "stalled:80");
    await fill(1);
    closeRequest(1);
    clock.advance(STALL_MS - 1);
    await nextTurn();
    assert.equal(carrier.sent.length, 1);
    clock.advance(1);
    await until(() => carrier.sent.length > 1);
    assert.deepEqual(carrier.sent.at(-1), 'CLOSE_RSP 1 "write tcp stalled:80: i/o timeout"');
    assert.deepEqual(await closedFor(), ["endpoint_stalled 1"]);
    endpoint.socket.resume();
    await until(() => endpoint.fate === "reset");
  });

  it("is served to the end as long as the endpoint takes something", async (t) => {
    const { carrier, clock, closeRequest, connectionTo, data, fill, closedFor } = await setup(t);
    const endpoint = await connectionTo(1);
    await fill(1);
    data(1, 32 * MIB);
    closeRequest(1);
    for (let turn = 0; turn < 6; turn++) {
      await take(endpoint, 4 * MIB);
      await nextTurn();
      clock.advance(STALL_MS - 1);
      assert.equal(carrier.sent.length, 1);
    }
    endpoint.socket.resume();
    await until(() => endpoint.fate === "ended");
    assert.deepEqual(carrier.sent.at(-1), "CLOSE_RSP 1");
    assert.deepEqual(await closedFor(), ["server_closed 1"]);
  });

  it("says why when the endpoint fails while it takes the rest", async (t) => {
    const { carrier, closeRequest, connectionTo, fill, closedFor } = await setup(t);
    const endpoint = await connectionTo(1);
    await fill(1);
    closeRequest(1);
    endpoint.socket.resetAndDestroy();
    await until(() => carrier.sent.length > 1);
    assert.match(
      carrier.sent.at(-1) ?? "",
      /^CLOSE_RSP 1 "(read|write) tcp endpoint:80: (read|write): (connection reset by peer|broken pipe)"$/,
    );
    assert.deepEqual(await closedFor(), ["endpoint_error 1"]);
  });

  it("waits ten seconds for an endpoint that does not finish itself", async (t) => {
    const { carrier, clock, closeRequest, connectionTo, tunnel } = await setup(t);
    await connectionTo(1);
    closeRequest(1);
    await until(() => carrier.sent.includes("CLOSE_RSP 1"));
    assert.equal(tunnel.connectionCount, 0);
    assert.equal(tunnel.isIdle, false);
    clock.advance(STALL_MS);
    await until(() => tunnel.isIdle);
  });
});

describe("a close for which there is no credit", () => {
  /** A connection whose endpoint has sent more than the server takes. */
  async function setupStarved(t: TestContext) {
    const parts = await setup(t);
    parts.tunnel.opened([["reachback-extensions", "flow-control,half-close"]]);
    const { socket } = await parts.connectionTo(1);
    const { initialBytes } = TEST_FLOW.limits;
    const sentBytes = () => parts.carrier.payloads.reduce((sum, { length }) => sum + length, 0);
    // So that what is read next is more than there is credit for.
    socket.write(Buffer.alloc(KIB));
    await until(() => sentBytes() === KIB);
    socket.write(Buffer.alloc(initialBytes));
    await until(() => sentBytes() === initialBytes);
    socket.end();
    socket.resume();
    return { ...parts, sentBytes };
  }

  it("is told behind what is left, when there is credit", async (t) => {
    const { carrier, closeRequest, sentBytes, tunnel } = await setupStarved(t);
    closeRequest(1);
    tunnel.control({ type: PacketType.CREDIT, connectionId: 1 as ConnectionId, bytes: MIB });
    await until(() => carrier.sent.at(-1) === "CLOSE_RSP 1");
    assert.ok(sentBytes() > TEST_FLOW.limits.initialBytes);
  });

  it("is told at once when the server asks again", async (t) => {
    const { carrier, closeRequest } = await setupStarved(t);
    closeRequest(1);
    closeRequest(1);
    await until(() => carrier.sent.at(-1) === "CLOSE_RSP 1");
  });
});

describe("a tunnel that takes no more", () => {
  it("stops the endpoints that have something to say, until it has room", async (t) => {
    const { carrier, connectionTo, tunnel } = await setup(t);
    const endpoint = await connectionTo(1);
    const silent = await connectionTo(2);
    carrier.hasRoom = false;
    endpoint.socket.write(Buffer.alloc(16 * MIB));
    let before = -1;
    while (carrier.payloads.length !== before) {
      before = carrier.payloads.length;
      for (let turn = 0; turn < 20; turn++) await nextTurn();
    }
    const heldBytes = carrier.payloads.reduce((sum, { length }) => sum + length, 0);
    assert.ok(heldBytes <= 2 * 126 * KIB, `${heldBytes} bytes were read`);
    carrier.hasRoom = true;
    tunnel.drained();
    const total = () => carrier.payloads.reduce((sum, { length }) => sum + length, 0);
    await until(() => total() === 16 * MIB);
    assert.ok(carrier.payloads.every(({ length }) => length > 0 && length <= 126 * KIB));
    silent.socket.write("hello");
    await until(() => total() === 16 * MIB + 5);
  });

  it("still gets the endpoint's end behind its data", async (t) => {
    const { carrier, connectionTo, tunnel } = await setup(t);
    const endpoint = await connectionTo(1);
    carrier.hasRoom = false;
    endpoint.socket.end(Buffer.alloc(1 * MIB));
    await until(() => carrier.payloads.length > 0);
    assert.ok(!carrier.sent.includes("CLOSE_RSP 1"));
    while (!carrier.sent.includes("CLOSE_RSP 1")) {
      tunnel.drained();
      await nextTurn();
    }
    const total = carrier.payloads.reduce((sum, { length }) => sum + length, 0);
    assert.equal(total, 1 * MIB);
    assert.equal(carrier.sent.at(-1), "CLOSE_RSP 1");
  });
});

describe("a tunnel that is over", () => {
  it("resets endpoints, whatever they were doing", async (t) => {
    const { connectionTo, closeRequest, data, dial, dialer, fill, tunnel, closedFor } =
      await setup(t);
    const idle = await connectionTo(1);
    const flushing = await connectionTo(2);
    const full = await connectionTo(3);
    dial(4, "held:1");
    await fill(2);
    closeRequest(2);
    await fill(3);
    data(1, "hello");
    tunnel.closed({ code: GrpcCode.UNAVAILABLE, message: "gone" });
    assert.equal(tunnel.connectionCount, 0);
    assert.equal(dialer.dialed[3]?.signal.aborted, true);
    for (const { socket } of [idle, flushing, full]) socket.resume();
    await until(() => [idle, flushing, full].every(({ fate }) => fate === "reset"));
    assert.deepEqual(await closedFor(), ["tunnel_lost 3"]);
    await until(() => tunnel.isIdle);
  });

  it("lets an endpoint that had finished have the rest", async (t) => {
    const { carrier, clock, connectionTo, data, tunnel } = await setup(t);
    const endpoint = await connectionTo(1);
    for (let piece = 0; piece < 32; piece++) data(1, 256 * KIB);
    endpoint.socket.end();
    await until(() => carrier.sent.includes("CLOSE_RSP 1"));
    tunnel.closed(OK_STATUS);
    endpoint.socket.resume();
    await until(() => endpoint.fate === "ended");
    assert.equal(endpoint.receivedBytes, 8 * MIB);
    await until(() => tunnel.isIdle);
    assert.equal(clock.pendingTimers, 0);
  });

  it("lets go of everything when the agent ends it", async (t) => {
    const { carrier, connectionTo, data, tunnel } = await setup(t);
    const open = await connectionTo(1);
    const finished = await connectionTo(2);
    const behind = await connectionTo(3);
    finished.socket.end();
    for (let piece = 0; piece < 64; piece++) data(3, 256 * KIB);
    behind.socket.end();
    await until(() => carrier.sent.includes("CLOSE_RSP 2") && carrier.sent.includes("CLOSE_RSP 3"));
    tunnel.end();
    await until(() => tunnel.isIdle);
    for (const { socket } of [open, finished, behind]) socket.resume();
    await until(() => [open, finished, behind].every(({ fate }) => fate !== "open"));
    assert.deepEqual([open.fate, finished.fate], ["reset", "ended"]);
    assert.ok(behind.receivedBytes < 16 * MIB);
  });

  it("sends DRAIN once, and serves on", async (t) => {
    const { carrier, connectionTo, tunnel } = await setup(t);
    tunnel.drain();
    tunnel.drain();
    await connectionTo(1);
    assert.deepEqual(carrier.sent, ["DRAIN", "DIAL_RSP 1 1"]);
  });

  it("is told that its server is about to leave, if the server has agreed to say so", async (t) => {
    const { carrier, drainCount, tunnel } = await setup(t);
    tunnel.control({ type: PacketType.DRAIN });
    assert.equal(drainCount(), 0);
    tunnel.opened([["reachback-extensions", "server-drain"]]);
    tunnel.control({ type: PacketType.DRAIN });
    assert.equal(drainCount(), 1);
    assert.deepEqual(carrier.sent, []);
  });
});
