import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect as connectHttp2, constants } from "node:http2";
import type { ClientHttp2Session, IncomingHttpHeaders, Settings } from "node:http2";
import { connect } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { startAgent, startEndpoint, startServer, statusOf, until } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { assertNothingLeft, valueOf, whatIsHeld } from "../support/gauges.ts";
import { encodePacket } from "../support/grpc-oracle.ts";
import { callAsAgent, connectAsAgent, openProxy, packets } from "../support/packet-stream.ts";
import type { PacketStream } from "../support/packet-stream.ts";
import { createTestPki } from "../support/pki.ts";
import { connectRaw } from "../support/raw-socket.ts";
import type { RawSocket } from "../support/raw-socket.ts";

// Agents' tunnels: who may open one, what the server makes of what they say, and that tunnels of one
// agent never mix.

const golden = JSON.parse(
  readFileSync(new URL("../golden/agent-metadata.json", import.meta.url), "utf8"),
) as Record<string, [string, string][]> & {
  connect_status: Record<string, [number, string] | string>;
};

const hex = (text: string) => Buffer.from(text, "hex");

/** Node's HTTP/2 to where agents connect. */
function connectAgents(server: TestServer, settings: Settings = {}): ClientHttp2Session {
  const pki = createTestPki();
  return connectHttp2(`https://localhost:${server.agentPort}`, {
    ca: pki.agentCa.cert,
    cert: pki.agentClient.cert,
    key: pki.agentClient.key,
    lookup: (_name, _options, callback) => {
      callback(null, [{ address: "127.0.0.1", family: 4 }]);
    },
    settings,
  });
}

describe("two tunnels of one agent, with the same connection ids", () => {
  /** A client of one connection, through either frontend: what it says comes back with a prefix. */
  interface Echoed {
    assertEcho(prefix: string, text: string): Promise<void>;
    /** Resolves when the connection is over, with how. */
    whenOver(): Promise<string>;
    isOver(): boolean;
  }

  async function dialGrpc(t: TestContext, server: TestServer, index: number): Promise<Echoed> {
    const stream = openProxy(t, server).send(packets.dial(index + 1));
    const id = (await stream.nextPacket()).dialResponse?.connectID ?? "";
    return {
      assertEcho: async (prefix, text) => {
        stream.send(packets.data(id, text));
        assert.equal(await stream.next(), `DATA ${id} "${prefix}${text}"`);
      },
      whenOver: () => stream.next(),
      isOver: () => stream.unread.length > 0,
    };
  }

  async function dialConnect(t: TestContext, server: TestServer): Promise<Echoed> {
    const client = await connectRaw(t, server.connectPath);
    client.write("CONNECT endpoint:80 HTTP/1.1\r\n\r\n");
    await client.whenSaid("\r\n\r\n");
    return {
      assertEcho: async (prefix, text) => {
        const before = client.receivedBytes;
        client.write(text);
        const wanted = prefix + text;
        const received = await client.whenReceived(before + wanted.length);
        assert.equal(received.toString("latin1", before), wanted);
      },
      whenOver: async () => {
        await client.whenFinished();
        return "over";
      },
      isOver: () => client.fate !== "open",
    };
  }

  const dialSome = (t: TestContext, server: TestServer) =>
    Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        index % 2 === 0 ? dialGrpc(t, server, index) : dialConnect(t, server),
      ),
    );

  const assertAllEcho = (connections: readonly Echoed[], prefix: string, round: string) =>
    Promise.all(
      connections.map((connection, index) =>
        connection.assertEcho(prefix, `${prefix}${round} of ${index}`),
      ),
    );

  /** An agent that numbers from 1 and says which tunnel it is. */
  async function connectPrefixing(t: TestContext, server: TestServer, prefix: string) {
    const agent = await connectAsAgent(t, server, { agentId: "node-1" });
    let lastId = 0;
    const closed: string[] = [];
    agent.serve(({ type, dialRequest, data, closeRequest }) => {
      const id = data?.connectID ?? "";
      if (type === "DIAL_REQ") agent.send(packets.dialed(dialRequest?.random ?? 0, ++lastId));
      else if (type === "DATA") agent.send(packets.data(id, prefix + String(data?.data)));
      else if (type === "CLOSE_REQ") closed.push(closeRequest?.connectID ?? "");
    });
    return { agent, closed, dialCount: () => lastId };
  }

  for (const ending of ["end", "cancel"] as const) {
    it(`never mix, and the ${ending} of one ends exactly its own`, async (t) => {
      const server = await startServer(t);
      const one = await connectPrefixing(t, server, "one:");
      const firstHundred = await dialSome(t, server);
      const other = await connectPrefixing(t, server, "other:");
      one.agent.send(packets.drain());
      await until(async () => {
        const labels = { segment: "from_agent", packet_type: "DRAIN" };
        return (await valueOf(server.healthPort, "stream_packets_total", labels)) === 1;
      });
      const secondHundred = await dialSome(t, server);
      assert.deepEqual([one.dialCount(), other.dialCount()], [100, 100]);

      await Promise.all([
        assertAllEcho(firstHundred, "one:", "first round"),
        assertAllEcho(secondHundred, "other:", "first round"),
      ]);
      one.agent[ending]();
      const ends = await Promise.all(firstHundred.map((connection) => connection.whenOver()));
      for (const [index, end] of ends.entries()) {
        if (index % 2 === 0) assert.match(end, /^CLOSE_RSP \d+ "agent connection lost"$/);
      }
      assert.ok(secondHundred.every((connection) => !connection.isOver()));
      await assertAllEcho(secondHundred, "other:", "second round");
      assert.deepEqual([one.closed, other.closed], [[], []]);
      const held = await whatIsHeld(server.healthPort);
      assert.deepEqual([held["connections"], held["tunnels"]], [100, 1]);
    });
  }

  it("never mix with our own agents and real endpoints either", async (t) => {
    const server = await startServer(t);
    const endpointOf = (prefix: string) =>
      startEndpoint(t, (socket) => {
        socket.on("data", (piece) => socket.write(prefix + String(piece)));
        socket.on("end", () => socket.end());
      });
    const [first, second] = [await endpointOf("one:"), await endpointOf("other:")];
    const dial = (endpoint: string) =>
      Promise.all(
        Array.from({ length: 100 }, async () => {
          const client = await connectRaw(t, server.connectPath);
          client.write(`CONNECT ${endpoint} HTTP/1.1\r\n\r\n`);
          await client.whenSaid("\r\n\r\n");
          return client;
        }),
      );
    const echo = async (client: RawSocket, prefix: string, text: string) => {
      const before = client.receivedBytes;
      client.write(text);
      const received = await client.whenReceived(before + prefix.length + text.length);
      assert.equal(received.toString("latin1", before), prefix + text);
    };
    const tunnels = async () => (await whatIsHeld(server.healthPort))["tunnels"];

    const leaving = await startAgent(t, server.agentPort, {
      agentId: "node-1",
      drainLingerMs: 0,
      drainTimeoutMs: 0,
    });
    await until(async () => (await tunnels()) === 1);
    const firstHundred = await dial(first);
    await startAgent(t, server.agentPort, { agentId: "node-1" });
    await until(async () => (await tunnels()) === 2);
    void leaving.drain();
    await until(async () => {
      const labels = { segment: "from_agent", packet_type: "DRAIN" };
      return (await valueOf(server.healthPort, "stream_packets_total", labels)) === 1;
    });
    const secondHundred = await dial(second);
    await Promise.all([
      ...firstHundred.map((client, index) => echo(client, "one:", `first ${index}`)),
      ...secondHundred.map((client, index) => echo(client, "other:", `second ${index}`)),
    ]);
    await leaving.stop();
    await Promise.all(firstHundred.map((client) => client.whenFinished()));
    await Promise.all(
      secondHundred.map((client, index) => echo(client, "other:", `last ${index}`)),
    );
    assert.equal((await whatIsHeld(server.healthPort))["connections"], 100);
  });
});

describe("metadata of a tunnel", () => {
  const calls: Record<string, Parameters<typeof callAsAgent>[2]> = {
    "no agentid": { agentId: [] },
    "two agentid (a, b)": { agentId: ["a", "b"] },
    "two agentidentifiers": { identifiers: ["ipv4=1", "ipv4=2"] },
    "agentidentifiers ipv4=1;ipv6=2": { identifiers: "ipv4=1;ipv6=2" },
    "agentidentifiers ipv4=%zz": { identifiers: "ipv4=%zz" },
    "agentid empty": { agentId: "" },
    'agentid "a,b"': { agentId: "a,b" },
    "agentidentifiers foo=1&uid=3": { identifiers: "foo=1&uid=3" },
    "agentidentifiers default-route=maybe": { identifiers: "default-route=maybe" },
    "Proxy on the agent listener": { path: "/ProxyService/Proxy" },
  };
  for (const [name, call] of Object.entries(calls)) {
    it(`${name} is answered as recorded`, async (t) => {
      const server = await startServer(t);
      const expected = golden.connect_status[name];
      const agent = callAsAgent(t, server, call);
      if (Array.isArray(expected)) {
        const { code, details } = await agent.status;
        assert.deepEqual([code, details], expected);
        assert.equal((await whatIsHeld(server.healthPort))["tunnels"], 0);
      } else {
        assert.match(expected ?? "", /^accepted/);
        await agent.headers;
        assert.equal((await whatIsHeld(server.healthPort))["tunnels"], 1);
      }
    });
  }

  it("what is broken on the way ends as recorded", async (t) => {
    const server = await startServer(t);
    for (const [name, message] of [
      ["unparsable message", hex("ff")],
      ["message of 4194305 bytes", Buffer.alloc(4_194_305)],
    ] as const) {
      const agent = await connectAsAgent(t, server);
      agent.sendBytes(message);
      const { code, details } = await agent.status;
      assert.deepEqual([code, details], golden.connect_status[name], name);
    }
    await assertNothingLeft(server, 0);
    const errors = await Promise.all(
      ["Internal", "ResourceExhausted"].map((code) =>
        valueOf(server.healthPort, "stream_errors_total", {
          code,
          packet_type: "Unknown",
          segment: "from_agent",
        }),
      ),
    );
    assert.deepEqual(errors, [1, 1]);
  });

  it("an agent that finishes is let go with OK, and its connections with it", async (t) => {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    const frontend = openProxy(t, server).send(packets.dial(1));
    await agent.next();
    agent.send(packets.dialed(1, 1), packets.data(1, "last words"));
    agent.end();
    assert.equal(await frontend.next(), "DIAL_RSP 1 id 1");
    assert.equal(await frontend.next(), 'DATA 1 "last words"');
    assert.equal(await frontend.next(), 'CLOSE_RSP 1 "agent connection lost"');
    const { code, details } = await agent.status;
    assert.deepEqual([code, details], golden.connect_status["agent half-close"]);
    frontend.send(packets.dial(2));
    assert.equal(await frontend.next(), 'DIAL_RSP 2 "No agent available"');
  });

  it("headers and trailers are those recorded, seen by node:http2", async (t) => {
    const server = await startServer(t, { serverId: "srv-1", serverCount: 1 });
    const agents = connectAgents(server);
    const frontends = connectHttp2("http://localhost", {
      createConnection: () => connect(server.grpcPath),
    });
    t.after(() => {
      agents.destroy();
      frontends.destroy();
    });

    const recorded = (...names: string[]) => sorted(names.flatMap((name) => golden[name] ?? []));
    const fields = (headers: IncomingHttpHeaders) =>
      sorted(Object.entries(headers).map(([name, value]) => [name, String(value)]));

    const accepted = await callWith(agents, "/AgentService/Connect", { agentid: "agent-1" });
    assert.deepEqual(fields(accepted.headers), recorded("server_connect_response_headers"));
    assert.deepEqual(fields(accepted.trailers), recorded("server_connect_trailers_ok"));
    const refused = await callWith(agents, "/AgentService/Connect", {});
    assert.deepEqual(
      fields(refused.headers),
      recorded("server_connect_trailers_only_missing_agentid"),
    );
    const proxied = await callWith(frontends, "/ProxyService/Proxy", {}, hex("000000000412020a00"));
    assert.deepEqual(fields(proxied.headers), recorded("server_proxy_response_headers"));
    assert.deepEqual(fields(proxied.trailers), recorded("server_proxy_trailers_ok"));
    // A stream that ends without any message gets one header block, as upstream's.
    const silent = await callWith(frontends, "/ProxyService/Proxy", {});
    assert.deepEqual(
      fields(silent.headers),
      recorded("server_proxy_response_headers", "server_proxy_trailers_ok"),
    );
    const gzip = await callWith(agents, "/AgentService/Connect", {
      agentid: "agent-1",
      "grpc-encoding": "gzip",
    });
    assert.deepEqual(
      [Number(gzip.headers["grpc-status"]), gzip.headers["grpc-message"]],
      golden.connect_status["gzip message"],
    );
  });
});

describe("packets from agents", () => {
  async function open(t: TestContext) {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    const frontend = openProxy(t, server).send(packets.dial(111));
    await agent.next();
    agent.send(packets.dialed(111, 1));
    await frontend.next();
    return { server, agent, frontend };
  }

  async function assertStillOpen(agent: PacketStream, frontend: PacketStream) {
    agent.send(packets.data(1, "still open"));
    assert.equal(await frontend.next(), 'DATA 1 "still open"');
    frontend.send(packets.data(1, "and back"));
    assert.equal(await agent.next(), 'DATA 1 "and back"');
  }

  it("that are not for a server, or of no known type, are ignored", async (t) => {
    const { agent, frontend } = await open(t);
    agent.send(packets.dial(5), packets.close(1), packets.close(9));
    for (const bytes of ["0807", "0863", "08ffffffffffffffffff01"]) agent.sendBytes(hex(bytes));
    await assertStillOpen(agent, frontend);
  });

  it("without their payload are taken for empty ones", async (t) => {
    const { server, agent, frontend } = await open(t);
    for (const bytes of ["", "0801", "0802", "0803", "0804", "0805", "08021200"]) {
      agent.sendBytes(hex(bytes));
    }
    await assertStillOpen(agent, frontend);
    agent.sendBytes(hex("0806"));
    await assertStillOpen(agent, frontend);
    // DRAIN needs no payload: another agent is preferred from now on.
    const other = await connectAsAgent(t, server, { agentId: "agent-2" });
    const next = openProxy(t, server).send(packets.dial(2));
    assert.equal(await other.next(), "DIAL_REQ 2 tcp endpoint:80");
    other.send(packets.dialed(2, 1));
    assert.equal(await next.next(), "DIAL_RSP 2 id 1");
  });

  it("for unknown connections and dials get their answers", async (t) => {
    const { server, agent, frontend } = await open(t);
    agent.send(packets.data(9, "for nobody"));
    assert.equal(await agent.next(), "CLOSE_REQ 9");
    agent.send(packets.closed(9), packets.data(0, "no id"), packets.dialClose(9));
    agent.send(packets.dialed(9, 9));
    assert.equal(await agent.next(), "CLOSE_REQ 9");
    agent.send(packets.dialFailed(9, "late"));
    await assertStillOpen(agent, frontend);
    const unrecognized = await valueOf(server.healthPort, "dial_failure_count", {
      reason: "unrecognized_response",
    });
    assert.equal(unrecognized, 2);
  });

  it("that ask for answers without end, which the agent does not read, end its tunnel alone", async (t) => {
    const { agent, frontend, server } = await open(t);
    const agents = connectAgents(server, { initialWindowSize: 0 });
    t.after(() => {
      agents.destroy();
    });
    const greedy = agents.request({
      ":method": "POST",
      ":path": "/AgentService/Connect",
      "content-type": "application/grpc",
      te: "trailers",
      agentid: "greedy",
    });
    greedy.on("error", () => undefined);
    await once(greedy, "response");
    const message = encodePacket(packets.data(9, "x"));
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(message.length, 1);
    const asking = Buffer.concat([prefix, message]);
    const flood = Buffer.alloc(64 * 1024 * asking.length, asking);
    const ended = once(greedy, "close");
    const keepOn = () => {
      if (!greedy.closed) greedy.write(flood, keepOn);
    };
    keepOn();
    await ended;
    assert.equal(greedy.rstCode, constants.NGHTTP2_CANCEL);
    await assertStillOpen(agent, frontend);
  });

  it("never reach a connection of another tunnel", async (t) => {
    const { server, agent, frontend } = await open(t);
    const thief = await connectAsAgent(t, server);
    thief.send(packets.data(1, "forged"), packets.closed(1), packets.dialFailed(111, "forged"));
    assert.equal(await thief.next(), "CLOSE_REQ 1");
    await assertStillOpen(agent, frontend);

    const dialing = openProxy(t, server).send(packets.dial(222));
    assert.equal(await agent.next(), "DIAL_REQ 222 tcp endpoint:80");
    thief.send(packets.dialed(222, 7));
    assert.equal(await thief.next(), "CLOSE_REQ 7");
    agent.send(packets.dialed(222, 2));
    assert.equal(await dialing.next(), "DIAL_RSP 222 id 2");
  });

  it("with ids of any size come back as they are", async (t) => {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);
    for (const id of ["9223372036854775807", "-1", "-9223372036854775808", "4611686018427387904"]) {
      const frontend = openProxy(t, server).send(packets.dial(id));
      assert.equal(await agent.next(), `DIAL_REQ ${id} tcp endpoint:80`);
      agent.send(packets.dialed(id, id));
      assert.equal(await frontend.next(), `DIAL_RSP ${id} id ${id}`);
      frontend.send(packets.data(id, "there"));
      assert.equal(await agent.next(), `DATA ${id} "there"`);
      agent.send(packets.data(id, "and back"), packets.closed(id));
      assert.equal(await frontend.next(), `DATA ${id} "and back"`);
      assert.equal(await frontend.next(), `CLOSE_RSP ${id}`);
      frontend.end();
    }
    await assertNothingLeft(server);
  });

  it("are served by the agent that the address names", async (t) => {
    const server = await startServer(t, { proxyStrategies: ["destHost", "default"] });
    const exact = await connectAsAgent(t, server, { agentId: "a", identifiers: "ipv4=10.0.0.1" });
    assert.equal(await statusOf(server.healthPort, "/readyz"), 200);
    const frontend = openProxy(t, server).send(packets.dial(1, "10.0.0.1:80"));
    assert.equal(await exact.next(), "DIAL_REQ 1 tcp 10.0.0.1:80");
    exact.end();
    assert.equal(await frontend.next(), 'DIAL_RSP 1 "agent connection lost"');
    await connectAsAgent(t, server, { agentId: "b" });
    await until(async () => (await statusOf(server.healthPort, "/readyz")) === 500);
  });
});

interface Http2Call {
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
}

/** Make a call, send `body`, and finish it once the answer has begun. */
async function callWith(
  session: ClientHttp2Session,
  path: string,
  metadata: Record<string, string>,
  body?: Buffer,
): Promise<Http2Call> {
  const stream = session.request({
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    ...metadata,
  });
  let trailers: IncomingHttpHeaders = {};
  stream.on("trailers", (received: IncomingHttpHeaders) => {
    trailers = received;
  });
  stream.resume();
  const closed = once(stream, "close");
  const responded = once(stream, "response");
  if (body !== undefined) stream.write(body);
  if (body === undefined && !path.startsWith("/Agent")) stream.end();
  const [headers] = (await responded) as [IncomingHttpHeaders];
  stream.end();
  await closed;
  return { headers, trailers };
}

/** Header fields by name: their order is nobody's business. */
function sorted(fields: readonly [string, string][]): [string, string][] {
  return fields.toSorted(([one], [other]) => (one < other ? -1 : 1));
}
