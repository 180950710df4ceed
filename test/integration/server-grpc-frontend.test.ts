import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { startServer } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { assertNothingLeft, valueOf } from "../support/gauges.ts";
import { connectAsAgent, connectAsFrontend, openProxy, packets } from "../support/packet-stream.ts";
import type { PacketStream, Transport } from "../support/packet-stream.ts";

// What each packet of a gRPC frontend does, with grpc-js on both sides of the server.

const golden = JSON.parse(
  readFileSync(new URL("../golden/packets.json", import.meta.url), "utf8"),
) as Record<string, { readonly hex: string }>;

function recorded(name: string): string {
  const packet = golden[name];
  assert.ok(packet, name);
  return packet.hex;
}

function bytesOf(hex: string): Buffer {
  return Buffer.from(hex, "hex");
}

interface Setup {
  readonly server: TestServer;
  readonly agent: PacketStream;
  readonly frontend: PacketStream;
}

async function setup(t: TestContext, transport: Transport): Promise<Setup> {
  const server = await startServer(t);
  const agent = await connectAsAgent(t, server);
  return { server, agent, frontend: openProxy(t, server, transport) };
}

/** A connection with id 1 that was dialed as 111. */
async function open(t: TestContext, transport: Transport): Promise<Setup> {
  const parts = await setup(t, transport);
  parts.frontend.send(packets.dial(111));
  assert.equal(await parts.agent.next(), "DIAL_REQ 111 tcp endpoint:80");
  parts.agent.send(packets.dialed(111, 1));
  assert.equal(await parts.frontend.next(), "DIAL_RSP 111 id 1");
  return parts;
}

/** Nothing has come, and the stream ends well when its client does. */
async function assertEndsWell(frontend: PacketStream): Promise<void> {
  frontend.end();
  const { code, details } = await frontend.status;
  assert.deepEqual(
    { code, details, unread: frontend.unread },
    { code: 0, details: "", unread: [] },
  );
}

/** What was sent to the agent has arrived: it is asked for a dial of another stream behind it. */
async function assertNothingForAgent(t: TestContext, { server, agent }: Setup): Promise<void> {
  const fence = openProxy(t, server);
  fence.send(packets.dial(999, "fence:1"));
  assert.equal(await agent.next(), "DIAL_REQ 999 tcp fence:1");
  agent.send(packets.dialFailed(999, "fence"));
  assert.equal(await fence.next(), 'DIAL_RSP 999 "fence"');
  fence.end();
  await fence.status;
}

for (const transport of ["unix", "tls"] as const) {
  describe(`gRPC frontend on ${transport}`, () => {
    it("answers a dial without an agent, and falls deaf", async (t) => {
      const server = await startServer(t);
      const frontend = openProxy(t, server, transport);
      frontend.sendBytes(bytesOf(recorded("dial_req_tcp_127.0.0.1:80_random_111")));
      assert.equal(await frontend.nextHex(), recorded("wire_server_dial_rsp_no_agent_random_111"));
      frontend.send(packets.dial(112), packets.close(1), packets.data(1, "x"));
      await assertEndsWell(frontend);
      await assertNothingLeft(server, 0);
      const failures = await valueOf(server.healthPort, "dial_failure_count", {
        reason: "no_agent",
      });
      assert.equal(failures, 1);
    });

    for (const name of [
      "dial_req_tcp_127.0.0.1:80_random_111",
      "dial_req_tcp_a:1_random_max",
      "dial_req_random_negative_1",
      "dial_req_random_0",
      "dial_req_empty_payload",
    ]) {
      it(`passes ${name} on as it is, and the dial id back bit for bit`, async (t) => {
        const { agent, frontend } = await setup(t, transport);
        frontend.sendBytes(bytesOf(recorded(name)));
        const request = await agent.nextHex();
        assert.equal(request, recorded(name));
        // The field with the dial id, if it is not 0, is the last one.
        const dialId = /18((?:[89a-f][0-9a-f])*[0-7][0-9a-f])$/.exec(request)?.[0] ?? "";
        const response = `0801${lengthPrefixed("1a", `1001${dialId}`)}`;
        agent.sendBytes(bytesOf(response));
        assert.equal(await frontend.nextHex(), response);
      });
    }

    for (const name of Object.keys(golden).filter((name) =>
      /^wire_agent_dial_rsp_(?:refused|no_such_host|missing_port|unknown_network)/.test(name),
    )) {
      it(`passes ${name} back as it is`, async (t) => {
        const { agent, frontend } = await setup(t, transport);
        const dialId = /18((?:[89a-f][0-9a-f])*[0-7][0-9a-f])$/.exec(recorded(name))?.[0] ?? "";
        frontend.sendBytes(bytesOf(lengthPrefixed("12", dialId)));
        await agent.next();
        agent.sendBytes(bytesOf(recorded(name)));
        assert.equal(await frontend.nextHex(), recorded(name));
      });
    }

    it("goes on after a dial that was refused", async (t) => {
      const { agent, frontend } = await setup(t, transport);
      frontend.send(packets.dial(1));
      await agent.next();
      agent.send(packets.dialFailed(1, "no luck"));
      assert.equal(await frontend.next(), 'DIAL_RSP 1 "no luck"');
      frontend.send(packets.dial(2));
      assert.equal(await agent.next(), "DIAL_REQ 2 tcp endpoint:80");
      agent.send(packets.dialed(2, 2));
      assert.equal(await frontend.next(), "DIAL_RSP 2 id 2");
    });

    it("passes data on both ways, byte for byte as recorded", async (t) => {
      const { agent, frontend } = await open(t, transport);
      const hello = recorded("data_connectID_1_hello");
      frontend.sendBytes(bytesOf(hello));
      assert.equal(await agent.nextHex(), hello);
      agent.sendBytes(bytesOf(hello));
      assert.equal(await frontend.nextHex(), hello);
    });

    it("closes when the client asks: behind the endpoint's data, with the agent's word", async (t) => {
      const { server, agent, frontend } = await open(t, transport);
      frontend.send(packets.data(1, "last")).sendBytes(bytesOf(recorded("close_req_connectID_1")));
      assert.equal(await agent.next(), 'DATA 1 "last"');
      assert.equal(await agent.nextHex(), recorded("close_req_connectID_1"));
      agent.send(packets.data(1, "rest"), packets.closed(1));
      assert.equal(await frontend.next(), 'DATA 1 "rest"');
      assert.equal(await frontend.nextHex(), recorded("close_rsp_connectID_1"));
      frontend.send(packets.dial(112), packets.data(1, "deaf"));
      await assertEndsWell(frontend);
      await assertNothingLeft(server);
    });

    it("closes when the endpoint does", async (t) => {
      const { server, agent, frontend } = await open(t, transport);
      agent.send(packets.data(1, "all of it"), packets.closed(1));
      assert.equal(await frontend.next(), 'DATA 1 "all of it"');
      assert.equal(await frontend.next(), "CLOSE_RSP 1");
      // A Go client cancels the stream then.
      frontend.cancel();
      await assertNothingLeft(server);
      assert.deepEqual(agent.unread, []);
    });

    it("passes the agent's reason on when the endpoint fails", async (t) => {
      const { agent, frontend } = await open(t, transport);
      agent.send(packets.closed(1, "read tcp 10.0.0.1:80: connection reset by peer"));
      assert.equal(
        await frontend.next(),
        'CLOSE_RSP 1 "read tcp 10.0.0.1:80: connection reset by peer"',
      );
    });

    it("answers CLOSE_REQ before any dial, and can still dial", async (t) => {
      const { agent, frontend } = await setup(t, transport);
      frontend.send(packets.close(5));
      assert.equal(
        await frontend.nextHex(),
        recorded("wire_server_close_rsp_5_backend_uninitialized"),
      );
      frontend.send(packets.dial(1));
      assert.equal(await agent.next(), "DIAL_REQ 1 tcp endpoint:80");
    });

    it("answers CLOSE_REQ for a connection that is not its own", async (t) => {
      const parts = await open(t, transport);
      parts.frontend.send(packets.close(7));
      assert.equal(await parts.frontend.nextHex(), recorded("close_rsp_connectID_7_unknown"));
      await assertNothingForAgent(t, parts);
    });

    it("answers CLOSE_REQ without an id while it dials, and still passes the dial's answer on", async (t) => {
      const { agent, frontend } = await setup(t, transport);
      frontend.send(packets.dial(111), packets.close(0));
      assert.equal(await frontend.nextHex(), recorded("wire_agent_close_rsp_0_Unknown_connectID"));
      await agent.next();
      agent.send(packets.dialed(111, 1));
      assert.equal(await frontend.next(), "DIAL_RSP 111 id 1");
    });

    it("answers DATA before any dial, and falls deaf", async (t) => {
      const parts = await setup(t, transport);
      const { frontend } = parts;
      frontend.send(packets.data(5, "x"));
      assert.equal(
        await frontend.nextHex(),
        recorded("wire_server_close_rsp_5_backend_not_initialized"),
      );
      frontend.send(packets.data(5, "x"), packets.dial(1), packets.close(5));
      await assertEndsWell(frontend);
      await assertNothingForAgent(t, parts);
    });

    it("drops DATA without an id", async (t) => {
      const { agent, frontend } = await open(t, transport);
      frontend.sendBytes(bytesOf(recorded("data_connectID_0_hello")));
      frontend.send(packets.data(1, "mine"));
      assert.equal(await agent.next(), 'DATA 1 "mine"');
      await assertEndsWell(frontend);
    });

    it("closes both when DATA comes for a second connection", async (t) => {
      const parts = await open(t, transport);
      const { server, agent, frontend } = parts;
      frontend.send(packets.data(1, "one"), packets.data(9, "nine"), packets.data(1, "deaf"));
      assert.equal(await frontend.nextHex(), recorded("wire_server_close_rsp_9_mismatched"));
      assert.equal(await frontend.next(), 'CLOSE_RSP 1 "mismatched connection IDs"');
      assert.equal(await agent.next(), 'DATA 1 "one"');
      assert.equal(await agent.next(), "CLOSE_REQ 1");
      agent.send(packets.closed(1));
      assert.equal(await frontend.next(), "CLOSE_RSP 1");
      await assertNothingForAgent(t, parts);
      await assertEndsWell(frontend);
      await assertNothingLeft(server);
    });

    it("takes the id of the first DATA for the stream's, even if it is wrong", async (t) => {
      const { agent, frontend } = await open(t, transport);
      frontend.send(packets.data(9, "nine"), packets.data(1, "one"));
      assert.equal(await frontend.next(), 'CLOSE_RSP 1 "mismatched connection IDs"');
      assert.equal(await frontend.next(), 'CLOSE_RSP 9 "mismatched connection IDs"');
      assert.equal(await agent.next(), "CLOSE_REQ 1");
    });

    it("ignores packets that are not for a server, and unknown ones", async (t) => {
      const { agent, frontend } = await open(t, transport);
      frontend.send(packets.dialed(111, 2), packets.closed(1), packets.drain());
      for (const hex of ["0807", "0863", "08ffffffff0f", "08072202080112020a00"]) {
        frontend.sendBytes(bytesOf(hex));
      }
      frontend.send(packets.data(1, "still here"));
      assert.equal(await agent.next(), 'DATA 1 "still here"');
      await assertEndsWell(frontend);
    });

    it("reads fields in any order, and passes over unknown ones", async (t) => {
      const { agent, frontend } = await setup(t, transport);
      // random, address, an unknown field 15, protocol; and the type behind the payload.
      frontend.sendBytes(bytesOf("121018051203613a317a026869" + "0a03746370" + "0800"));
      assert.equal(await agent.next(), "DIAL_REQ 5 tcp a:1");
      agent.send(packets.dialed(5, 1));
      assert.equal(await frontend.next(), "DIAL_RSP 5 id 1");
      frontend.sendBytes(bytesOf("22071a03616263" + "0801" + "0804"));
      assert.equal(await agent.next(), 'DATA 1 "abc"');
    });

    describe("a packet without its payload", () => {
      it("of type DIAL_REQ dials nothing in particular", async (t) => {
        const { agent, frontend } = await setup(t, transport);
        frontend.sendBytes(bytesOf(recorded("dial_req_no_payload")));
        assert.equal(await agent.nextHex(), recorded("dial_req_empty_payload"));
        agent.send(packets.dialFailed(0, "dial: unknown network "));
        assert.equal(await frontend.next(), 'DIAL_RSP 0 "dial: unknown network "');
      });

      const effects: readonly [hex: string, type: string, answer: string | undefined][] = [
        ["0801", "DIAL_RSP", undefined],
        ["0802", "CLOSE_REQ", 'CLOSE_RSP 0 "Unknown connectID"'],
        ["0803", "CLOSE_RSP", undefined],
        ["0804", "DATA", undefined],
        ["0805", "DIAL_CLS", undefined],
        ["0806", "DRAIN", undefined],
        ["08021a00", "CLOSE_REQ with another's payload", 'CLOSE_RSP 0 "Unknown connectID"'],
      ];
      for (const [hex, type, answer] of effects) {
        it(`of type ${type} does ${answer ?? "nothing"}`, async (t) => {
          const parts = await open(t, transport);
          parts.frontend.sendBytes(bytesOf(hex));
          if (answer !== undefined) assert.equal(await parts.frontend.next(), answer);
          await assertNothingForAgent(t, parts);
          await assertEndsWell(parts.frontend);
          await assertNothingLeft(parts.server);
        });
      }
    });

    describe("ends a stream that cannot go on, and nothing else", () => {
      const broken: readonly [what: string, bytes: Buffer, code: number, details: string][] = [
        [
          "no packet",
          bytesOf("ff"),
          13,
          "grpc: failed to unmarshal the received message: proto: cannot parse invalid wire-format data",
        ],
        [
          "a message of 4 MiB and a byte",
          Buffer.alloc(4_194_305),
          8,
          "grpc: received message larger than max (4194305 vs. 4194304)",
        ],
      ];
      for (const [what, bytes, code, details] of broken) {
        it(`on ${what}`, async (t) => {
          const { server, agent, frontend } = await open(t, transport);
          const other = connectAsFrontend(t, server, transport);
          const bystander = other.open().send(packets.dial(2));
          await agent.next();
          frontend.sendBytes(bytes);
          const status = await frontend.status;
          assert.deepEqual([status.code, status.details], [code, details]);
          assert.equal(await agent.next(), "CLOSE_REQ 1");
          agent.send(packets.dialed(2, 2));
          assert.equal(await bystander.next(), "DIAL_RSP 2 id 2");
        });
      }

      it("on calls that are not Proxy", async (t) => {
        const { server } = await setup(t, transport);
        const connection = connectAsFrontend(t, server, transport);
        for (const [path, details] of [
          ["/AgentService/Connect", "unknown service AgentService"],
          ["/ProxyService/Foo", "unknown method Foo for service ProxyService"],
        ]) {
          const status = await connection.open(path).status;
          assert.deepEqual([status.code, status.details], [12, details]);
        }
      });
    });
  });
}

describe("gRPC frontends beside each other", () => {
  it("both get their own answer when they dial with the same id", async (t) => {
    const { server, agent, frontend: one } = await setup(t, "unix");
    const other = openProxy(t, server, "tls");
    one.send(packets.dial("9223372036854775807", "one:1"));
    const first = await agent.nextPacket();
    other.send(packets.dial("9223372036854775807", "other:1"));
    const second = await agent.nextPacket();
    assert.equal(first.dialRequest?.address, "one:1");
    assert.equal(second.dialRequest?.address, "other:1");
    // On one tunnel the ids have to differ; which id the agent sees is nobody's business.
    assert.notEqual(first.dialRequest.random, second.dialRequest.random);
    agent.send(
      packets.dialed(second.dialRequest.random ?? 0, 8),
      packets.dialed(first.dialRequest.random ?? 0, 7),
    );
    assert.equal(await one.next(), "DIAL_RSP 9223372036854775807 id 7");
    assert.equal(await other.next(), "DIAL_RSP 9223372036854775807 id 8");
  });

  it("give up the right one of two dials with the same id", async (t) => {
    const { server, agent, frontend: one } = await setup(t, "unix");
    const other = openProxy(t, server);
    one.send(packets.dial(111, "one:1"));
    await agent.next();
    other.send(packets.dial(111, "other:1"));
    const second = await agent.nextPacket();
    other.send(packets.dialClose(111));
    assert.equal(await agent.next(), `DIAL_CLS ${second.dialRequest?.random ?? ""}`);
    agent.send(packets.dialed(111, 1));
    assert.equal(await one.next(), "DIAL_RSP 111 id 1");
  });

  it("cannot reach each other's connections", async (t) => {
    const parts = await open(t, "unix");
    const { server, agent, frontend: owner } = parts;
    const thief = openProxy(t, server);
    thief.send(packets.dial(2));
    await agent.next();
    agent.send(packets.dialed(2, 2));
    assert.equal(await thief.next(), "DIAL_RSP 2 id 2");

    thief.send(packets.dialClose(111), packets.data(1, "stolen"), packets.close(1));
    await assertEndsWell(thief);
    assert.equal(await agent.next(), "CLOSE_REQ 2");
    await assertNothingForAgent(t, parts);

    const other = openProxy(t, server).send(packets.dial(3));
    await agent.next();
    agent.send(packets.dialed(3, 3));
    await other.next();
    other.send(packets.close(1));
    assert.equal(await other.next(), 'CLOSE_RSP 1 "Unknown connectID"');

    agent.send(packets.data(1, "private"));
    assert.equal(await owner.next(), 'DATA 1 "private"');
    owner.send(packets.data(1, "still mine"));
    assert.equal(await agent.next(), 'DATA 1 "still mine"');
  });

  it("may dial several times on one stream, and use what they use first", async (t) => {
    const { server, agent, frontend } = await setup(t, "unix");
    frontend.send(packets.dial(1, "a:1"), packets.dial(2, "b:1"), packets.dial(3, "c:1"));
    for (const [id, address] of ["a:1", "b:1", "c:1"].entries()) {
      assert.equal(await agent.next(), `DIAL_REQ ${id + 1} tcp ${address}`);
    }
    agent.send(packets.dialed(2, 2), packets.dialed(3, 3), packets.dialFailed(1, "no"));
    assert.equal(await frontend.next(), "DIAL_RSP 2 id 2");
    assert.equal(await frontend.next(), "DIAL_RSP 3 id 3");
    assert.equal(await frontend.next(), 'DIAL_RSP 1 "no"');
    frontend.send(packets.data(3, "three"));
    assert.equal(await agent.next(), 'DATA 3 "three"');
    agent.send(packets.data(2, "from two"), packets.data(3, "from three"));
    assert.equal(await frontend.next(), 'DATA 2 "from two"');
    assert.equal(await frontend.next(), 'DATA 3 "from three"');
    frontend.send(packets.data(2, "two"));
    assert.equal(await frontend.next(), 'CLOSE_RSP 2 "mismatched connection IDs"');
    assert.equal(await frontend.next(), 'CLOSE_RSP 3 "mismatched connection IDs"');
    assert.equal(await agent.next(), "CLOSE_REQ 2");
    assert.equal(await agent.next(), "CLOSE_REQ 3");
    agent.send(packets.closed(2), packets.closed(3));
    frontend.end();
    await assertNothingLeft(server);
  });

  it("share one HTTP/2 connection by the hundred", async (t) => {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    agent.serve(({ type, dialRequest, data }) => {
      if (type === "DIAL_REQ") {
        const { random = 0 } = dialRequest ?? {};
        agent.send(packets.dialed(random, random));
      } else if (type === "DATA") {
        agent.send(packets.data(data?.connectID ?? 0, data?.data ?? ""));
      }
    });
    const connection = connectAsFrontend(t, server, "tls");
    await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        const id = index + 1;
        const stream = connection.open().send(packets.dial(id));
        assert.equal(await stream.next(), `DIAL_RSP ${id} id ${id}`);
        stream.send(packets.data(id, `unique ${id}`));
        assert.equal(await stream.next(), `DATA ${id} "unique ${id}"`);
        stream.end();
        assert.equal((await stream.status).code, 0);
      }),
    );
    await assertNothingLeft(server);
  });
});

function lengthPrefixed(tag: string, hex: string): string {
  return `${tag}${(hex.length / 2).toString(16).padStart(2, "0")}${hex}`;
}
