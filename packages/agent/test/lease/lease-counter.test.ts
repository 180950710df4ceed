import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError, MetricRegistry, parseLabelSelector } from "@reachback/common";
import type { ApiRequest, WatchRequest } from "@reachback/common";
import { ManualClock, RecordingLogger, SeededRandom } from "@reachback/common/testing";
import { LeaseCounter } from "../../src/lease/lease-counter.ts";
import type { LeaseCounterOptions } from "../../src/lease/lease-counter.ts";
import { AgentMetrics } from "../../src/metrics.ts";

const LABELS = { "k8s-app": "konnectivity-server" };

interface OpenWatch {
  readonly request: WatchRequest;
  readonly end: (error?: Error) => Promise<void>;
}

/** An apiserver with the leases that a test gives it. */
class FakeApi {
  readonly requests: ApiRequest[] = [];
  readonly watches: OpenWatch[] = [];
  leases: object[] = [];
  failure: Error | undefined;

  request(request: ApiRequest): Promise<unknown> {
    this.requests.push(request);
    if (this.failure !== undefined) return Promise.reject(this.failure);
    return Promise.resolve({ metadata: { resourceVersion: "7" }, items: this.leases });
  }

  watch(request: WatchRequest): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    return new Promise((resolve, reject) => {
      const end = async (error?: Error) => {
        this.watches.splice(this.watches.indexOf(watch), 1);
        if (error === undefined) resolve();
        else reject(error);
        await turns();
      };
      const watch: OpenWatch = { request, end };
      this.watches.push(watch);
      request.signal.addEventListener("abort", () => void end(request.signal.reason as Error));
      request.started();
    });
  }
}

async function turns(): Promise<void> {
  await nextTurn();
  await nextTurn();
}

async function setUp(rule: LeaseCounterOptions["rule"] = "leases") {
  const clock = new ManualClock();
  const api = new FakeApi();
  const logger = new RecordingLogger();
  const counter = new LeaseCounter(
    { namespace: "ns", selector: parseLabelSelector("k8s-app=konnectivity-server"), rule },
    {
      clock,
      random: new SeededRandom(3),
      logger,
      kubernetes: api,
      metrics: new AgentMetrics(new MetricRegistry()),
    },
  );
  const changes: number[] = [];
  const start = async () => {
    counter.start(() => changes.push(counter.count(9)));
    await turns();
  };
  const lease = (name: string, spec: object = {}, labels: object = LABELS) => ({
    metadata: { name, labels },
    spec: {
      leaseDurationSeconds: 30,
      renewTime: new Date(clock.wallTimeMs()).toISOString(),
      ...spec,
    },
  });
  const advance = async (byMs: number) => {
    clock.advance(byMs);
    await turns();
  };
  const tell = (type: string, object: object) => {
    api.watches[0]!.request.event({ type, object });
  };
  await Promise.resolve();
  return { clock, api, logger, counter, changes, start, lease, advance, tell };
}

describe("servers counted by their leases", () => {
  it("are as many as leases stand, and at least one", async () => {
    const { api, counter, lease, start, clock } = await setUp();
    const past = new Date(clock.wallTimeMs() - 31_000).toISOString();
    const acquired = {
      renewTime: undefined,
      acquireTime: new Date(clock.wallTimeMs()).toISOString(),
    };
    api.leases = [
      lease("renewed"),
      lease("acquired", acquired),
      lease("ended", { renewTime: past }),
      lease("no time", { renewTime: undefined }),
      lease("no duration", { leaseDurationSeconds: undefined }),
      lease("null duration", { leaseDurationSeconds: null }),
      lease("other label", {}, { "k8s-app": "other" }),
      { metadata: {} },
    ];
    await start();
    assert.equal(counter.count(9), 2);
    assert.equal(
      api.requests[0]?.path,
      "/apis/coordination.k8s.io/v1/namespaces/ns/leases?labelSelector=k8s-app%3Dkonnectivity-server",
    );
    assert.match(api.watches[0]!.request.path, /[?&]watch=1&.*resourceVersion=7/);
    counter.stop();

    const none = await setUp();
    await none.start();
    assert.equal(none.counter.count(9), 1);
    none.counter.stop();
    assert.equal(none.clock.pendingTimers, 0);
  });

  it("are what servers say until leases are known, and the larger number if asked for", async () => {
    const { api, counter, lease, start } = await setUp("max");
    assert.equal(counter.count(3), 3);
    api.leases = [lease("a"), lease("b")];
    await start();
    assert.equal(counter.count(3), 3);
    assert.equal(counter.count(1), 2);
    counter.stop();
  });

  it("follow the watch: leases that come, change their labels or go", async () => {
    const { api, counter, changes, lease, start, tell } = await setUp();
    api.leases = [lease("a")];
    await start();
    tell("ADDED", lease("b"));
    tell("ADDED", lease("c"));
    tell("MODIFIED", lease("c", {}, {}));
    tell("DELETED", lease("b"));
    tell("BOOKMARK", { metadata: { resourceVersion: "12" } });
    assert.deepEqual(changes, [1, 2, 3, 2, 1]);
    counter.stop();
  });

  it("are listed again when a lease seems to have ended, because the watch may be dead", async () => {
    const { api, counter, lease, start, advance } = await setUp();
    api.leases = [lease("a"), lease("b")];
    await start();
    await advance(20_000);
    api.leases = [lease("a"), lease("b")];
    await advance(10_000);
    assert.equal(api.requests.length, 1);
    assert.equal(counter.count(9), 2);
    await advance(3_000);
    await advance(0);
    assert.equal(api.requests.length, 2, "both had been renewed, unheard of");
    assert.equal(counter.count(9), 2);

    await advance(30_000);
    await advance(0);
    assert.equal(api.requests.length, 3);
    assert.equal(counter.count(9), 1, "nobody renewed them");
    counter.stop();
  });

  it("stay as many while the apiserver cannot be asked, and are asked for again and again", async () => {
    const { api, counter, lease, start, advance, logger, clock } = await setUp();
    api.leases = [lease("a"), lease("b")];
    await start();
    api.failure = new ApiError("GET https://api: connection refused", 0, "Unreachable");
    await api.watches[0]!.end(new ApiError("broken", 0, "Unreachable"));
    await advance(120_000);
    assert.equal(counter.count(9), 2);
    const failures = logger.lines.filter(({ event }) => event === "lease.failed");
    assert.equal(failures[0]?.fields["error"], "GET https://api: connection refused");
    assert.equal(failures[0].fields["servers"], 2);

    api.failure = undefined;
    api.leases = ["a", "b", "c"].map((name) => lease(name, { leaseDurationSeconds: 600 }));
    await advance(60_000);
    await advance(0);
    assert.equal(counter.count(9), 3);
    counter.stop();
    await turns();
    assert.equal(clock.pendingTimers, 0);
  });

  it("are listed again soon after a watch ends, breaks off or is too old", async () => {
    const { api, counter, start, advance, logger, tell } = await setUp();
    await start();
    await api.watches[0]!.end();
    await advance(2_000);
    assert.equal(api.requests.length, 2);
    await api.watches[0]!.end(new ApiError("socket hang up", 0, "Unreachable"));
    await advance(2_000);
    assert.equal(api.requests.length, 3);
    assert.throws(() => {
      tell("ERROR", { code: 410, reason: "Expired", message: "too old resource version" });
    }, ApiError);
    assert.deepEqual(
      logger.lines.filter(({ level }) => level === "warn"),
      [],
    );
    counter.stop();
  });

  it("tell the operator what is missing when the apiserver forbids it", async () => {
    const { api, counter, start, logger } = await setUp();
    api.failure = new ApiError("GET https://api: 403 Forbidden", 403, "Forbidden");
    await start();
    const { fields } = logger.lines.find(({ event }) => event === "lease.failed")!;
    assert.equal(
      fields["hint"],
      "allow our identity by RBAC to get, list and watch leases in namespace ns",
    );
    counter.stop();
  });
});
