import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { agentHealthRoutes, serverHealthRoutes } from "../../src/ops/health-routes.ts";
import { DATE, get, openOps } from "./ops-setup.ts";

const PLAIN = "Content-Type: text/plain; charset=utf-8";

function answer(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\n${DATE}\r\nContent-Length: ${body.length}\r\n${PLAIN}\r\n\r\n${body}`;
}

const OK = answer("200 OK", "ok");

describe("the server's health", () => {
  it("is ok as long as it answers at all", async (t) => {
    const { ask } = await openOps(
      t,
      serverHealthRoutes(() => false),
    );
    assert.equal(await ask(get("/healthz")), OK);
  });

  it("is ready with an agent, and 500 without one", async (t) => {
    let hasAgent = false;
    const { ask } = await openOps(
      t,
      serverHealthRoutes(() => hasAgent),
    );
    for (const path of ["/ready", "/readyz", "/readyz?verbose"]) {
      hasAgent = false;
      assert.equal(
        await ask(get(path)),
        answer("500 Internal Server Error", "no connection to any proxy agent"),
      );
      hasAgent = true;
      assert.equal(await ask(get(path)), OK);
    }
  });
});

describe("the agent's health", () => {
  it("is ok as long as it answers at all, verbose or not", async (t) => {
    const { ask } = await openOps(
      t,
      agentHealthRoutes(() => false),
    );
    assert.equal(await ask(get("/healthz")), OK);
    assert.equal(await ask(get("/healthz?verbose")), OK);
  });

  it("is ready with a server, in detail if asked for", async (t) => {
    const { ask } = await openOps(
      t,
      agentHealthRoutes(() => true),
    );
    const details = answer("200 OK", "[+]ping ok\n[+]server-connected ok\ncheck passed\n");
    for (const path of ["/ready", "/readyz"]) {
      assert.equal(await ask(get(path)), OK);
      assert.equal(await ask(get(`${path}?verbose`)), details);
      assert.equal(await ask(get(`${path}?verbose=true`)), details);
    }
  });

  it("says without a server what fails, asked for details or not", async (t) => {
    const { ask } = await openOps(
      t,
      agentHealthRoutes(() => false),
    );
    const details = answer(
      "503 Service Unavailable",
      "[+]ping ok\n[-]server-connected failed: no servers connected\n",
    );
    for (const path of ["/ready", "/readyz", "/readyz?verbose"]) {
      assert.equal(await ask(get(path)), details);
    }
  });
});
