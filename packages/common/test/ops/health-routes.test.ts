import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { agentHealthRoutes, serverHealthRoutes } from "../../src/ops/health-routes.ts";
import type { ReadinessCheck } from "../../src/ops/readiness-check.ts";
import { DATE, get, openOps } from "./ops-setup.ts";

const PLAIN = "Content-Type: text/plain; charset=utf-8";

function answer(status: string, body: string): string {
  return `HTTP/1.1 ${status}\r\n${DATE}\r\nContent-Length: ${body.length}\r\n${PLAIN}\r\n\r\n${body}`;
}

const OK = answer("200 OK", "ok");

/** A check that fails with `problem` while there is one. */
function check(name: string, problem: () => string, detail = ""): ReadinessCheck {
  return {
    name,
    run: () => ({ ok: problem() === "", detail: problem() === "" ? detail : problem() }),
  };
}

const failing = check("tunnels", () => "none");

describe("the server's health", () => {
  it("is ok as long as it answers at all, whatever its peers do", async (t) => {
    const { ask } = await openOps(t, serverHealthRoutes([failing]));
    for (const path of ["/healthz", "/livez", "/livez?verbose"]) {
      assert.equal(await ask(get(path)), OK);
    }
  });

  it("is ready if every check passes, and otherwise 500 with the reasons", async (t) => {
    const problems = ["no connection to any proxy agent", "expired"];
    const checks = ["a", "b"].map((name, at) => check(name, () => problems[at]!));
    const { ask } = await openOps(t, serverHealthRoutes(checks));
    for (const path of ["/ready", "/readyz"]) {
      const expected = "no connection to any proxy agent\nexpired";
      assert.equal(await ask(get(path)), answer("500 Internal Server Error", expected));
    }
    problems[1] = "";
    const upstreams = "no connection to any proxy agent";
    assert.equal(await ask(get("/readyz")), answer("500 Internal Server Error", upstreams));
    problems[0] = "";
    assert.equal(await ask(get("/readyz")), OK);
  });

  it("has a line for each check if asked for details", async (t) => {
    let problem = "none";
    const checks = [check("a", () => problem), check("b", () => "", "3 agents")];
    const { ask } = await openOps(t, serverHealthRoutes(checks));
    assert.equal(
      await ask(get("/readyz?verbose")),
      answer("500 Internal Server Error", "[+]ping ok\n[-]a failed: none\n[+]b ok: 3 agents\n"),
    );
    problem = "";
    assert.equal(
      await ask(get("/readyz?verbose")),
      answer("200 OK", "[+]ping ok\n[+]a ok\n[+]b ok: 3 agents\ncheck passed\n"),
    );
  });
});

describe("the agent's health", () => {
  it("is ok as long as it answers at all, verbose or not", async (t) => {
    const { ask } = await openOps(t, agentHealthRoutes([failing]));
    for (const path of ["/healthz", "/healthz?verbose", "/livez"]) {
      assert.equal(await ask(get(path)), OK);
    }
  });

  it("is ready if every check passes, in detail if asked for", async (t) => {
    const { ask } = await openOps(
      t,
      agentHealthRoutes([check("server-connected", () => "", "1 of 1")]),
    );
    const details = answer("200 OK", "[+]ping ok\n[+]server-connected ok: 1 of 1\ncheck passed\n");
    for (const path of ["/ready", "/readyz"]) {
      assert.equal(await ask(get(path)), OK);
      assert.equal(await ask(get(`${path}?verbose`)), details);
      assert.equal(await ask(get(`${path}?verbose=true`)), details);
    }
  });

  it("says what fails, asked for details or not, and only then what does not", async (t) => {
    const { ask } = await openOps(
      t,
      agentHealthRoutes([
        check("server-connected", () => "no servers connected"),
        check("certificates", () => ""),
      ]),
    );
    const failed = "[+]ping ok\n[-]server-connected failed: no servers connected\n";
    for (const path of ["/ready", "/readyz"]) {
      assert.equal(await ask(get(path)), answer("503 Service Unavailable", failed));
    }
    assert.equal(
      await ask(get("/readyz?verbose")),
      answer("503 Service Unavailable", `${failed}[+]certificates ok\n`),
    );
  });
});
