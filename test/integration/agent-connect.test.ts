import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { startAgentServer } from "../support/agent-server.ts";
import { startServer, temporaryFolder, until } from "../support/cluster.ts";
import {
  startBlackHole,
  startHttp2Peer,
  startTcpPeer,
  startTlsPeer,
} from "../support/http2-peer.ts";
import type { Http2PeerOptions, RawRequest } from "../support/http2-peer.ts";
import { createTestPki } from "../support/pki.ts";
import { startTrackedAgent } from "../support/tracked-agent.ts";
import { checkForLeaksAtEnd } from "../support/tracked-clock.ts";

type Headers = [name: string, value: string][];

const golden = JSON.parse(
  readFileSync(new URL("../golden/agent-metadata.json", import.meta.url), "utf8"),
) as { agent_connect_request_headers: Record<string, Headers> };

const NO_CERTIFICATE = { agentCertPath: "", agentKeyPath: "" };

/** The user agent is ours, one header comes behind the others, everything else is as recorded. */
function expected(name: string, changes: Record<string, string> = {}): Headers {
  const recorded = golden.agent_connect_request_headers[name]!.map(
    ([header, value]): Headers[number] => [
      header,
      header === "user-agent" ? "reachback-agent/test" : (changes[header] ?? value),
    ],
  );
  return [...recorded, ["reachback-extensions", "flow-control,half-close,server-drain,turn-away"]];
}

/** Accept the tunnel, as server `server-1`, with other headers where given. */
function accept({ stream }: RawRequest, headers: Record<string, string | string[]> = {}): void {
  stream.respond({
    ":status": 200,
    "content-type": "application/grpc",
    serverid: "server-1",
    servercount: "1",
    ...headers,
  });
}

const acceptAll: Http2PeerOptions = { onRequest: accept };

checkForLeaksAtEnd();

describe("the agent's call", () => {
  it("has the recorded headers in the recorded order", async (t) => {
    const peer = await startHttp2Peer(t, acceptAll);
    await startTrackedAgent(t, peer.port, { agentIdentifiers: "ipv4=127.0.0.1&host=foo" });
    await until(() => peer.requests.length === 1);
    assert.deepEqual(peer.requests[0]!.headers, expected("identifiers_and_client_cert"));
    assert.equal(peer.requests[0]?.socket.authorized, true);
  });

  it("names its identifiers even when there are none", async (t) => {
    const peer = await startHttp2Peer(t, acceptAll);
    await startTrackedAgent(t, peer.port, { agentId: "x y" });
    await until(() => peer.requests.length === 1);
    assert.deepEqual(peer.requests[0]?.headers, expected("no_identifiers"));
  });

  it("carries the token behind the rest, without the line break of its file", async (t) => {
    const peer = await startHttp2Peer(t, acceptAll);
    const tokenPath = join(temporaryFolder(t), "token");
    writeFileSync(tokenPath, " tok123\r\n");
    await startTrackedAgent(t, peer.port, { serviceAccountTokenPath: tokenPath });
    await until(() => peer.requests.length === 1);
    assert.deepEqual(peer.requests[0]?.headers, expected("with_service_account_token"));
  });

  it("has the port in its authority when no certificate is presented", async (t) => {
    const peer = await startHttp2Peer(t, acceptAll);
    const tokenPath = join(temporaryFolder(t), "token");
    writeFileSync(tokenPath, "tok123");
    const overrides = { ...NO_CERTIFICATE, serviceAccountTokenPath: tokenPath };
    await startTrackedAgent(t, peer.port, overrides);
    await until(() => peer.requests.length === 1);
    const changes = { ":authority": `127.0.0.1:${peer.port}` };
    assert.deepEqual(peer.requests[0]?.headers, expected("with_service_account_token", changes));
    assert.deepEqual(peer.requests[0].socket.getPeerCertificate(), {});
  });

  it("offers h2, behind what --alpn-proto adds, and no server name for an address", async (t) => {
    const plain = await startHttp2Peer(t, acceptAll);
    const added = await startHttp2Peer(t, acceptAll);
    await startTrackedAgent(t, plain.port);
    await startTrackedAgent(t, added.port, { alpnProtocols: ["foo", "bar"] });
    await until(() => plain.requests.length + added.requests.length === 2);
    assert.deepEqual(plain.handshakes, [{ protocols: ["h2"], serverName: false }]);
    assert.deepEqual(added.handshakes, [{ protocols: ["foo", "bar", "h2"], serverName: false }]);
  });

  it("speaks HTTP/2 over whatever protocol the server picked", async (t) => {
    const peer = await startHttp2Peer(t, { ...acceptAll, chooseProtocol: () => "foo" });
    const { agent } = await startTrackedAgent(t, peer.port, { alpnProtocols: ["foo"] });
    await until(() => agent.isReady);
    assert.equal(peer.requests[0]?.socket.alpnProtocol, "foo");
  });

  it("sends a host name as server name and as authority", async (t) => {
    const peer = await startHttp2Peer(t, acceptAll);
    await startTrackedAgent(t, peer.port, {
      servers: [{ host: "localhost", port: peer.port, name: "localhost" }],
    });
    await until(() => peer.requests.length === 1);
    assert.equal(peer.handshakes[0]?.serverName, "localhost");
    assert.deepEqual(peer.requests[0]?.headers[3], [":authority", "localhost"]);
  });
});

describe("the agent's token", () => {
  it("is read again for each attempt", async (t) => {
    const tokenPath = join(temporaryFolder(t), "token");
    const seen: (string | undefined)[] = [];
    writeFileSync(tokenPath, "token-1\n");
    const server = await startAgentServer(t, {
      onCall: (call) => {
        seen.push(call.metadata.get("authorization")[0]?.toString());
        writeFileSync(tokenPath, `token-${seen.length + 1}\n`);
        call.emit("error", { code: 16, details: "go away" });
      },
    });
    const { refusals } = await startTrackedAgent(t, server.port, {
      serviceAccountTokenPath: tokenPath,
      syncIntervalMs: 5,
      syncIntervalCapMs: 5,
    });
    await until(() => seen.length >= 3);
    assert.deepEqual(seen.slice(0, 3), ["Bearer token-1", "Bearer token-2", "Bearer token-3"]);
    assert.equal(refusals()[0], "answer: Unauthenticated: go away");
  });

  it("may be missing, empty or broken for a while", async (t) => {
    const tokenPath = join(temporaryFolder(t), "token");
    writeFileSync(tokenPath, "good");
    const server = await startAgentServer(t);
    const { agent, refusals } = await startTrackedAgent(t, server.port, {
      serviceAccountTokenPath: tokenPath,
      syncIntervalMs: 5,
      syncIntervalCapMs: 5,
    });
    await until(() => agent.isReady);
    const problems: [broken: () => void, reason: string][] = [
      [
        () => {
          rmSync(tokenPath);
        },
        `cannot read the token file ${tokenPath}: no such file or directory`,
      ],
      [
        () => {
          writeFileSync(tokenPath, "\n");
        },
        `the token file ${tokenPath} is empty`,
      ],
      [
        () => {
          writeFileSync(tokenPath, "one\ntwo");
        },
        `the token file ${tokenPath} holds what no header can`,
      ],
    ];
    for (const [index, [breakToken, reason]] of problems.entries()) {
      breakToken();
      (await server.next()).end();
      await until(() => refusals().includes(reason));
      assert.equal(agent.isReady, false);
      writeFileSync(tokenPath, `good-${index}`);
      await until(() => agent.isReady);
    }
    assert.equal((await server.next()).header("authorization"), "Bearer good-2");
    assert.equal(server.callCount, 4);
  });
});

describe("a server that cannot be trusted or talked to", () => {
  const pki = createTestPki();
  const ofAgentCa = (options: Partial<Parameters<typeof pki.issue>[0]>) =>
    pki.issue({ ca: pki.agentCa, sans: ["127.0.0.1"], usage: "server", ...options });
  const longAgo = { notBefore: new Date(Date.now() - 7_200_000) };

  const cases: { name: string; peer: () => Http2PeerOptions; reason: RegExp | string }[] = [
    {
      name: "has a certificate of another CA",
      peer: () => ({ tls: keyPairOf(ofAgentCa({ ca: pki.kubeletCa })) }),
      reason:
        "tls: wrong CA: the server's certificate is not signed by an authority in our CA file (UNABLE_TO_VERIFY_LEAF_SIGNATURE)",
    },
    {
      name: "has a certificate that has expired",
      peer: () => ({
        tls: keyPairOf(ofAgentCa({ ...longAgo, notAfter: new Date(Date.now() - 3_600_000) })),
      }),
      reason: "tls: the server's certificate, or its authority's, has expired (CERT_HAS_EXPIRED)",
    },
    {
      name: "has a certificate for another name",
      peer: () => ({ tls: keyPairOf(ofAgentCa({ sans: ["other.example", "192.0.2.1"] })) }),
      reason:
        "tls: wrong name: expected 127.0.0.1, the server's certificate is for DNS:other.example, IP Address:192.0.2.1 (ERR_TLS_CERT_ALTNAME_INVALID)",
    },
    {
      name: "has a certificate for clients",
      peer: () => ({ tls: keyPairOf(ofAgentCa({ usage: "client" })) }),
      reason:
        "tls: the server's certificate is not meant for a server (extended key usage) (INVALID_PURPOSE)",
    },
    {
      name: "speaks none of the offered protocols",
      peer: () => ({ chooseProtocol: () => undefined }),
      reason:
        /^tls: the server speaks none of the protocols that we offer \(ALPN\) \(ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL\)$/,
    },
    {
      name: "wants a TLS version that is not offered",
      peer: () => ({ tls: { minVersion: "TLSv1.1", maxVersion: "TLSv1.1" } }),
      reason: /^tls: the server .*TLS version/,
    },
  ];
  for (const { name, peer: options, reason } of cases) {
    it(`is refused, for a reason in the log, and tried again when it ${name}`, async (t) => {
      const peer = await startHttp2Peer(t, { ...acceptAll, ...options() });
      const { agent, refusals } = await startTrackedAgent(t, peer.port, {
        syncIntervalMs: 5,
        syncIntervalCapMs: 5,
      });
      await until(() => refusals().length >= 2);
      for (const refusal of refusals()) {
        if (typeof reason === "string") assert.equal(refusal, reason);
        else assert.match(refusal, reason);
      }
      assert.equal(agent.isReady, false);
      assert.equal(peer.requests.length, 0);
    });
  }

  it("is refused when it knows no ALPN", async (t) => {
    const { refusals } = await startTrackedAgent(t, await startTlsPeer(t, {}));
    await until(() => refusals().length >= 2);
    assert.equal(refusals()[0], "tls: the server knows no ALPN, so it is no gRPC server");
  });

  it("is refused when it speaks no TLS", async (t) => {
    const port = await startTcpPeer(t, (socket) => {
      socket.end("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    const { refusals } = await startTrackedAgent(t, port);
    await until(() => refusals().length >= 2);
    assert.match(refusals()[0] ?? "", /^tls: the server (does not speak TLS|speaks plain HTTP)/);
  });

  it("is tried again when it hangs up during the handshake", async (t) => {
    const port = await startTcpPeer(t, (socket) => {
      socket.once("data", () => socket.destroy());
    });
    const { refusals } = await startTrackedAgent(t, port);
    await until(() => refusals().length >= 2);
    assert.match(refusals()[0] ?? "", /^tls: the server hung up during the TLS handshake/);
  });

  it("is tried again when it wants a certificate and is shown none", async (t) => {
    const server = await startAgentServer(t);
    const { refusals } = await startTrackedAgent(t, server.port, NO_CERTIFICATE);
    await until(() => refusals().length >= 2);
    // With TLS 1.3 the client learns of it behind its own handshake.
    assert.match(refusals()[0] ?? "", /certificate/i);
    assert.equal(server.callCount, 0);
  });

  it("is tried again when it does not know the CA of our certificate, which may be why", async (t) => {
    const server = await startServer(t);
    const pki = createTestPki();
    const { certPath, keyPath } = pki.issue({ ca: pki.createCa("stranger"), usage: "client" });
    const { refusals } = await startTrackedAgent(t, server.agentPort, {
      agentCertPath: certPath,
      agentKeyPath: keyPath,
    });
    await until(() => refusals().length >= 2);
    for (const refusal of refusals()) {
      assert.match(
        refusal,
        /^tls: the server (hung up .*; it may not accept our certificate|does not know)/,
      );
    }
  });

  it("is tried again when it ends the connection without a word", async (t) => {
    const port = await startTlsPeer(t, { ALPNProtocols: ["h2"] }, (socket) => {
      socket.resume();
      socket.end();
    });
    const { refusals } = await startTrackedAgent(t, port);
    await until(() => refusals().length >= 2);
    assert.match(
      refusals()[0] ?? "",
      /^tls: the server hung up .*; it may not accept our certificate$/,
    );
  });

  it("is tried again when nobody listens", async (t) => {
    const { port } = await closedPort();
    const { refusals } = await startTrackedAgent(t, port);
    await until(() => refusals().length >= 2);
    assert.equal(refusals()[0], "connect: connection refused");
  });

  it("is tried again when its name is unknown", async (t) => {
    const { refusals } = await startTrackedAgent(t, 8091, {
      servers: [{ host: "no..name", port: 8091, name: "no..name" }],
    });
    await until(() => refusals().length >= 2);
    assert.match(refusals()[0] ?? "", /^lookup: /);
  });
});

describe("a server's answer", () => {
  const cases: { name: string; headers: Record<string, string | string[]>; reason: string }[] = [
    {
      name: "two server ids",
      headers: { serverid: ["a", "b"] },
      reason: "expected one server ID in the context, got [a b]",
    },
    {
      name: "two server counts",
      headers: { servercount: ["1", "2"] },
      reason: "expected one server count, got 2",
    },
    {
      name: "a count that is no number",
      headers: { servercount: "abc" },
      reason: 'strconv.Atoi: parsing "abc": invalid syntax',
    },
    {
      name: "an empty count",
      headers: { servercount: "" },
      reason: 'strconv.Atoi: parsing "": invalid syntax',
    },
    {
      name: "a count with a fraction",
      headers: { servercount: "1.5" },
      reason: 'strconv.Atoi: parsing "1.5": invalid syntax',
    },
    {
      name: "a count beyond all bounds",
      headers: { servercount: "9223372036854775808" },
      reason: 'strconv.Atoi: parsing "9223372036854775808": value out of range',
    },
    {
      name: "no HTTP status of success",
      headers: { ":status": "503" },
      reason: "Unavailable: unexpected HTTP status code received from server: 503",
    },
    {
      name: "another content type",
      headers: { "content-type": "text/html" },
      reason: 'Unknown: unexpected content-type "text/html"',
    },
  ];
  for (const { name, headers, reason } of cases) {
    it(`with ${name} is refused, and the server tried again`, async (t) => {
      const peer = await startHttp2Peer(t, {
        onRequest: (request) => {
          accept(request, headers);
        },
      });
      const { agent, refusals, metric } = await startTrackedAgent(t, peer.port);
      await until(() => refusals().length >= 2);
      assert.equal(refusals()[0], `answer: ${reason}`);
      assert.equal(agent.isReady, false);
      // Nothing was lost: there was no tunnel yet.
      assert.equal(
        await metric('server_connection_failure_count{direction="from_server"}'),
        undefined,
      );
    });
  }

  const missing: { name: string; answered: Record<string, string>; reason: string }[] = [
    {
      name: "no server id",
      answered: { servercount: "1" },
      reason: "expected one server ID in the context, got []",
    },
    {
      name: "no server count",
      answered: { serverid: "a" },
      reason: "expected one server count, got 0",
    },
  ];
  for (const { name, answered, reason } of missing) {
    it(`with ${name} is refused, and the server tried again`, async (t) => {
      const peer = await startHttp2Peer(t, {
        onRequest: ({ stream }) => {
          stream.respond({ ":status": 200, "content-type": "application/grpc", ...answered });
        },
      });
      const { refusals } = await startTrackedAgent(t, peer.port);
      await until(() => refusals().length >= 2);
      assert.equal(refusals()[0], `answer: ${reason}`);
    });
  }

  it("may have an empty server id", async (t) => {
    const server = await startAgentServer(t, { serverId: "" });
    const { agent, logger } = await startTrackedAgent(t, server.port);
    await until(() => agent.isReady);
    const opened = logger.lines.find(({ event }) => event === "tunnel.opened");
    assert.equal(opened?.fields["serverId"], "");
  });

  for (const count of ["0", "-0", "+1"]) {
    it(`may have the server count ${count}, which asks for one tunnel`, async (t) => {
      const server = await startAgentServer(t, { serverCount: count });
      const { agent, metric } = await startTrackedAgent(t, server.port, {
        syncIntervalMs: 2,
        syncIntervalCapMs: 2,
      });
      await until(() => agent.isReady);
      await new Promise((resolve) => setTimeout(resolve, 30));
      assert.equal(server.callCount, 1);
      assert.equal(await metric("known_server_count"), "1");
    });
  }

  it("may have a negative server count, which asks for ever more", async (t) => {
    const server = await startAgentServer(t, { serverCount: "-1" });
    const { agent, metric } = await startTrackedAgent(t, server.port, {
      syncIntervalMs: 2,
      syncIntervalCapMs: 2,
    });
    await until(() => server.callCount >= 4);
    assert.equal(agent.isReady, true);
    assert.equal(await metric("known_server_count"), "-1");
    assert.equal(await metric("open_server_connections"), "1");
  });
});

describe("an attempt", () => {
  it("is given up when TCP connects to nothing for ten seconds", async (t) => {
    const clock = new ManualClock(Date.now());
    const { refusals } = await startTrackedAgent(t, await startBlackHole(t), {}, { clock });
    await until(() => clock.pendingTimers > 0);
    clock.advance(9_999);
    assert.deepEqual(refusals(), []);
    clock.advance(1);
    await until(() => refusals().length > 0);
    assert.deepEqual(refusals(), ["connect: timed out"]);
  });

  it("is given up when the server says nothing to TLS for ten seconds", async (t) => {
    const clock = new ManualClock(Date.now());
    let spokenTo = false;
    const port = await startTcpPeer(t, (socket) => {
      socket.once("data", () => {
        spokenTo = true;
      });
    });
    const { refusals } = await startTrackedAgent(t, port, {}, { clock });
    await until(() => spokenTo);
    clock.advance(9_999);
    assert.deepEqual(refusals(), []);
    clock.advance(1);
    await until(() => refusals().length > 0);
    assert.deepEqual(refusals(), ["tls: timed out"]);
  });

  const mute: { name: string; options: TestMute }[] = [
    { name: "says nothing in HTTP/2", options: { silentBehindTls: true } },
    { name: "does not answer the call", options: { silentBehindTls: false } },
  ];
  for (const { name, options } of mute) {
    it(`is given up when the server ${name} for ten seconds`, async (t) => {
      const clock = new ManualClock(Date.now());
      const { port, isReached } = await startMuteServer(t, options);
      const { refusals } = await startTrackedAgent(t, port, {}, { clock });
      await until(isReached);
      clock.advance(9_999);
      assert.deepEqual(refusals(), []);
      clock.advance(1);
      await until(() => refusals().length > 0);
      assert.deepEqual(refusals(), ["answer: timed out"]);
    });
  }

  it("is dropped at once when the agent stops", async (t) => {
    let isCalled = false;
    let isCancelled = false;
    const server = await startAgentServer(t, {
      onCall: (call) => {
        isCalled = true;
        call.once("cancelled", () => {
          isCancelled = true;
        });
      },
    });
    const { agent, refusals } = await startTrackedAgent(t, server.port);
    await until(() => isCalled);
    await agent.stop();
    await until(() => isCancelled);
    assert.deepEqual(refusals(), []);
  });
});

interface TestMute {
  readonly silentBehindTls: boolean;
}

async function startMuteServer(
  t: Parameters<typeof startAgentServer>[0],
  { silentBehindTls }: TestMute,
): Promise<{ port: number; isReached: () => boolean }> {
  if (!silentBehindTls) {
    const server = await startAgentServer(t, { onCall: () => undefined });
    return { port: server.port, isReached: () => server.callCount > 0 };
  }
  let isReached = false;
  const port = await startTlsPeer(t, { ALPNProtocols: ["h2"] }, (socket) => {
    socket.once("data", () => {
      isReached = true;
    });
  });
  return { port, isReached: () => isReached };
}

function keyPairOf({ cert, key }: { readonly cert: string; readonly key: string }) {
  return { cert, key };
}

/** A port on which nobody listens. */
async function closedPort(): Promise<{ port: number }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return { port };
}
