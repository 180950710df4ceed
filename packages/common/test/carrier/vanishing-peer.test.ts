import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { PacketType } from "../../src/packet/packet.ts";
import { memoryServer } from "../grpc/memory-server.ts";
import { MemorySocket } from "../http2/memory-socket.ts";
import { clientOn, echo, recordingMethod } from "./grpc-setup.ts";
import type { RecordedOwner, TestClient } from "./grpc-setup.ts";
import { CONTROL_PACKETS, connectionId } from "./packets.ts";

/** What a peer does at the point where it vanishes. */
const WAYS = ["ends", "fails", "falls silent"] as const;

/** Three calls: one with packets of every type, one that nobody serves, one that is cut short. */
function makeCalls({ call }: TestClient): RecordedOwner[] {
  const whole = call();
  for (const [packet] of CONTROL_PACKETS) whole.carrier?.send(packet);
  whole.carrier?.sendData(connectionId(1), Buffer.from("some bytes"));
  whole.carrier?.end();
  const refused = call({ path: "/NoService/Nothing" });
  const open = call({
    metadata: [
      ["twice", "1"],
      ["twice", "2"],
    ],
  });
  open.carrier?.send({ type: PacketType.DRAIN });
  return [whole, refused, open];
}

const echoService = () => {
  const { method, owners } = recordingMethod((owner) => {
    echo(owner);
    owner.keepsData = true;
  });
  return { services: { ProxyService: { Proxy: method } }, owners };
};

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Let a client and a server of ours talk; returns what each of them said. */
async function recordExchange(t: TestContext): Promise<{ client: Buffer; server: Buffer }> {
  const { services } = echoService();
  const serverPeer = memoryServer(t, services).connect();
  const clientSocket = new MemorySocket();
  const serverSocket = serverPeer.socket;
  clientSocket.onWrite = (buffers) => {
    const bytes = Buffer.concat(buffers);
    setImmediate(() => {
      serverSocket.receive(bytes);
    });
  };
  const forward = (buffers: readonly Buffer[]) => {
    const bytes = Buffer.concat(buffers);
    setImmediate(() => {
      clientSocket.receive(bytes);
    });
  };
  serverSocket.onWrite = forward;
  const client = clientOn(t, clientSocket.asSocket);
  const [whole, refused] = makeCalls(client);
  await Promise.all([whole?.whenClosed, refused?.whenClosed]);
  await turns(5);
  const recorded = { client: clientSocket.written, server: serverSocket.written };
  assert.deepEqual(whole?.events, ["opened", "ended", "closed 0"]);
  client.connection.destroy();
  return recorded;
}

function vanish(socket: MemorySocket, way: (typeof WAYS)[number]): void {
  if (way === "ends") socket.receiveEnd();
  if (way === "fails") socket.destroy(new Error("read ECONNRESET"));
}

/** How often a call's owner was told that it is over. */
function closes(owner: RecordedOwner): number {
  return owner.events.filter((event) => event.startsWith("closed")).length;
}

describe("a peer that vanishes", () => {
  for (const way of WAYS) {
    it(`and ${way} at any byte of what a client says leaves nothing behind at the server`, async (t) => {
      const { client: bytes } = await recordExchange(t);
      assert.ok(bytes.length > 400, `${bytes.length} bytes`);
      for (let offset = 0; offset <= bytes.length; offset++) {
        const { services, owners } = echoService();
        const { connect, server, clock } = memoryServer(t, services);
        const { socket } = connect();
        socket.receive(bytes.subarray(0, offset));
        vanish(socket, way);
        await turns(4);
        // The deadline for a first call, or two intervals of keepalive; then what is left lingers.
        for (let round = 0; round < 4; round++) clock.advance(40_000);
        await turns(2);
        assert.equal(server.connectionCount, 0, `offset ${offset}`);
        assert.equal(socket.destroyed, true, `offset ${offset}`);
        assert.equal(clock.pendingTimers, 0, `offset ${offset}`);
        for (const owner of owners) assert.equal(closes(owner), 1, `offset ${offset}`);
        const [whole, open] = owners;
        const isWhole = whole?.packets.length === CONTROL_PACKETS.length + 1;
        if (whole?.events.includes("ended") === true) assert.ok(isWhole, `offset ${offset}`);
        if (open !== undefined) assert.equal(open.events.includes("ended"), false);
      }
    });
  }

  for (const way of ["ends", "fails"] as const) {
    it(`and ${way} at any byte of what a server says is no success of a call at its client`, async (t) => {
      const { server: bytes } = await recordExchange(t);
      assert.ok(bytes.length > 300, `${bytes.length} bytes`);
      let successes = 0;
      for (let offset = 0; offset <= bytes.length; offset++) {
        const socket = new MemorySocket();
        const client = clientOn(t, socket.asSocket);
        const [whole, refused, open] = makeCalls(client);
        await turns(1);
        socket.receive(bytes.subarray(0, offset));
        vanish(socket, way);
        await turns(4);
        assert.equal(client.connection.streamCount, 0, `offset ${offset}`);
        assert.equal(client.events.length, 1, `offset ${offset}`);
        assert.equal(socket.destroyed, true, `offset ${offset}`);
        for (const owner of [whole!, refused!, open!]) assert.equal(closes(owner), 1);
        const wholeStatus = await whole!.whenClosed;
        if (wholeStatus.code === 0) {
          successes++;
          assert.equal(whole?.packets.length, CONTROL_PACKETS.length + 1, `offset ${offset}`);
        } else {
          assert.equal(wholeStatus.code, 14);
        }
        const refusedStatus = await refused!.whenClosed;
        assert.ok([12, 14].includes(refusedStatus.code), `offset ${offset}`);
        assert.equal((await open!.whenClosed).code, 14);
      }
      assert.ok(successes > 0 && successes < bytes.length);
    });
  }

  it("is noticed at any byte when bytes come one by one", async (t) => {
    const { client: bytes } = await recordExchange(t);
    const { services, owners } = echoService();
    const peer = memoryServer(t, services).connect();
    for (const byte of bytes) peer.socket.receive(Buffer.from([byte]));
    await peer.settled();
    assert.deepEqual(owners[0]?.packets.length, CONTROL_PACKETS.length + 1);
    assert.deepEqual(owners[0].events, ["ended", "closed 0"]);
    assert.deepEqual(owners[1]?.events, []);
    peer.socket.destroy(new Error("read ECONNRESET"));
    await peer.settled();
    assert.deepEqual(owners[1].events, ["closed 1 context canceled"]);
  });
});
