import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Gauge, Histogram as PromHistogram, Registry } from "prom-client";
import { readExposition } from "@reachback/common/testing";
import { familyText, goNumber } from "../../src/metrics/exposition.ts";
import { Histogram } from "../../src/metrics/histogram.ts";
import type { MetricFamily } from "../../src/metrics/metric-family.ts";
import { MetricRegistry } from "../../src/metrics/metric-registry.ts";

function gauge(name: string, series: readonly (readonly [Record<string, string>, number])[]) {
  return {
    name,
    help: `help of ${name}`,
    type: "gauge",
    collect: () => series.map(([labels, value]) => ({ labels, value })),
  } satisfies MetricFamily;
}

describe("goNumber", () => {
  const spelled: readonly (readonly [number, string])[] = [
    [0, "0"],
    [-0, "0"],
    [1, "1"],
    [12.5, "12.5"],
    [1e-6, "1e-06"],
    [1e-5, "1e-05"],
    [1e-4, "0.0001"],
    [0.005, "0.005"],
    [86_400, "86400"],
    [999_999, "999999"],
    [1_000_000, "1e+06"],
    [1_234_567.5, "1.2345675e+06"],
    [2 ** 53, "9.007199254740992e+15"],
    [1e21, "1e+21"],
    [1e100, "1e+100"],
    [-2.5, "-2.5"],
    [0.11927781400000005, "0.11927781400000005"],
    [Infinity, "+Inf"],
    [-Infinity, "-Inf"],
    [NaN, "NaN"],
  ];
  for (const [number, text] of spelled) {
    it(`spells ${text} as Go does`, () => {
      assert.equal(goNumber(number), text);
    });
  }
});

describe("familyText", () => {
  it("writes nothing for a family without series", () => {
    assert.equal(familyText(gauge("empty", [])), "");
  });

  it("sorts label names, and series by their values", () => {
    const text = familyText(
      gauge("g", [
        [{ segment: "to_agent", packet_type: "DATA" }, 1],
        [{ packet_type: "DATA", segment: "from_agent" }, 2],
        [{ segment: "from_client", packet_type: "99" }, 3],
      ]),
    );
    assert.equal(
      text,
      "# HELP g help of g\n# TYPE g gauge\n" +
        'g{packet_type="99",segment="from_client"} 3\n' +
        'g{packet_type="DATA",segment="from_agent"} 2\n' +
        'g{packet_type="DATA",segment="to_agent"} 1\n',
    );
  });

  it("escapes what would end a help text or a label value", () => {
    const family = { ...gauge("g", [[{ path: 'a"b\\c\nd' }, 1]]), help: "one\\two\nthree" };
    assert.equal(
      familyText(family),
      '# HELP g one\\\\two\\nthree\n# TYPE g gauge\ng{path="a\\"b\\\\c\\nd"} 1\n',
    );
    assert.deepEqual(readExposition(familyText(family))[0]?.labels, { path: 'a"b\\c\nd' });
  });

  it("says of a histogram what prom-client says", async () => {
    const bounds = [0.005, 0.5, 12.5];
    const observations = [0.001, 0.005, 0.1, 0.5, 0.500001, 12.5, 13, 1e6];
    const theirs = new Registry();
    const oracle = new PromHistogram({
      name: "h",
      help: "x",
      buckets: bounds,
      registers: [theirs],
    });
    const ours = new Histogram(bounds);
    for (const value of observations) {
      oracle.observe(value);
      ours.observe(value);
    }
    const text = familyText({
      name: "h",
      help: "x",
      type: "histogram",
      collect: () => ours.series(),
    });
    assert.deepEqual(readExposition(text), readExposition(await theirs.metrics()));
    assert.deepEqual(text.split("\n").slice(2, 6), [
      'h_bucket{le="0.005"} 2',
      'h_bucket{le="0.5"} 4',
      'h_bucket{le="12.5"} 6',
      'h_bucket{le="+Inf"} 8',
    ]);
  });

  it("says of a gauge what prom-client says, byte for byte", async () => {
    const theirs = new Registry();
    const oracle = new Gauge({ name: "g", help: "x", labelNames: ["a"], registers: [theirs] });
    oracle.set({ a: 'q"uote' }, 0.25);
    const ours = familyText({ ...gauge("g", [[{ a: 'q"uote' }, 0.25]]), help: "x" });
    assert.equal(ours, await theirs.metrics());
  });
});

describe("MetricRegistry", () => {
  it("writes families by name, and none twice", async () => {
    const registry = new MetricRegistry();
    registry.add(gauge("b", [[{}, 2]]));
    registry.add(gauge("c", [[{}, 3]]));
    registry.addSource({
      texts: () => Promise.resolve(new Map([["a", "# HELP a x\n# TYPE a gauge\na 1\n"]])),
    });
    const names = readExposition(await registry.exposition()).map(({ name }) => name);
    assert.deepEqual(names, ["a", "b", "c"]);
    assert.throws(() => {
      registry.add(gauge("b", []));
    }, /the metric b is registered already/);
  });

  it("is empty until something is in it", async () => {
    assert.equal(await new MetricRegistry().exposition(), "");
  });
});
