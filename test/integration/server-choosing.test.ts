import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RecordingLogger } from "@reachback/common/testing";
import { ONLY_ALONE, startAgent, startEndpoint, startServer, until } from "../support/cluster.ts";
import { assertNothingLeft, scrape, valueOf, whatIsHeld } from "../support/gauges.ts";
import { callAsAgent, connectAsAgent, openProxy, packets } from "../support/packet-stream.ts";
import { connectRaw } from "../support/raw-socket.ts";

// Which agent a dial goes to, seen from outside, and what frontends and agents are told at a limit.

const CONNECT = "CONNECT endpoint:80 HTTP/1.1\r\nHost: endpoint:80\r\n\r\n";

describe("a dial whose agent is lost", () => {
  it("is answered by another one, over gRPC and CONNECT, and the frontend hears of one alone", async (t) => {
    const server = await startServer(t);
    const frontend = openProxy(t, server);
    const first = await connectAsAgent(t, server, { agentId: "first" });
    frontend.send(packets.dial(1));
    assert.equal(await first.next(), "DIAL_REQ 1 tcp endpoint:80");
    const client = await connectRaw(t, server.connectPath);
    client.write(CONNECT);
    const random = (await first.nextPacket()).dialRequest?.random ?? "";

    const second = await connectAsAgent(t, server, { agentId: "second" });
    first.cancel();
    const requests = [await second.next(), await second.next()].sort();
    const expected = ["DIAL_REQ 1 tcp endpoint:80", `DIAL_REQ ${random} tcp endpoint:80`];
    assert.deepEqual(requests, expected.sort());
    second.send(packets.dialed(1, 7), packets.dialed(random, 8), packets.data(7, "hello"));
    assert.equal(await frontend.next(), "DIAL_RSP 1 id 7");
    assert.equal(await frontend.next(), 'DATA 7 "hello"');
    assert.match(await client.whenSaid("\r\n\r\n"), /^HTTP\/1.1 200 Connection Established/);
    frontend.send(packets.data(7, "there"));
    assert.equal(await second.next(), 'DATA 7 "there"');
    assert.deepEqual(frontend.unread, []);
    const exposed = await scrape(server.healthPort);
    assert.match(exposed, /^reachback_server_dials_retried_total\{reason="backend_close"\} 2$/m);
    frontend.end();
    client.socket.destroy();
    await assertNothingLeft(server);
  });
});

describe("a dial before the first agent", () => {
  it("waits for it if the server is told to, and goes through", async (t) => {
    const server = await startServer(t, { startupDialHoldMs: 10_000 });
    const endpoint = await startEndpoint(t, (socket) => socket.end("hello"));
    const client = await connectRaw(t, server.connectPath);
    client.write(`CONNECT ${endpoint} HTTP/1.1\r\n\r\n`);
    const frontend = openProxy(t, server).send(packets.dial(1, endpoint));
    await until(async () => (await whatIsHeld(server.healthPort))["pendingDials"] === 2);
    await startAgent(t, server.agentPort);
    assert.match((await client.whenFinished()).text, /^HTTP\/1.1 200 .*\r\n\r\nhello$/s);
    assert.match(await frontend.next(), /^DIAL_RSP 1 id [12]$/);
    frontend.end();
    await assertNothingLeft(server);
  });
});

describe("at a limit", () => {
  const limits: readonly [reason: string, limit: object, text: string][] = [
    [
      "pending_dials_limit",
      { maxPendingDials: 1 },
      "too many pending dials: 1 wait for an answer (--max-pending-dials)",
    ],
    [
      "connections_limit",
      { maxConnections: 1 },
      "too many connections: 1 are open or being dialed (--max-connections)",
    ],
    [
      "agent_connections_limit",
      { maxConnectionsPerAgent: 1 },
      "too many connections: each agent for this address has 1 (--max-connections-per-agent)",
    ],
  ];
  for (const [reason, limit, text] of limits) {
    // The first two are limits of each process.
    const when = reason === "agent_connections_limit" ? {} : ONLY_ALONE;
    it(`a dial is refused at once: ${reason}`, when, async (t) => {
      const logger = new RecordingLogger();
      const server = await startServer(t, limit, { logger });
      const agent = await connectAsAgent(t, server);
      const frontend = openProxy(t, server).send(packets.dial(1));
      await agent.next();

      const refused = openProxy(t, server).send(packets.dial(2));
      assert.equal(await refused.next(), `DIAL_RSP 2 ${JSON.stringify(text)}`);
      const client = await connectRaw(t, server.connectPath);
      client.write(CONNECT);
      const answer = (await client.whenFinished()).text;
      assert.match(answer, /^HTTP\/1.1 503 Service Unavailable\r\n/);
      assert.equal(answer.slice(answer.indexOf("\r\n\r\n") + 4), text);
      assert.equal(await valueOf(server.healthPort, "dial_failure_count", { reason }), 2);
      const warnings = logger.lines.filter(
        ({ event, fields }) => event === "dial.failed" && fields["handedIn"] !== true,
      );
      assert.deepEqual(
        warnings.map(({ fields }) => fields["reason"]),
        [reason, reason],
      );

      frontend.end();
      assert.equal(await agent.next(), "DIAL_CLS 1");
      const next = openProxy(t, server).send(packets.dial(3));
      assert.equal(await agent.next(), "DIAL_REQ 3 tcp endpoint:80");
      next.end();
      refused.end();
      await assertNothingLeft(server);
    });
  }

  it("a tunnel is refused, and taken when another has ended", ONLY_ALONE, async (t) => {
    const server = await startServer(t, { maxTunnelsPerIdentity: 2 });
    const [first] = [
      await connectAsAgent(t, server, { agentId: "a" }),
      await connectAsAgent(t, server, { agentId: "b" }),
    ];
    const refused = await callAsAgent(t, server, { agentId: "c" }).status;
    assert.equal(refused.code, 8);
    assert.match(
      refused.details,
      /^too many tunnels of ".+": 2 are open \(--max-tunnels-per-identity of the server\)$/,
    );
    assert.match(
      await scrape(server.healthPort),
      /^reachback_server_tunnels_refused_total\{reason="identity_tunnels_limit"\} 1$/m,
    );
    first.end();
    await first.status;
    await connectAsAgent(t, server, { agentId: "c" });
    await assertNothingLeft(server, 2);
  });
});
