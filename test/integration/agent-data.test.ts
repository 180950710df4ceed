import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { startAgentServer } from "../support/agent-server.ts";
import type { AgentServer, AgentTunnel } from "../support/agent-server.ts";
import { startEndpoint, until } from "../support/cluster.ts";
import { packets } from "../support/packet-stream.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import type { TrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd } from "../support/tracked-clock.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Bytes of which every 64 KiB are different, so that no order but the right one is right. */
function patterned(bytes: number): Buffer {
  const buffer = Buffer.alloc(
    bytes,
    "the quick brown fox jumps over the lazy dog, again and again",
  );
  for (let at = 0; at + 4 <= bytes; at += 1_000) buffer.writeUInt32BE(at, at);
  return buffer;
}

function digest(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** An endpoint's side of a connection, which keeps all it gets. */
class Peer {
  readonly socket: Socket;
  fate: "open" | "ended" | "reset" = "open";
  receivedBytes = 0;
  readonly #hash = createHash("sha256");

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (piece: Buffer) => {
      this.#hash.update(piece);
      this.receivedBytes += piece.length;
    });
    socket.on("end", () => {
      if (this.fate === "open") this.fate = this.#isResetBehindData ? "reset" : "ended";
    });
    socket.on("error", () => {
      this.fate = "reset";
    });
  }

  /** libuv calls it an end when a reset comes together with data, but the peer's name is lost. */
  get #isResetBehindData(): boolean {
    return !this.socket.writableEnded && this.socket.remoteAddress === undefined;
  }

  digest(): string {
    return this.#hash.copy().digest("hex");
  }
}

interface Setup extends TrackedAgent {
  readonly server: AgentServer;
  readonly tunnel: AgentTunnel;
  /** Connections at the endpoint, in order. */
  readonly peers: Peer[];
  /** Dial the endpoint; returns its side of the connection, whose id is given. */
  readonly connectionTo: (connectionId: number) => Promise<Peer>;
  /** Send bytes in DATA packets of at most 32 KiB, as fast as grpc-js takes them. */
  readonly sendAll: (connectionId: number, bytes: Buffer) => Promise<void>;
}

async function setup(
  t: TestContext,
  onConnection: (peer: Peer) => void = () => undefined,
): Promise<Setup> {
  const server = await startAgentServer(t);
  const tracked = await startTrackedAgent(t, server.port);
  const peers: Peer[] = [];
  const address = await startEndpoint(t, (socket) => {
    const peer = new Peer(socket);
    peers.push(peer);
    onConnection(peer);
  });
  const tunnel = await server.next();
  return {
    ...tracked,
    server,
    tunnel,
    peers,
    connectionTo: async (connectionId) => {
      const index = peers.length;
      tunnel.send(packets.dial(connectionId, address));
      assert.equal(await tunnel.next(), `DIAL_RSP ${connectionId} id ${connectionId}`);
      await until(() => peers.length > index);
      return peers[index]!;
    },
    sendAll: async (connectionId, bytes) => {
      for (let at = 0; at < bytes.length; at += 32 * KIB) {
        await tunnel.sendPaced(packets.data(connectionId, bytes.subarray(at, at + 32 * KIB)));
      }
    },
  };
}

/** Reads a little at a time, with pauses. */
async function readSlowly(peer: Peer, stepBytes: number): Promise<void> {
  for (let wantedBytes = stepBytes; peer.fate === "open"; wantedBytes += stepBytes) {
    peer.socket.resume();
    await until(() => peer.receivedBytes >= wantedBytes || peer.fate !== "open");
    peer.socket.pause();
    await sleep(2);
    peer.socket.resume();
  }
}

checkForLeaksAtEnd();

describe("bytes from the server", () => {
  it("all arrive before the end when the close follows at once: 10 MiB, fast", async (t) => {
    const { connectionTo, sendAll, tunnel, metric } = await setup(t);
    const bytes = patterned(10 * MIB);
    for (let id = 1; id <= 5; id++) {
      const peer = await connectionTo(id);
      peer.socket.once("end", () => peer.socket.end());
      await sendAll(id, bytes);
      tunnel.send(packets.close(id));
      assert.equal(await tunnel.next(), `CLOSE_RSP ${id}`);
      await until(() => peer.fate === "ended");
      assert.equal(peer.receivedBytes, bytes.length);
      assert.equal(peer.digest(), digest(bytes));
    }
    assert.equal(await metric("open_endpoint_connections"), "0");
    assert.equal(
      Number(await metric('reachback_agent_connection_bytes_total{direction="to_endpoint"}')),
      5 * bytes.length,
    );
  });

  it("all arrive before the end when the close follows at once: 200 times", async (t) => {
    const { connectionTo, tunnel } = await setup(t);
    for (let id = 1; id <= 200; id++) {
      const bytes = patterned(1 + ((id * 7_919) % (96 * KIB)));
      const peer = await connectionTo(id);
      peer.socket.once("end", () => peer.socket.end());
      tunnel.send(packets.data(id, bytes), packets.close(id));
      assert.equal(await tunnel.next(), `CLOSE_RSP ${id}`);
      await until(() => peer.fate === "ended");
      assert.equal(peer.digest(), digest(bytes));
    }
  });

  it("all arrive before the end when the endpoint is slow", async (t) => {
    const { connectionTo, sendAll, tunnel } = await setup(t);
    const bytes = patterned(10 * MIB);
    const peer = await connectionTo(1);
    peer.socket.once("end", () => peer.socket.end());
    const reading = readSlowly(peer, 256 * KIB);
    await sendAll(1, bytes);
    tunnel.send(packets.close(1));
    assert.equal(await tunnel.next(), "CLOSE_RSP 1");
    await reading;
    assert.equal(peer.fate, "ended");
    assert.equal(peer.digest(), digest(bytes));
  });

  it("all arrive when the endpoint goes on talking meanwhile", async (t) => {
    const { connectionTo, sendAll, tunnel } = await setup(t);
    const bytes = patterned(10 * MIB);
    const peer = await connectionTo(1);
    let isTalking = true;
    const talk = () => {
      if (isTalking && peer.socket.writable) peer.socket.write(Buffer.alloc(16 * KIB), talk);
    };
    talk();
    const reading = readSlowly(peer, 256 * KIB);
    const answers = new Promise<string>((resolve) => {
      tunnel.serve(({ type, data, closeResponse }) => {
        if (type === "DATA") assert.ok((data?.data?.length ?? 0) > 0);
        else resolve(`${type} ${closeResponse?.error}`);
      });
    });
    await sendAll(1, bytes);
    tunnel.send(packets.close(1));
    assert.equal(await answers, "CLOSE_RSP ");
    await until(() => peer.receivedBytes === bytes.length);
    isTalking = false;
    peer.socket.end();
    await reading;
    assert.equal(peer.fate, "ended");
    assert.equal(peer.digest(), digest(bytes));
  });

  it("wait in the server while an endpoint does not read, and all come when it does", async (t) => {
    const { connectionTo, tunnel } = await setup(t);
    const slow = await connectionTo(1);
    const other = await connectionTo(2);
    slow.socket.pause();
    const bytes = patterned(64 * MIB);
    let sentBytes = 0;
    const sending = (async () => {
      for (let at = 0; at < bytes.length; at += 32 * KIB) {
        await tunnel.sendPaced(packets.data(1, bytes.subarray(at, at + 32 * KIB)));
        sentBytes = at;
      }
    })();
    let before = -1;
    while (before !== sentBytes) {
      before = sentBytes;
      await sleep(150);
    }
    // The tunnel's window, the endpoint's queue, and what the kernel and grpc-js hold.
    assert.ok(sentBytes < 40 * MIB, `${sentBytes} bytes were taken`);
    slow.socket.resume();
    await sending;
    tunnel.send(packets.data(2, "hello"), packets.close(1), packets.close(2));
    await until(() => other.fate === "ended" && slow.fate === "ended");
    assert.equal(slow.digest(), digest(bytes));
    assert.equal(other.receivedBytes, 5);
    for (const { socket } of [slow, other]) socket.end();
  });
});

describe("bytes from the endpoint", () => {
  it("all arrive before the close: 10 MiB and a FIN", async (t) => {
    const bytes = patterned(10 * MIB);
    const { connectionTo, tunnel } = await setup(t, (peer) => {
      peer.socket.end(bytes);
    });
    for (let id = 1; id <= 5; id++) {
      await connectionTo(id);
      const got = await tunnel.collect(id);
      tunnel.stopServing();
      assert.equal(got.error, "");
      assert.equal(got.bytes.length, bytes.length);
      assert.equal(digest(got.bytes), digest(bytes));
      assert.ok(got.largestBytes <= 64 * KIB);
      assert.ok(got.smallestBytes > 0);
    }
  });

  it("all arrive before the close: 200 times", async (t) => {
    const { connectionTo, tunnel } = await setup(t, (peer) => {
      peer.socket.end(patterned(1 + ((peer.socket.remotePort! * 7_919) % (96 * KIB))));
    });
    for (let id = 1; id <= 200; id++) {
      const peer = await connectionTo(id);
      const got = await tunnel.collect(id);
      tunnel.stopServing();
      const expected = patterned(1 + ((peer.socket.remotePort! * 7_919) % (96 * KIB)));
      assert.equal(got.error, "");
      assert.equal(digest(got.bytes), digest(expected));
    }
  });

  it("wait in the endpoint while the server does not read", async (t) => {
    const bytes = patterned(64 * MIB);
    const { connectionTo, tunnel } = await setup(t);
    const peer = await connectionTo(1);
    tunnel.call.pause();
    const handed = () => peer.socket.bytesWritten - peer.socket.writableLength;
    peer.socket.end(bytes);
    let before = -1;
    while (before !== handed()) {
      before = handed();
      await sleep(150);
    }
    assert.ok(before < 32 * MIB, `${before} bytes were taken`);
    const collected = tunnel.collect(1);
    tunnel.call.resume();
    const got = await collected;
    assert.equal(got.error, "");
    assert.equal(digest(got.bytes), digest(bytes));
  });
});

describe("an endpoint's reset", () => {
  it("is never told as an end", async (t) => {
    const { connectionTo, tunnel } = await setup(t);
    for (let id = 1; id <= 200; id++) {
      const peer = await connectionTo(id);
      peer.socket.resetAndDestroy();
      const got = await tunnel.collect(id);
      tunnel.stopServing();
      assert.match(got.error, /^read tcp 127\.0\.0\.1:\d+: read: .*(reset|RESET)/);
    }
  });

  it("is never told as an end when it comes together with data", async (t) => {
    const { connectionTo, tunnel } = await setup(t);
    for (let id = 1; id <= 200; id++) {
      const peer = await connectionTo(id);
      // In one turn of the loop, so that the agent finds both at once.
      peer.socket.write(patterned(1 + ((id * 7_919) % (96 * KIB))), () => {
        peer.socket.resetAndDestroy();
      });
      const got = await tunnel.collect(id);
      tunnel.stopServing();
      assert.match(got.error, /^read tcp 127\.0\.0\.1:\d+: read: .*(reset|RESET)/);
    }
  });

  it("is told when it comes in the middle of an upload", async (t) => {
    const { connectionTo, sendAll, tunnel, metric } = await setup(t);
    const peer = await connectionTo(1);
    const collected = tunnel.collect(1);
    const sending = sendAll(1, patterned(32 * MIB));
    await until(() => peer.receivedBytes > MIB);
    peer.socket.resetAndDestroy();
    const { error } = await collected;
    assert.match(
      error,
      /^(read|write) tcp 127\.0\.0\.1:\d+: (read|write): (connection reset by peer|broken pipe)$/,
    );
    await sending;
    assert.equal(
      await metric('reachback_agent_connections_closed_total{reason="endpoint_error"}'),
      "1",
    );
  });
});

describe("a lost tunnel", () => {
  it("resets the endpoints, and never ends them", async (t) => {
    const { agent, connectionTo, sendAll, server, peers, metric } = await setup(t);
    for (let id = 1; id <= 20; id++) await connectionTo(id);
    await sendAll(20, patterned(MIB));
    server.stop();
    await until(() => peers.every(({ fate }) => fate !== "open"));
    assert.deepEqual([...new Set(peers.map(({ fate }) => fate))], ["reset"]);
    assert.equal(agent.isReady, false);
    assert.equal(await metric("open_endpoint_connections"), "0");
    assert.equal(
      await metric('reachback_agent_connections_closed_total{reason="tunnel_lost"}'),
      "20",
    );
  });

  it("resets them too when the server ends it in an orderly way", async (t) => {
    const { connectionTo, peers, tunnel } = await setup(t);
    for (let id = 1; id <= 5; id++) await connectionTo(id);
    tunnel.end();
    await until(() => peers.every(({ fate }) => fate === "reset"));
  });
});
