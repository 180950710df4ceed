import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ManualClock, readExposition } from "@reachback/common/testing";
import { startAgentProgram } from "../support/agent-program.ts";
import { startAgentServer } from "../support/agent-server.ts";
import { startEndpoint, statusOf, temporaryFolder, until } from "../support/cluster.ts";
import { startBlackHole } from "../support/http2-peer.ts";
import { packets } from "../support/packet-stream.ts";
import { createTestPki } from "../support/pki.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd, openHandles } from "../support/tracked-clock.ts";

const LINGER_MS = 5_000;
const TIMEOUT_MS = 25_000;

/** Whether a promise has been settled. */
function watch(promise: Promise<unknown>): () => boolean {
  let isSettled = false;
  void promise.finally(() => {
    isSettled = true;
  });
  return () => isSettled;
}

async function setup(t: TestContext, serverCount = 1) {
  const clock = new ManualClock(Date.now());
  const server = await startAgentServer(t, { serverCount: String(serverCount) });
  const tracked = await startTrackedAgent(t, server.port, {}, { clock });
  const sockets: Socket[] = [];
  const endpoint = await startEndpoint(t, (socket) => {
    sockets.push(socket);
    socket.pipe(socket);
  });
  const tunnel = await server.next();
  await until(() => tracked.agent.isReady);
  return { ...tracked, clock, server, endpoint, sockets, tunnel };
}

/** The text of a GET on loopback, with its status and one header. */
async function get(port: number, path: string, host = "127.0.0.1") {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    headers: { connection: "close", host },
    redirect: "manual",
  });
  return {
    status: response.status,
    location: response.headers.get("location"),
    body: await response.text(),
  };
}

checkForLeaksAtEnd();

describe("drain", () => {
  it("is told to the server at once, once, on an idle tunnel", async (t) => {
    const { agent, tunnel } = await setup(t);
    void agent.drain();
    void agent.drain();
    assert.equal(await tunnel.next(), "DRAIN");
    await sleep(5);
    assert.deepEqual(tunnel.unread, []);
  });

  it("goes on serving for five seconds, new connections too", async (t) => {
    const { agent, clock, endpoint, tunnel } = await setup(t);
    const isDrained = watch(agent.drain());
    assert.equal(await tunnel.next(), "DRAIN");
    clock.advance(LINGER_MS - 1);
    tunnel.send(packets.dial(1, endpoint));
    assert.equal(await tunnel.next(), "DIAL_RSP 1 id 1");
    tunnel.send(packets.data(1, "hello"));
    assert.equal(await tunnel.next(), 'DATA 1 "hello"');
    tunnel.send(packets.close(1));
    assert.equal(await tunnel.next(), "CLOSE_RSP 1");
    assert.equal(await statusOf(agent.ports.health, "/readyz"), 200);
    assert.equal(isDrained(), false);
    clock.advance(1);
    await until(isDrained);
    assert.equal(agent.isReady, true);
  });

  it("then lasts until the last connection is gone", async (t) => {
    const { agent, clock, endpoint, sockets, tunnel } = await setup(t);
    tunnel.send(packets.dial(1, endpoint));
    await tunnel.next();
    const isDrained = watch(agent.drain());
    clock.advance(LINGER_MS + 5_000);
    // One that comes even later is served as well.
    tunnel.send(packets.dial(2, endpoint));
    assert.equal(await tunnel.next(), "DRAIN");
    assert.equal(await tunnel.next(), "DIAL_RSP 2 id 2");
    tunnel.send(packets.close(1));
    await tunnel.next();
    await sleep(5);
    assert.equal(isDrained(), false);
    sockets[1]!.destroy();
    await until(isDrained);
    assert.equal(clock.now(), LINGER_MS + 5_000);
  });

  it("waits for a dial that is under way", async (t) => {
    const { agent, clock, tunnel } = await setup(t);
    const timersBefore = clock.pendingTimers;
    tunnel.send(packets.dial(1, `127.0.0.1:${await startBlackHole(t)}`));
    // The dial's own.
    await until(() => clock.pendingTimers > timersBefore);
    const isDrained = watch(agent.drain());
    clock.advance(4_000);
    clock.advance(1_000);
    assert.equal(await tunnel.next(), "DRAIN");
    assert.match(await tunnel.next(), /^DIAL_RSP 1 .*i\/o timeout"$/);
    await until(isDrained);
  });

  it("ends after 25 seconds, connections or not; stopping then resets them", async (t) => {
    const { agent, clock, endpoint, sockets, tunnel } = await setup(t);
    tunnel.send(packets.dial(1, endpoint));
    await tunnel.next();
    let fate = "open";
    sockets[0]!.once("error", () => {
      fate = "reset";
    });
    const isDrained = watch(agent.drain());
    clock.advance(TIMEOUT_MS - 1);
    await sleep(5);
    assert.equal(isDrained(), false);
    clock.advance(1);
    await until(isDrained);
    assert.equal(fate, "open");
    await agent.stop();
    await until(() => fate === "reset");
    assert.equal(tunnel.isEnded, true);
  });

  it("opens no tunnels, neither for lost ones nor for missing ones", async (t) => {
    const { agent, clock, count, server, tunnel } = await setup(t, 2);
    // It has looked for the second server once by itself; what follows is up to the clock.
    await until(() => count("tunnel.duplicate") === 1);
    const isDrained = watch(agent.drain());
    clock.advance(1_000);
    tunnel.end();
    await until(() => !agent.isReady);
    // Nobody is left to serve.
    await until(isDrained);
    clock.advance(60_000);
    await sleep(20);
    assert.equal(server.callCount, 2);
    assert.equal(await statusOf(agent.ports.health, "/readyz"), 503);
  });

  it("is over at once without a tunnel, and when the agent stops meanwhile", async (t) => {
    const clock = new ManualClock(Date.now());
    const { agent } = await startTrackedAgent(t, 1, {}, { clock });
    await agent.drain();
    const { agent: other, tunnel } = await setup(t);
    const drained = other.drain();
    assert.equal(await tunnel.next(), "DRAIN");
    await other.stop();
    await drained;
  });
});

describe("the agent's ports", () => {
  it("say whether there is a tunnel", async (t) => {
    const { agent, tunnel } = await setup(t);
    const { health } = agent.ports;
    assert.deepEqual(await get(health, "/readyz"), { status: 200, location: null, body: "ok" });
    assert.match(
      (await get(health, "/readyz?verbose")).body,
      /^\[\+]ping ok\n\[\+]server-connected ok: 1 of 1\n\[\+]certificates ok: agent: \d days left\n\[\+]last-good-dial ok: none yet\ncheck passed\n$/,
    );
    tunnel.end();
    await until(() => !agent.isReady);
    const failed = "[+]ping ok\n[-]server-connected failed: no servers connected\n";
    for (const path of ["/readyz", "/ready"]) {
      assert.deepEqual(await get(health, path), { status: 503, location: null, body: failed });
    }
    const { status, body } = await get(health, "/readyz?verbose=true");
    assert.deepEqual([status, body.startsWith(`${failed}[+]certificates ok`)], [503, true]);
    assert.equal((await get(health, "/livez")).body, "ok");
    assert.deepEqual(await get(health, "/healthz"), { status: 200, location: null, body: "ok" });
  });

  it("send those who look for metrics on the old one to the other", async (t) => {
    const { agent } = await setup(t);
    const { health, admin } = agent.ports;
    const { status, location, body } = await get(admin, "/metrics?a=b");
    assert.equal(status, 301);
    assert.equal(location, `//127.0.0.1:${health}/metrics?a=b`);
    assert.equal(body, `<a href="${location}">Moved Permanently</a>.\n\n`);
    assert.equal((await get(health, "/metrics")).status, 200);
    assert.equal((await get(admin, "/debug/pprof/")).status, 404);
  });

  it("have upstream's metrics after upstream's traffic", async (t) => {
    const golden = readFileSync(new URL("../golden/metrics-agent.txt", import.meta.url), "utf8");
    const { agent, endpoint, sockets, tunnel } = await setup(t, 3);
    const next = async (expected: string) => {
      assert.equal(await tunnel.next(), expected);
    };
    // 6 dials fail, 13 succeed.
    for (let random = 1; random <= 6; random++) {
      tunnel.send(packets.dial(random, "foo"));
      await tunnel.next();
    }
    for (let id = 7; id <= 19; id++) {
      tunnel.send(packets.dial(id, endpoint));
      await next(`DIAL_RSP ${id} id ${id}`);
    }
    await until(() => sockets.length === 13);
    // 4 packets of data come: one for nobody, three that are echoed; 1037 more go the other way.
    tunnel.send(packets.data(77, "x"));
    await next('CLOSE_RSP 77 "unrecognized connectID"');
    for (const id of [7, 8, 9]) {
      tunnel.send(packets.data(id, "x"));
      await next(`DATA ${id} "x"`);
    }
    for (let count = 0; count < 1_037; count++) {
      sockets[12]!.write("y");
      await next('DATA 19 "y"');
    }
    // 13 times CLOSE_REQ, two of them for nobody; two endpoints close by themselves.
    for (const id of [77, 0]) {
      tunnel.send(packets.close(id));
      await next(`CLOSE_RSP ${id} "Unknown connectID"`);
    }
    for (const id of [18, 19]) {
      sockets[id - 7]!.end();
      await next(`CLOSE_RSP ${id}`);
    }
    for (let id = 7; id <= 17; id++) {
      tunnel.send(packets.close(id));
      await next(`CLOSE_RSP ${id}`);
    }
    const { body } = await get(agent.ports.health, "/metrics");
    assert.deepEqual(upstreamLines(body), upstreamLines(golden));
  });
});

/** Upstream's lines, in which what depends on the machine's speed is masked. */
function upstreamLines(text: string): string[] {
  const ours = text.split("\n").filter((line) => line.includes("konnectivity_"));
  assert.ok(readExposition(ours.join("\n")).length > 0);
  return ours.map((line) =>
    line.replace(/^(\S+_seconds_sum|\S+_seconds_bucket\{le="[\d.]+"\}) .*/, "$1 <speed>"),
  );
}

describe("a proxy in the environment", () => {
  for (const variable of ["HTTPS_PROXY", "https_proxy"]) {
    it(`is warned of when ${variable} is set`, async (t) => {
      const env = { [variable]: "http://proxy.example:3128" };
      const { logger } = await startTrackedAgent(t, 1, {}, { env });
      const warnings = logger.lines.filter(({ event }) => event === "environment.ignored");
      assert.deepEqual(warnings, [
        {
          level: "warn",
          event: "environment.ignored",
          fields: {
            variable,
            hint: "proxies are not supported yet: the agent connects to the server directly",
          },
        },
      ]);
    });
  }

  it("is not when it is empty, or for other schemes", async (t) => {
    const env = { HTTPS_PROXY: "", HTTP_PROXY: "http://proxy.example:3128" };
    const { count } = await startTrackedAgent(t, 1, {}, { env });
    assert.equal(count("environment.ignored"), 0);
  });
});

describe("an agent that cannot start", () => {
  const pki = createTestPki();

  it("says what is wrong with its TLS material, in upstream's words", async (t) => {
    const folder = temporaryFolder(t);
    const garbage = join(folder, "garbage.pem");
    const broken = join(folder, "badcert.pem");
    writeFileSync(garbage, "not a certificate\n");
    writeFileSync(broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    const { agentClient, agentCa } = pki;
    const expired = pki.issue({
      ca: agentCa,
      notBefore: new Date(Date.now() - 7_200_000),
      notAfter: new Date(Date.now() - 3_600_000),
    });
    const cases: [overrides: Parameters<typeof startTrackedAgent>[2], reason: RegExp | string][] = [
      [{ caCertPath: "" }, "failed to load CA cert: open : no such file or directory"],
      [
        { caCertPath: garbage },
        `failed to load CA cert: error creating pool from ${garbage}: data does not contain any valid RSA or ECDSA certificates`,
      ],
      [
        { caCertPath: broken },
        `failed to load CA cert: error creating pool from ${broken}: x509: malformed certificate`,
      ],
      [
        { agentKeyPath: agentCa.keyPath },
        `failed to load X509 key pair ${agentClient.certPath} and ${agentCa.keyPath}: tls: private key does not match public key`,
      ],
      [
        { agentCertPath: expired.certPath, agentKeyPath: expired.keyPath },
        /^failed to load X509 key pair .*: x509: certificate has expired or is not yet valid: current time .* is after /,
      ],
      [
        { agentCertPath: "/nope" },
        `failed to load X509 key pair /nope and ${agentClient.keyPath}: open /nope: no such file or directory`,
      ],
    ];
    for (const [overrides, reason] of cases) {
      const before = openHandles();
      await assert.rejects(startTrackedAgent(t, 1, overrides), (error: Error) => {
        const text = error.message.replace("failed to run proxy connection with ", "");
        assert.notEqual(text, error.message);
        if (typeof reason === "string") assert.equal(text.replace(/ \(.*\)$/, ""), reason);
        else assert.match(text, reason);
        return true;
      });
      assert.deepEqual(openHandles(), before);
    }
  });

  for (const [name, port] of [
    ["health", "healthServerPort"],
    ["admin", "adminServerPort"],
  ] as const) {
    it(`says that its ${name} port is taken, and leaves nothing open`, async (t) => {
      const server = await startAgentServer(t);
      const taken = createServer().listen(0, "127.0.0.1");
      await once(taken, "listening");
      t.after(() => taken.close());
      const { port: number } = taken.address() as AddressInfo;
      const before = openHandles().length;
      await assert.rejects(startTrackedAgent(t, server.port, { [port]: number }), {
        message:
          `failed to run the ${name} server: failed to listen on 127.0.0.1:${number}: ` +
          `listen tcp 127.0.0.1:${number}: bind: address already in use`,
      });
      await until(() => openHandles().length <= before);
      assert.equal(server.callCount, 0);
    });
  }
});

describe("the agent's program", () => {
  it("drains on SIGTERM, serves on, and exits with 0 once it is idle", async (t) => {
    const server = await startAgentServer(t);
    const endpoint = await startEndpoint(t, (socket) => socket.pipe(socket));
    const args = ["--drain-linger=300ms", "--drain-timeout=20s"];
    const program = await startAgentProgram(t, server.port, { args });
    const tunnel = await server.next();
    await until(async () => (await statusOf(program.healthPort, "/readyz")) === 200);
    program.signal("SIGTERM");
    const signalledAtMs = performance.now();
    assert.equal(await tunnel.next(), "DRAIN");
    const toldAfterMs = performance.now() - signalledAtMs;
    tunnel.send(packets.dial(1, endpoint));
    assert.equal(await tunnel.next(), "DIAL_RSP 1 id 1");
    await sleep(400);
    assert.equal(await statusOf(program.healthPort, "/readyz"), 200);
    tunnel.send(packets.data(1, "hello"));
    assert.equal(await tunnel.next(), 'DATA 1 "hello"');
    tunnel.send(packets.close(1));
    assert.equal(await tunnel.next(), "CLOSE_RSP 1");
    const closedAtMs = performance.now();
    const { code, stderr } = await program.exited;
    assert.equal(code, 0, stderr);
    assert.ok(performance.now() - closedAtMs < 1_000);
    assert.ok(toldAfterMs < 500, `${toldAfterMs} ms`);
    assert.equal(tunnel.isEnded, true);
  });

  it("exits at the drain timeout with connections open, which are reset", async (t) => {
    const server = await startAgentServer(t);
    let fate = "open";
    const endpoint = await startEndpoint(t, (socket) => {
      socket.resume();
      socket.on("error", () => {
        fate = "reset";
      });
    });
    const args = ["--drain-linger=100ms", "--drain-timeout=400ms"];
    const program = await startAgentProgram(t, server.port, { args });
    const tunnel = await server.next();
    tunnel.send(packets.dial(1, endpoint));
    await tunnel.next();
    program.signal("SIGINT");
    const signalledAtMs = performance.now();
    const { code, stderr } = await program.exited;
    const tookMs = performance.now() - signalledAtMs;
    assert.equal(code, 0, stderr);
    assert.ok(tookMs >= 390 && tookMs < 1_500, `${tookMs} ms`);
    await until(() => fate === "reset");
  });

  it("exits at once with 0 on a second signal", async (t) => {
    const server = await startAgentServer(t);
    const program = await startAgentProgram(t, server.port);
    const tunnel = await server.next();
    await until(async () => (await statusOf(program.healthPort, "/readyz")) === 200);
    program.signal("SIGTERM");
    assert.equal(await tunnel.next(), "DRAIN");
    const signalledAtMs = performance.now();
    program.signal("SIGTERM");
    const { code } = await program.exited;
    assert.equal(code, 0);
    assert.ok(performance.now() - signalledAtMs < 500);
  });

  it("exits at once when it has no tunnel", async (t) => {
    const program = await startAgentProgram(t, 1);
    await until(async () => (await statusOf(program.healthPort, "/readyz").catch(() => 0)) === 503);
    const signalledAtMs = performance.now();
    program.signal("SIGTERM");
    assert.equal((await program.exited).code, 0);
    assert.ok(performance.now() - signalledAtMs < 1_000);
  });

  it("exits with 1 when it cannot start, and says why as upstream does", async (t) => {
    const program = await startAgentProgram(t, 1, { args: ["--ca-cert="] });
    const { code, stderr } = await program.exited;
    const reason =
      "failed to run proxy connection with failed to load CA cert: open : no such file or directory";
    assert.equal(code, 1);
    assert.ok(stderr.includes(`\nError: ${reason}\n`) || stderr.startsWith(`Error: ${reason}\n`));
    assert.ok(stderr.trimEnd().endsWith(`\nerror: ${reason}`));
  });

  it("warns of a proxy that it does not use", async (t) => {
    const server = await startAgentServer(t);
    const env = { HTTPS_PROXY: "http://127.0.0.1:1" };
    const program = await startAgentProgram(t, server.port, {
      env,
      args: ["--drain-linger=0s"],
    });
    await server.next();
    program.signal("SIGTERM");
    assert.match((await program.exited).stderr, /environment\.ignored.*HTTPS_PROXY/);
  });
});
