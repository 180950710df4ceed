import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { ManualClock, RecordingLogger } from "@reachback/common/testing";
import { OpsListener } from "../../src/ops/ops-listener.ts";
import type { OpsRoute } from "../../src/ops/ops-route.ts";
import { DATE, get, openOps } from "./ops-setup.ts";

const PLAIN = "Content-Type: text/plain; charset=utf-8";
const NO_SNIFF = "X-Content-Type-Options: nosniff";
const OK_HEAD = `HTTP/1.1 200 OK\r\n${DATE}\r\nContent-Length: 2\r\n${PLAIN}`;
const OK = `${OK_HEAD}\r\n\r\nok`;
const NOT_FOUND = `HTTP/1.1 404 Not Found\r\n${PLAIN}\r\n${NO_SNIFF}\r\n${DATE}\r\nContent-Length: 19\r\n\r\n404 page not found\n`;

const healthz: OpsRoute = { path: "/healthz", handler: () => ({ status: 200, body: "ok" }) };

function refusal(status: string, body = status): string {
  return `HTTP/1.1 ${status}\r\n${PLAIN}\r\nConnection: close\r\n\r\n${body}`;
}

describe("an ops listener", () => {
  for (const method of ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]) {
    it(`answers ${method} as any other method`, async (t) => {
      const { ask } = await openOps(t, [healthz]);
      assert.equal(await ask(`${method} /healthz HTTP/1.1\r\nHost: a\r\n\r\n`), OK);
    });
  }

  it("answers HEAD without a body", async (t) => {
    const { connect } = await openOps(t, [healthz]);
    const client = await connect();
    client.send("HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert.equal(await client.readResponse("HEAD"), `${OK_HEAD}\r\n\r\n`);
    assert.equal(await client.send(get("/healthz")).readResponse(), OK);
  });

  it("keeps the connection, ignoring what a request carries", async (t) => {
    const { connect } = await openOps(t, [healthz]);
    const client = await connect();
    client.send("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert.equal(await client.readResponse(), OK);
    client.send(get("/healthz") + get("/nothing"));
    assert.equal(await client.readResponse(), OK);
    assert.equal(await client.readResponse(), NOT_FOUND);
  });

  it("closes it if the client asks for that, or speaks HTTP/1.0", async (t) => {
    const { connect } = await openOps(t, [healthz]);
    const polite = await connect();
    polite.send(get("/healthz", "Connection: close"));
    assert.equal(await polite.readToEnd(), `${OK_HEAD}\r\nConnection: close\r\n\r\nok`);
    const old = await connect();
    assert.equal(await old.send("GET /healthz HTTP/1.0\r\n\r\n").readToEnd(), OK);
    const kept = await connect();
    kept.send("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert.equal(await kept.readResponse(), `${OK_HEAD}\r\nConnection: keep-alive\r\n\r\nok`);
    assert.equal(kept.isEnded, false);
  });

  it("answers a client that has finished sending, and closes", async (t) => {
    const slow: OpsRoute = {
      path: "/slow",
      handler: async () => {
        await new Promise((resolve) => setImmediate(resolve));
        return { status: 200, body: "ok" };
      },
    };
    const { connect } = await openOps(t, [slow]);
    const client = await connect();
    client.socket.end(get("/slow"));
    assert.equal(await client.readToEnd(), OK);
  });

  for (const path of ["/", "/healthz/", "/Healthz", "/healthz%2f", "/nothing?x=1"]) {
    it(`knows nothing at ${path}`, async (t) => {
      const { ask } = await openOps(t, [healthz]);
      assert.equal(await ask(get(path)), NOT_FOUND);
    });
  }

  const redirected: readonly (readonly [string, string])[] = [
    ["//healthz", "/healthz"],
    ["/./healthz", "/healthz"],
    ["/x/../healthz", "/healthz"],
    ["//x//", "/x/"],
  ];
  for (const [path, target] of redirected) {
    it(`sends ${path} to ${target}`, async (t) => {
      const { ask } = await openOps(t, [healthz]);
      const body = `<a href="${target}">Temporary Redirect</a>.\n\n`;
      assert.equal(
        await ask(get(path)),
        `HTTP/1.1 307 Temporary Redirect\r\nContent-Type: text/html; charset=utf-8\r\nLocation: ${target}\r\n${DATE}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      assert.equal(
        await ask(`POST ${path} HTTP/1.1\r\nHost: a\r\n\r\n`),
        `HTTP/1.1 307 Temporary Redirect\r\nLocation: ${target}\r\n${DATE}\r\nContent-Length: 0\r\n\r\n`,
      );
    });
  }

  it("reads an absolute target, and an encoded path", async (t) => {
    const { ask } = await openOps(t, [healthz]);
    assert.equal(await ask(get("http://b:1/healthz")), OK);
    assert.equal(await ask(get("/%68ealthz")), OK);
  });

  it("answers OPTIONS * for the whole server", async (t) => {
    const { ask } = await openOps(t, [healthz]);
    assert.equal(
      await ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
      `HTTP/1.1 200 OK\r\nContent-Length: 0\r\n${DATE}\r\n\r\n`,
    );
  });

  it("says 500, and why only in its log, when a handler fails", async (t) => {
    const broken: OpsRoute = {
      path: "/broken",
      handler: () => {
        throw new Error("secret");
      },
    };
    const { ask, logger } = await openOps(t, [broken]);
    assert.equal(
      await ask(get("/broken")),
      `HTTP/1.1 500 Internal Server Error\r\n${PLAIN}\r\n${NO_SNIFF}\r\n${DATE}\r\nContent-Length: 15\r\n\r\ninternal error\n`,
    );
    const { event, error, fields } = logger.lines.at(-1) ?? {};
    assert.deepEqual(
      [event, String(error), fields?.["path"]],
      ["ops.failed", "Error: secret", "/broken"],
    );
  });
});

describe("an ops listener refuses", () => {
  const refused: readonly (readonly [name: string, request: string, answer: string])[] = [
    [
      "a request without a Host",
      "GET /healthz HTTP/1.1\r\n\r\n",
      refusal("400 Bad Request: missing required Host header"),
    ],
    ["two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", refusal("400 Bad Request")],
    [
      "a Host that is none",
      'GET / HTTP/1.1\r\nHost: a"><script>\r\n\r\n',
      refusal("400 Bad Request: malformed Host header"),
    ],
    ["a broken escape in the path", get("/%zz"), refusal("400 Bad Request")],
    [
      "a transfer encoding it does not know",
      get("/healthz", "Transfer-Encoding: foo"),
      refusal("501 Not Implemented", "Unsupported transfer encoding"),
    ],
    [
      "an expectation it cannot meet",
      get("/healthz", "Expect: foo"),
      `HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n${DATE}\r\nContent-Length: 0\r\n\r\n`,
    ],
    [
      "to be a proxy",
      "CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n",
      NOT_FOUND.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"),
    ],
    ["garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", refusal("400 Bad Request")],
    ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", refusal("400 Bad Request")],
    ["a version there is not", "GET / HTTP/9.9\r\nHost: a\r\n\r\n", refusal("400 Bad Request")],
    ["a header without a colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", refusal("400 Bad Request")],
    [
      "a head beyond 1 MiB",
      get("/", `X: ${"x".repeat(1_100_000)}`),
      refusal("431 Request Header Fields Too Large"),
    ],
  ];
  for (const [name, request, expected] of refused) {
    it(`${name}, and closes`, async (t) => {
      const { connect, ask } = await openOps(t, [healthz]);
      const client = await connect();
      assert.equal(await client.send(request).readToEnd(), expected);
      assert.equal(await ask(get("/healthz")), OK);
    });
  }

  it("half a request whose sender has finished, and closes", async (t) => {
    const { connect } = await openOps(t, [healthz]);
    const client = await connect();
    client.socket.end("GET /healthz HT");
    assert.equal(await client.readToEnd(), refusal("400 Bad Request"));
  });

  it("nothing just below 1 MiB of head", async (t) => {
    const { ask } = await openOps(t, [healthz]);
    assert.equal(await ask(get("/healthz", `X: ${"x".repeat(1_000_000)}`)), OK);
  });

  it("garbage behind a good request, but still answers that", async (t) => {
    const { connect } = await openOps(t, [healthz]);
    const client = await connect();
    await client.send(get("/healthz")).readResponse();
    assert.equal(await client.send("\0\0\0\0").readToEnd(), refusal("400 Bad Request"));
  });

  it("with a reset client what it can no longer send", async (t) => {
    const { connect, ask } = await openOps(t, [healthz]);
    for (const request of [
      "CONNECT b:1 HTTP/1.1\r\nHost: b:1\r\n\r\n",
      "GET / HT",
      get("/healthz"),
    ]) {
      const client = await connect();
      client.send(request);
      client.socket.resetAndDestroy();
    }
    assert.equal(await ask(get("/healthz")), OK);
  });
});

describe("an ops listener's patience", () => {
  const stalled: readonly (readonly [name: string, bytes: string])[] = [
    ["a connection that says nothing", ""],
    ["half a request line", "GET /heal"],
    ["half a head", "GET /healthz HTTP/1.1\r\nHost: a\r\nX: y"],
  ];
  for (const [name, bytes] of stalled) {
    it(`ends with ${name}, without a word`, async (t) => {
      const { connect } = await openOps(t, [healthz], { headTimeoutMs: 120 });
      const client = await connect();
      if (bytes !== "") client.send(bytes);
      assert.equal(await client.readToEnd(), "");
    });
  }

  it("ends with half a second request as with half a first one", async (t) => {
    const { connect } = await openOps(t, [healthz], { headTimeoutMs: 120 });
    const client = await connect();
    assert.equal(await client.send(get("/healthz")).readResponse(), OK);
    assert.equal(await client.send("GET /").readToEnd(), "");
  });

  it("ends with a body that never comes", async (t) => {
    const { connect } = await openOps(t, [healthz], { headTimeoutMs: 120 });
    const client = await connect();
    client.send("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    assert.equal(await client.readToEnd(), OK);
  });

  it("ends with a connection that is kept and not used", async (t) => {
    const { connect } = await openOps(t, [healthz], { idleTimeoutMs: 100 });
    const client = await connect();
    assert.equal(await client.send(get("/healthz")).readToEnd(), OK);
  });

  it("ends with a client that does not take its answer", async (t) => {
    const asked = withResolver();
    const huge: OpsRoute = {
      path: "/huge",
      handler: () => {
        asked.resolve();
        return { status: 200, body: Buffer.alloc(64 << 20) };
      },
    };
    const { connect, listener } = await openOps(t, [huge], { sendTimeoutMs: 100 });
    const client = await connect();
    client.socket.pause();
    client.send(get("/huge"));
    await asked.promise;
    // The clock stands still, so that only the client's slowness can end its connection.
    await listener.close();
  });

  it("does not end while a handler works", async (t) => {
    const { promise, resolve } = withResolver();
    const slow: OpsRoute = {
      path: "/slow",
      handler: async () => {
        await promise;
        return { status: 200, body: "ok" };
      },
    };
    const { connect } = await openOps(t, [slow, healthz], { headTimeoutMs: 60, idleTimeoutMs: 60 });
    const working = await connect();
    working.send(get("/slow"));
    const idle = await connect();
    idle.send(get("/healthz"));
    await idle.readToEnd();
    resolve();
    assert.equal(await working.readResponse(), OK);
  });
});

function withResolver(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((fulfil) => {
    resolve = fulfil;
  });
  return { promise, resolve };
}

describe("an ops listener's room", () => {
  it("is made for a new client by closing the one idle for longest", async (t) => {
    const { connect } = await openOps(t, [healthz], { maxConnections: 3 });
    const clients = [await connect(), await connect(), await connect()];
    for (const client of clients) await client.send(get("/healthz")).readResponse();
    await clients[0]!.send(get("/healthz")).readResponse();
    const probe = await connect();
    assert.equal(await probe.send(get("/healthz")).readResponse(), OK);
    assert.equal(await clients[1]!.readToEnd(), "");
    assert.deepEqual(
      clients.map(({ isEnded }) => isEnded),
      [false, true, false],
    );
  });

  it("is there for a probe however many connections a client holds", async (t) => {
    const { connect, ask } = await openOps(t, [healthz], { maxConnections: 8 });
    for (let n = 0; n < 50; n++) (await connect()).send("GET / HTTP/1.1\r\nHost: a\r\nX: ");
    assert.equal(await ask(get("/healthz")), OK);
  });
});

describe("closing an ops listener", () => {
  it("ends idle connections and half requests at once", async (t) => {
    const { connect, listener, clock } = await openOps(t, [healthz]);
    const idle = await connect();
    await idle.send(get("/healthz")).readResponse();
    const half = await connect();
    half.send("GET /healthz HTTP/1.1\r\n");
    const silent = await connect();
    await listener.close();
    for (const client of [idle, half, silent]) assert.equal(await client.readToEnd(), "");
    assert.equal(clock.pendingTimers, 0);
  });

  it("lets a request under way end, and tells it to hurry", async (t) => {
    const waiting: OpsRoute = {
      path: "/waiting",
      handler: async ({ signal }) => {
        await once(signal, "abort");
        return { status: 200, body: "ok" };
      },
    };
    const { connect, listener, clock } = await openOps(t, [waiting, healthz]);
    const client = await connect();
    client.send(get("/waiting"));
    const other = await connect();
    await other.send(get("/healthz")).readResponse();
    const closed = listener.close();
    assert.equal(await client.readToEnd(), `${OK_HEAD}\r\nConnection: close\r\n\r\nok`);
    await closed;
    assert.equal(clock.pendingTimers, 0);
  });

  it("does not wait for one that goes on for more than two seconds", async (t) => {
    const endless: OpsRoute = { path: "/endless", handler: () => new Promise(() => undefined) };
    const { connect, listener, clock } = await openOps(t, [endless, healthz]);
    const client = await connect();
    client.send(get("/endless"));
    const other = await connect();
    await other.send(get("/healthz")).readResponse();
    const closed = listener.close();
    clock.advance(2_000);
    await closed;
    assert.equal(await client.readToEnd(), "");
  });

  it("may be asked for twice", async (t) => {
    const { listener } = await openOps(t, [healthz]);
    await Promise.all([listener.close(), listener.close()]);
    await listener.close();
  });
});

describe("opening an ops listener", () => {
  const ports = { clock: new ManualClock(), logger: new RecordingLogger() };

  it("says in upstream's words that the address is taken", async (t) => {
    const taken = createServer();
    t.after(() => taken.close());
    taken.listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    const address = `127.0.0.1:${port}`;
    await assert.rejects(
      OpsListener.open({ name: "health server", host: "127.0.0.1", port, routes: [] }, ports),
      {
        message: `failed to run the health server: failed to listen on ${address}: listen tcp ${address}: bind: address already in use`,
      },
    );
  });

  it("says in upstream's words that the address is not ours", async () => {
    await assert.rejects(
      OpsListener.open({ name: "admin server", host: "192.0.2.1", port: 8095, routes: [] }, ports),
      {
        message:
          "failed to run the admin server: failed to listen on 192.0.2.1:8095: listen tcp 192.0.2.1:8095: bind: cannot assign requested address",
      },
    );
  });

  it("listens on all interfaces without a host", async (t) => {
    const listener = await OpsListener.open(
      { name: "health server", host: "", port: 0, routes: [healthz] },
      ports,
    );
    t.after(() => listener.close());
    const response = await fetch(`http://127.0.0.1:${listener.port}/healthz`);
    assert.equal(await response.text(), "ok");
  });
});
