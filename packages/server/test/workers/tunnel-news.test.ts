import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseAgentIdentifiers } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import { TunnelNews } from "../../src/workers/tunnel-news.ts";

describe("what a worker tells the others of its tunnels", () => {
  function setup() {
    const clock = new ManualClock();
    const told: string[] = [];
    const news = new TunnelNews(clock, (change) => {
      const agent = change.type === "opened" ? ` of ${change.agentId}` : "";
      told.push(`${change.type} ${change.tunnel}${agent}`);
    });
    const tunnelOf = (agentId: string) => {
      const backend = { agentId, identifiers: parseAgentIdentifiers("") };
      news.backendAdded(backend);
      return backend;
    };
    return { clock, told, news, tunnelOf };
  }

  it("is the first tunnel of each agent at once, and nothing of duplicates that end soon", () => {
    const { clock, told, news, tunnelOf } = setup();
    const first = tunnelOf("a");
    tunnelOf("b");
    news.backendRetired(tunnelOf("a"));
    clock.advance(10_000);
    assert.deepEqual(told, ["opened 1 of a", "opened 2 of b"]);
    news.backendRetired(first);
    assert.deepEqual(told.slice(2), ["retired 1"]);
    tunnelOf("a");
    assert.deepEqual(told.slice(3), ["opened 3 of a"]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("is a further tunnel that lasts", () => {
    const { clock, told, news, tunnelOf } = setup();
    tunnelOf("a");
    const second = tunnelOf("a");
    clock.advance(2_000);
    assert.deepEqual(told, ["opened 1 of a", "opened 2 of a"]);
    news.backendDraining(second);
    news.backendRetired(second);
    assert.deepEqual(told.slice(2), ["draining 2", "retired 2"]);
  });

  it("is a further tunnel before the first one drains or goes", () => {
    const { clock, told, news, tunnelOf } = setup();
    const first = tunnelOf("a");
    tunnelOf("a");
    news.backendDraining(first);
    assert.deepEqual(told, ["opened 1 of a", "opened 2 of a", "draining 1"]);
    const other = tunnelOf("b");
    tunnelOf("b");
    news.backendRetired(other);
    assert.deepEqual(told.slice(3), ["opened 3 of b", "opened 4 of b", "retired 3"]);
    assert.equal(clock.pendingTimers, 0);
  });
});
