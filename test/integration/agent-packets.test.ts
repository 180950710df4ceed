import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { LookupError } from "@reachback/agent";
import type { HostLookup } from "@reachback/agent";
import { startAgentServer } from "../support/agent-server.ts";
import type { AgentTunnel } from "../support/agent-server.ts";
import { startEndpoint, until } from "../support/cluster.ts";
import { decodePacket } from "../support/grpc-oracle.ts";
import { startBlackHole } from "../support/http2-peer.ts";
import { packetText, packets } from "../support/packet-stream.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import type { TrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd, openHandles } from "../support/tracked-clock.ts";

const golden = JSON.parse(
  readFileSync(new URL("../golden/packets.json", import.meta.url), "utf8"),
) as Record<string, { hex: string }>;

/** The endpoint that was refused when the golden packets were recorded; nobody listens there. */
const CLOSED = "127.0.0.1:29899";

const MAX_INT63 = "9223372036854775807";

const lookup: HostLookup = {
  lookup: (name) =>
    name === "local.test"
      ? Promise.resolve(["127.0.0.1"])
      : Promise.reject(new LookupError("not-found", name)),
};

async function setup(t: TestContext): Promise<TrackedAgent & { tunnel: AgentTunnel }> {
  const server = await startAgentServer(t);
  const tracked = await startTrackedAgent(t, server.port, {}, { hostLookup: lookup });
  return { ...tracked, tunnel: await server.next() };
}

/** Answers `echo:` and what it was sent. */
function startEcho(t: TestContext): Promise<string> {
  return startEndpoint(t, (socket) => {
    socket.on("data", (piece: Buffer) => {
      socket.write(Buffer.concat([Buffer.from("echo:"), piece]));
    });
    socket.on("end", () => socket.end());
  });
}

/** With the name server of the machine masked. */
function withoutNameServer(hex: string): string {
  return packetText(decodePacket(Buffer.from(hex, "hex"))).replace(/ on \S+: /, " on <ns>: ");
}

checkForLeaksAtEnd();

describe("packets of the agent", () => {
  it("are byte for byte those of upstream's", async (t) => {
    const { agent, tunnel } = await setup(t);
    const echo = await startEcho(t);
    const checked: string[] = [];
    const expect = async (name: string) => {
      assert.equal(await tunnel.nextHex(), golden[name]!.hex, name);
      checked.push(name);
    };

    tunnel.send(packets.dial(1001, CLOSED));
    await expect("wire_agent_dial_rsp_refused_127.0.0.1:29899_random_1001");
    tunnel.send(packets.dial(1002, "nope.invalid:80"));
    const name = "wire_agent_dial_rsp_no_such_host_random_1002";
    const hex = await tunnel.nextHex();
    assert.equal(withoutNameServer(hex), withoutNameServer(golden[name]!.hex));
    tunnel.send(packets.dial(1003, echo));
    await expect("wire_agent_dial_rsp_ok_connectID_3_random_1003");
    tunnel.send(packets.dial(-1, CLOSED));
    await expect("wire_agent_dial_rsp_refused_random_-1");
    tunnel.send(packets.dial(MAX_INT63, "foo"));
    await expect("wire_agent_dial_rsp_missing_port_random_max");
    tunnel.send(packets.dial(MAX_INT63, "127.0.0.1:80", "foo"));
    await expect("wire_agent_dial_rsp_unknown_network_random_max");
    tunnel.send(packets.data(77, "hello"));
    await expect("wire_agent_close_rsp_77_unrecognized_connectID");
    tunnel.send(packets.close(77));
    await expect("wire_agent_close_rsp_77_Unknown_connectID");
    tunnel.send(packets.close(0));
    await expect("wire_agent_close_rsp_0_Unknown_connectID");
    tunnel.send(packets.close(3));
    await expect("wire_agent_close_rsp_3");
    for (const random of [7, 8]) {
      tunnel.send(packets.dial(random, CLOSED));
      await tunnel.next();
    }
    tunnel.send(packets.dial(9, echo));
    assert.equal(await tunnel.next(), "DIAL_RSP 9 id 9");
    tunnel.send(packets.data(9, "hello"));
    await expect("wire_agent_data_9_echo:hello");
    void agent.drain();
    await expect("wire_agent_drain");

    // UDP is not for us; everything else that was recorded has been compared.
    const recorded = Object.keys(golden).filter((key) => key.startsWith("wire_agent_"));
    assert.deepEqual(
      recorded.filter((key) => !checked.includes(key)),
      [name, "wire_agent_data_4_udp:hi"],
    );
  });

  it("carry the dial id back bit for bit", async (t) => {
    const { tunnel } = await setup(t);
    const ids = ["0", "1", "-1", MAX_INT63, "-9223372036854775808", "9007199254740993"];
    for (const id of ids) {
      tunnel.send(packets.dial(id, CLOSED));
      assert.equal((await tunnel.nextPacket()).dialResponse?.random, id);
    }
  });

  it("carry an unknown connection id back bit for bit", async (t) => {
    const { tunnel } = await setup(t);
    for (const id of ["1", "-1", MAX_INT63, "9007199254740993"]) {
      tunnel.send(packets.data(id, "x"), packets.close(id));
      assert.equal(await tunnel.next(), `CLOSE_RSP ${id} "unrecognized connectID"`);
      assert.equal(await tunnel.next(), `CLOSE_RSP ${id} "Unknown connectID"`);
    }
  });
});

describe("a dial through the tunnel", () => {
  it("is refused in Go's words", async (t) => {
    const { tunnel } = await setup(t);
    const cases: [protocol: string, address: string, error: string][] = [
      ["tcp", CLOSED, `dial tcp ${CLOSED}: connect: connection refused`],
      ["tcp", "[::1]:29899", "dial tcp [::1]:29899: connect: connection refused"],
      ["tcp", ":29899", "dial tcp :29899: connect: connection refused"],
      ["tcp", "127.0.0.1:0", "dial tcp 127.0.0.1:0: connect: connection refused"],
      ["tcp", "127.0.0.1:", "dial tcp 127.0.0.1:0: connect: connection refused"],
      ["tcp", "local.test:29899", `dial tcp ${CLOSED}: connect: connection refused`],
      ["tcp", "nope.:80", "dial tcp: lookup nope. on <ns>: no such host"],
      ["tcp", "127.0.0.1:99999", "dial tcp: address 99999: invalid port"],
      ["foo", "127.0.0.1:80", "dial foo: unknown network foo"],
      ["", "", "dial: unknown network "],
      ["unix", "/x.sock", "dial unix: unknown network unix"],
      ["udp", "127.0.0.1:53", "dial udp: unknown network udp"],
    ];
    for (const [protocol, address, error] of cases) {
      tunnel.send(packets.dial(5, address, protocol));
      const { dialResponse } = await tunnel.nextPacket();
      assert.deepEqual(
        { ...dialResponse, error: dialResponse?.error?.replace(/ on \S+: /, " on <ns>: ") },
        { error, connectID: "0", random: "5" },
      );
    }
  });

  it("reaches an endpoint by address, by IPv6, by name, and on this host without one", async (t) => {
    const { tunnel } = await setup(t);
    const port = (await startEcho(t)).split(":")[1]!;
    const six = createServer((socket) => socket.end()).listen(0, "::1");
    await once(six, "listening");
    t.after(() => six.close());
    const { port: sixPort } = six.address() as { port: number };
    const addresses = [
      `127.0.0.1:${port}`,
      `local.test:${port}`,
      `:${port}`,
      `[::ffff:127.0.0.1]:${port}`,
      `[::1]:${sixPort}`,
    ];
    for (const [index, address] of addresses.entries()) {
      tunnel.send(packets.dial(index, address));
      assert.equal(await tunnel.next(), `DIAL_RSP ${index} id ${index + 1}`);
    }
  });

  it("is answered before the endpoint's first word, however fast that is", async (t) => {
    const { tunnel } = await setup(t);
    const banner = await startEndpoint(t, (socket) => socket.end("hello"));
    for (let id = 1; id <= 100; id++) {
      tunnel.send(packets.dial(id, banner));
      assert.deepEqual(
        [await tunnel.next(), await tunnel.next(), await tunnel.next()],
        [`DIAL_RSP ${id} id ${id}`, `DATA ${id} "hello"`, `CLOSE_RSP ${id}`],
      );
    }
  });

  it("does not wait for others: three hundred at once, with dead ones among them", async (t) => {
    const { tunnel, metric } = await setup(t);
    const echo = await startEcho(t);
    const blackHole = `127.0.0.1:${await startBlackHole(t)}`;
    const answers = new Map<string, string>();
    tunnel.serve(({ dialResponse }) => {
      if (dialResponse) answers.set(dialResponse.random!, dialResponse.connectID!);
    });
    for (let random = 1; random <= 300; random++) {
      const address = random % 3 === 0 ? CLOSED : random % 3 === 1 ? echo : blackHole;
      tunnel.send(packets.dial(random, address));
    }
    await until(() => answers.size === 200);
    for (const [random, id] of answers) {
      assert.equal(id, Number(random) % 3 === 0 ? "0" : random);
    }
    assert.equal(await metric("open_endpoint_connections"), "100");
    for (let random = 2; random <= 300; random += 3) tunnel.send(packets.dialClose(random));
    for (const id of answers.values()) if (id !== "0") tunnel.send(packets.close(id));
    await until(async () => (await metric("open_endpoint_connections")) === "0");
    assert.equal(answers.size, 200);
  });

  it("that nobody answers is dropped with its socket when its frontend leaves", async (t) => {
    const { tunnel } = await setup(t);
    const blackHole = `127.0.0.1:${await startBlackHole(t)}`;
    const handlesBefore = openHandles().length;
    tunnel.send(packets.dial(1, blackHole), packets.dial(2, blackHole));
    await until(() => openHandles().length === handlesBefore + 2);
    tunnel.send(packets.dialClose(2), packets.dialClose(99));
    await until(() => openHandles().length === handlesBefore + 1);
    tunnel.send(packets.dialClose(1));
    await until(() => openHandles().length === handlesBefore);
    tunnel.send(packets.dial(3, CLOSED));
    assert.match(await tunnel.next(), /^DIAL_RSP 3 /);
    assert.deepEqual(tunnel.unread, []);
  });
});

describe("a packet without sense", () => {
  it("is answered as an empty one when its payload is missing or another's", async (t) => {
    const { tunnel } = await setup(t);
    const dialed = 'DIAL_RSP 0 "dial: unknown network "';
    const cases: [hex: string, answers: string[]][] = [
      ["", [dialed]],
      ["0800", [dialed]],
      ["1200", [dialed]],
      ["3a02086f", [dialed]], // closeDial, without a type: a DIAL_REQ
      ["0802", ['CLOSE_RSP 0 "Unknown connectID"']],
      ["08022a00", ['CLOSE_RSP 0 "Unknown connectID"']],
      ["080232021003", ['CLOSE_RSP 0 "Unknown connectID"']],
      ["0804", []],
      ["080422020801", []], // empty DATA
      ["080422071a0568656c6c6f", []], // DATA of connection 0
      ["08042a020801", []],
      ["0805", []],
      ["08053a02086f", []],
      ["0806", []],
      ["08064200", []],
      ["0801", []],
      ["08011a05100318eb07", []],
      ["0803", []],
      ["080332021003", []],
    ];
    for (const [hex, answers] of cases) {
      tunnel.sendHex(hex);
      for (const answer of answers) assert.equal(await tunnel.next(), answer, hex);
    }
    tunnel.send(packets.close(5));
    assert.equal(await tunnel.next(), 'CLOSE_RSP 5 "Unknown connectID"');
  });

  it("is ignored when its type is unknown", async (t) => {
    const { tunnel } = await setup(t);
    for (const hex of ["0807", "0840", "08ffffffff0f", "0863fa0103616263"]) tunnel.sendHex(hex);
    tunnel.send(packets.close(5));
    assert.equal(await tunnel.next(), 'CLOSE_RSP 5 "Unknown connectID"');
  });

  it("is understood in any order of fields, with unknown ones between", async (t) => {
    const { tunnel } = await setup(t);
    const echo = await startEcho(t);
    tunnel.send(packets.dial(1, echo));
    assert.equal(await tunnel.next(), "DIAL_RSP 1 id 1");
    // data, an unknown field, connectID; and the type last.
    tunnel.sendHex("22091a026869f80101" + "0801" + "0804");
    assert.equal(await tunnel.next(), 'DATA 1 "echo:hi"');
  });

  it("ends the tunnel, and nothing else, when it is no packet at all", async (t) => {
    const server = await startAgentServer(t);
    const { agent, logger } = await startTrackedAgent(t, server.port);
    let fate = "open";
    const endpoint = await startEndpoint(t, (socket) => {
      socket.on("error", () => {
        fate = "reset";
      });
      socket.resume();
    });
    const tunnel = await server.next();
    tunnel.send(packets.dial(1, endpoint));
    await tunnel.next();
    tunnel.sendHex("ffffffffffffffffffffffff");
    await tunnel.ended;
    await until(() => fate === "reset");
    const lost = logger.lines.find(({ event }) => event === "tunnel.lost");
    assert.equal(lost?.fields["code"], "Internal");
    const next = await server.next();
    next.send(packets.dial(2, endpoint));
    assert.equal(await next.next(), "DIAL_RSP 2 id 1");
    assert.equal(agent.isReady, true);
  });
});
