import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { systemClock } from "../../src/clock.ts";
import { connectSocket } from "../../src/net/connect-socket.ts";
import { SocketListener } from "../../src/net/socket-listener.ts";
import { exceptServerAlpn, wasTurnedAway } from "../../src/tls/turn-away.ts";
import { eventually } from "./socket-pair.ts";

const PSK_CIPHER = "PSK-AES128-GCM-SHA256";

describe("a client that waits before its TLS handshake", () => {
  async function setup(t: TestContext) {
    const server = createServer();
    t.after(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const accepted = once(server, "connection") as Promise<[Socket]>;
    const leaving = new AbortController();
    let begin: () => void = () => undefined;
    const connected = connectSocket({
      address: { kind: "tcp", host: "127.0.0.1", port: (server.address() as AddressInfo).port },
      tls: { rejectUnauthorized: false },
      beforeTls: () =>
        new Promise((resolve) => {
          begin = resolve;
        }),
      timeoutMs: 10_000,
      clock: systemClock,
      signal: leaving.signal,
    });
    const outcome = connected.then(
      () => "connected",
      (error: unknown) => (error as Error).message,
    );
    const [peer] = await accepted;
    let bytes = 0;
    peer.on("data", (piece: Buffer) => (bytes += piece.length));
    peer.on("error", () => undefined);
    t.after(() => peer.destroy());
    return {
      peer,
      outcome,
      leaving,
      begin: () => {
        begin();
      },
      bytes: () => bytes,
    };
  }
  const turns = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  };

  it("sends nothing until it is its turn", async (t) => {
    const { peer, outcome, begin, bytes } = await setup(t);
    await turns();
    assert.equal(bytes(), 0);
    begin();
    await eventually(() => bytes() > 0);
    peer.destroy();
    await outcome;
  });

  it("leaves at once when it is not needed any more", async (t) => {
    const { peer, outcome, leaving, begin, bytes } = await setup(t);
    const closed = once(peer, "close");
    leaving.abort(new Error("not needed"));
    assert.equal(await outcome, "not needed");
    begin();
    await closed;
    assert.equal(bytes(), 0);
  });

  it("notices that the server hangs up meanwhile", async (t) => {
    const { peer, outcome } = await setup(t);
    peer.end();
    assert.equal(await outcome, "the connection was closed");
  });
});

describe("a client that leaves during its TLS handshake", () => {
  for (const [word, rejections] of [
    ["", 0],
    ["\x16\x03\x01", 1],
  ] as const) {
    const what = word === "" ? "without a word" : "in the middle of one";
    it(`is gone at once; ${what}, and told of ${rejections} times`, async (t) => {
      let rejectedCount = 0;
      const listener = await SocketListener.open(
        {
          address: { kind: "tcp", host: "127.0.0.1", port: 0 },
          tls: { ciphers: PSK_CIPHER, pskCallback: () => Buffer.alloc(16) },
          // Longer than the test may take.
          handshakeTimeoutMs: 100_000,
        },
        {
          accepted: () => assert.fail("there was no handshake"),
          rejected: () => rejectedCount++,
        },
      );
      t.after(() => {
        listener.destroy();
      });
      const client = connect({ port: listener.port, host: "127.0.0.1", allowHalfOpen: true });
      client.on("error", () => undefined);
      client.resume();
      t.after(() => client.destroy());
      await once(client, "connect");
      const closed = once(client, "end");
      client.end(word);
      await closed;
      await listener.whenEmpty();
      assert.equal(rejectedCount, rejections);
    });
  }
});

describe("a client that may be turned away", () => {
  const EXCEPT_THIS = exceptServerAlpn("server-1");

  /** What becomes of a client with these protocols. */
  async function attempt(t: TestContext, alpnProtocols: readonly string[]) {
    const told: string[] = [];
    const listener = await SocketListener.open(
      {
        address: { kind: "tcp", host: "127.0.0.1", port: 0 },
        tls: {
          ciphers: PSK_CIPHER,
          maxVersion: "TLSv1.2",
          pskCallback: () => Buffer.alloc(16),
          ALPNProtocols: ["h2"],
        },
        requiredAlpn: "h2",
        turnsAway: (offered) => offered.includes(EXCEPT_THIS),
        handshakeTimeoutMs: 100_000,
      },
      {
        accepted: (socket) => {
          told.push("accepted");
          socket.on("error", () => undefined);
          socket.on("end", () => socket.destroy());
          socket.resume();
        },
        rejected: (reason) => told.push(reason),
      },
    );
    t.after(() => {
      listener.destroy();
    });
    const outcome = await connectSocket({
      address: { kind: "tcp", host: "127.0.0.1", port: listener.port },
      tls: {
        ciphers: PSK_CIPHER,
        maxVersion: "TLSv1.2",
        pskCallback: () => ({ psk: Buffer.alloc(16), identity: "x" }),
        checkServerIdentity: () => undefined,
        ALPNProtocols: ["never-offered"],
      },
      alpnProtocols: () => alpnProtocols,
      timeoutMs: 10_000,
      clock: systemClock,
    }).then(
      (socket) => {
        socket.destroy();
        return "connected";
      },
      (error: unknown) => (wasTurnedAway((error as Error).cause) ? "turned away" : error),
    );
    await listener.whenEmpty();
    return { outcome, told };
  }

  it("is, without a word to anybody, if it names this server", async (t) => {
    const { outcome, told } = await attempt(t, ["h2", exceptServerAlpn("server-2"), EXCEPT_THIS]);
    assert.deepEqual([outcome, told], ["turned away", []]);
  });

  it("is not if it names another server, or none", async (t) => {
    for (const alpnProtocols of [["h2", exceptServerAlpn("server-2")], ["h2"]]) {
      const { outcome, told } = await attempt(t, alpnProtocols);
      assert.deepEqual([outcome, told], ["connected", ["accepted"]]);
    }
  });

  it("is told of if it speaks no protocol spoken here", async (t) => {
    const { told } = await attempt(t, ["http/1.1"]);
    assert.equal(told.length, 1);
    assert.match(told[0]!, /none of the protocols spoken here/);
  });
});
