import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gunzipSync } from "node:zlib";
import { unlabelled } from "../../src/metrics/metric-family.ts";
import { MetricRegistry } from "../../src/metrics/metric-registry.ts";
import { acceptsGzip, metricsRoute, movedMetricsRoute } from "../../src/ops/metrics-routes.ts";
import { DATE, get, openOps } from "./ops-setup.ts";

const TEXT = "# HELP up Says so.\n# TYPE up gauge\nup 1\n";
const TYPE = "Content-Type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

function registry(): MetricRegistry {
  const made = new MetricRegistry();
  made.add({ name: "up", help: "Says so.", type: "gauge", collect: () => unlabelled(1) });
  return made;
}

describe("/metrics", () => {
  it("is the exposition, under upstream's content type", async (t) => {
    const { ask } = await openOps(t, [metricsRoute(registry())]);
    assert.equal(
      await ask(get("/metrics")),
      `HTTP/1.1 200 OK\r\n${TYPE}\r\n${DATE}\r\nContent-Length: ${TEXT.length}\r\n\r\n${TEXT}`,
    );
  });

  it("is not OpenMetrics, whoever asks for that", async (t) => {
    const { ask } = await openOps(t, [metricsRoute(registry())]);
    const answer = await ask(get("/metrics", "Accept: application/openmetrics-text"));
    assert.ok(answer.includes(TYPE));
  });

  it("is compressed for those who accept that", async (t) => {
    const { ask } = await openOps(t, [metricsRoute(registry())]);
    const answer = await ask(get("/metrics", "Accept-Encoding: gzip"));
    const [head = "", ...body] = answer.split("\r\n\r\n");
    assert.ok(
      head.startsWith(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n${TYPE}\r\n${DATE}\r\n`),
    );
    const compressed = Buffer.from(body.join("\r\n\r\n"), "latin1");
    assert.equal(gunzipSync(compressed).toString(), TEXT);
  });

  const encodings: readonly (readonly [string, boolean])[] = [
    ["gzip", true],
    ["deflate, gzip;q=1.0, *;q=0.5", true],
    ["GZIP;q=0.1", true],
    ["gzip;q=0", false],
    ["gzip; q=0.000", false],
    ["identity", false],
    ["xgzip", false],
    ["", false],
  ];
  for (const [header, accepted] of encodings) {
    it(`${accepted ? "takes" : "does not take"} "${header}" for an acceptance of gzip`, () => {
      assert.equal(acceptsGzip(header), accepted);
    });
  }
});

describe("the agent's admin /metrics", () => {
  const moved: readonly (readonly [host: string, target: string])[] = [
    ["node-1:8094", "//node-1:8093/metrics"],
    ["node-1", "//node-1:8093/metrics"],
    ["[::1]:8094", "//[::1]:8093/metrics"],
    ["[fe80::1]", "//[fe80::1]:8093/metrics"],
    ["", "//:8093/metrics"],
  ];
  for (const [host, target] of moved) {
    it(`sends clients of "${host}" to ${target}`, async (t) => {
      const { ask } = await openOps(t, [movedMetricsRoute(8093)]);
      const body = `<a href="${target}">Moved Permanently</a>.\n\n`;
      assert.equal(
        await ask(`GET /metrics HTTP/1.1\r\nHost: ${host}\r\n\r\n`),
        `HTTP/1.1 301 Moved Permanently\r\nContent-Type: text/html; charset=utf-8\r\nLocation: ${target}\r\n${DATE}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
  }

  it("keeps the query, harmless in the body", async (t) => {
    const { ask } = await openOps(t, [movedMetricsRoute(8093)]);
    const answer = await ask(get('/metrics?name[]=up&x="><b>'));
    assert.match(answer, /\r\nLocation: \/\/a:8093\/metrics\?name\[\]=up&x="><b>\r\n/);
    assert.match(answer, /<a href="\/\/a:8093\/metrics\?name\[\]=up&amp;x=&#34;&gt;&lt;b&gt;">/);
  });

  it("has no body for other methods", async (t) => {
    const { ask } = await openOps(t, [movedMetricsRoute(8093)]);
    assert.equal(
      await ask("POST /metrics HTTP/1.1\r\nHost: h\r\n\r\n"),
      `HTTP/1.1 301 Moved Permanently\r\nLocation: //h:8093/metrics\r\n${DATE}\r\nContent-Length: 0\r\n\r\n`,
    );
  });
});
