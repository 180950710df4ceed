import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { describe, it } from "node:test";
import type { Random } from "@reachback/common";
import { systemRandom } from "@reachback/common";
import { reservePorts } from "../../src/demo/reserve-ports.ts";

/** Where a search starts, between 0 and 1. */
function startingAt(fraction: number): Random {
  return { ...systemRandom, fraction: () => fraction };
}

describe("reservePorts", () => {
  it("gives every caller other ports, all of them such as the server takes", async (t) => {
    const first = await reservePorts(5, startingAt(0.5));
    t.after(first.release);
    const second = await reservePorts(5, startingAt(0.5));
    t.after(second.release);
    const ports = [...first.ports, ...second.ports];
    assert.equal(new Set(ports).size, 10);
    for (const port of ports) assert.ok(port > 1_024 && port < 49_152);
  });

  it("keeps callers apart who want different numbers of ports", async (t) => {
    const ports: number[] = [];
    for (const count of [5, 1, 31, 2, 5, 1]) {
      const reserved = await reservePorts(count, startingAt(0.75));
      t.after(reserved.release);
      assert.equal(reserved.ports.length, count);
      ports.push(...reserved.ports);
    }
    assert.equal(new Set(ports).size, ports.length);
    await assert.rejects(reservePorts(32, systemRandom), /^RangeError: 32 ports, /);
  });

  it("passes over ports on which somebody listens", async (t) => {
    const before = await reservePorts(5, startingAt(0.25));
    before.release();
    const [, , taken = 0] = before.ports;
    const squatter = createServer().listen(taken, "127.0.0.1");
    t.after(() => squatter.close());
    await once(squatter, "listening");
    const { ports, release } = await reservePorts(5, startingAt(0.25));
    t.after(release);
    assert.ok(!ports.includes(taken));
  });

  it("starts again at the lowest ports behind the highest", async (t) => {
    const highest = await reservePorts(5, startingAt(0.999_999));
    t.after(highest.release);
    const lowest = await reservePorts(5, startingAt(0.999_999));
    t.after(lowest.release);
    assert.ok(Math.min(...lowest.ports) < Math.min(...highest.ports));
  });
});
