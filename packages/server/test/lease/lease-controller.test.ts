import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ApiError, MetricRegistry } from "@reachback/common";
import type { ApiRequest } from "@reachback/common";
import {
  ManualClock,
  RecordingLogger,
  SeededRandom,
  readExposition,
} from "@reachback/common/testing";
import { LeaseController } from "../../src/lease/lease-controller.ts";
import { ServerMetrics } from "../../src/metrics.ts";

const COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
const OWN = `${COLLECTION}/konnectivity-proxy-server-me`;

type Answer = (request: ApiRequest) => unknown;

const failed = (status: number, reason: string, request?: ApiRequest) =>
  new ApiError(`${request?.method ?? "GET"} https://api: ${status} ${reason}`, status, reason);

/** A controller in front of an apiserver that answers as a test says. */
function setUp(answer: Answer) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const registry = new MetricRegistry();
  const requests: ApiRequest[] = [];
  const controller = new LeaseController(
    { namespace: "ns", labels: { "k8s-app": "k" }, serverId: "me" },
    {
      clock,
      random: new SeededRandom(1),
      logger,
      metrics: new ServerMetrics(registry),
      kubernetes: {
        request: (request) => {
          requests.push(request);
          const result = answer(request);
          return result instanceof Error ? Promise.reject(result) : Promise.resolve(result);
        },
      },
    },
  );
  const advance = async (byMs: number) => {
    clock.advance(byMs);
    for (let turn = 0; turn < 4; turn++) await nextTurn();
  };
  const log = () => requests.map(({ method, path }) => `${method} ${path.replace(/\?.*/, "")}`);
  const writes = () => log().filter((line) => !line.startsWith("GET "));
  const failures = () => logger.lines.filter(({ event }) => event === "lease.failed");
  return { clock, logger, registry, requests, controller, advance, log, writes, failures };
}

/** Has its answers ready at once, but they arrive when a test lets them, or not at all. */
function lagging(answer: Answer) {
  const held: (() => void)[] = [];
  let isLagging = false;
  return {
    answer: (request: ApiRequest): unknown => {
      const result = answer(request);
      if (!isLagging || request.path.includes("?")) return result;
      return new Promise((resolve, reject) => {
        request.signal?.addEventListener("abort", () => {
          reject(request.signal?.reason as Error);
        });
        held.push(() => {
          if (result instanceof Error) reject(result);
          else resolve(result);
        });
      });
    },
    lag: () => {
      isLagging = true;
    },
    /** Let through what is held, and all that comes. */
    catchUp: () => {
      isLagging = false;
      for (const arrive of held.splice(0)) arrive();
    },
  };
}

/** Answers like an apiserver that has one lease at most, ours. */
function ownLease(lease?: Record<string, unknown>): Answer {
  let version = 1;
  let current = lease;
  return (request) => {
    const { method, path, body } = request;
    if (path.startsWith(`${COLLECTION}?`)) return { items: [] };
    if (method === "DELETE" && path === OWN && current !== undefined) {
      const { preconditions } = body as { preconditions: { resourceVersion: string } };
      if (preconditions.resourceVersion !== String(version))
        return failed(409, "Conflict", request);
      current = undefined;
      return {};
    }
    if (method === "POST" || method === "PUT") {
      const { metadata, ...rest } = body as { metadata: object };
      current = {
        ...rest,
        metadata: { ...metadata, uid: "u", resourceVersion: String(++version) },
      };
    } else if (current === undefined) {
      return failed(404, "NotFound", request);
    }
    return current;
  };
}

describe("a server's lease", () => {
  it("is created, renewed every 15 s and a bit, and deleted when the server stops", async () => {
    const { controller, advance, log, requests, clock } = setUp(ownLease());
    controller.start();
    await advance(0);
    assert.deepEqual(log(), [`GET ${OWN}`, `POST ${COLLECTION}`]);
    assert.deepEqual(requests[1]?.body, {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: "konnectivity-proxy-server-me",
        namespace: "ns",
        labels: { "k8s-app": "k" },
      },
      spec: {
        holderIdentity: "me",
        leaseDurationSeconds: 30,
        renewTime: "2023-11-14T22:13:20.000000Z",
      },
    });
    await advance(14_999);
    assert.equal(requests.length, 2);
    await advance(601);
    const renewals = requests.filter(({ method }) => method === "PUT");
    assert.equal(renewals.length, 1);
    const { spec } = renewals[0]?.body as { spec: { renewTime: string } };
    const renewedAtMs = Date.parse(spec.renewTime) - 1_700_000_000_000;
    assert.ok(renewedAtMs >= 15_000 && renewedAtMs <= 15_600);

    await controller.stop();
    const { method, path, body } = requests.at(-1)!;
    assert.deepEqual([method, path], ["DELETE", OWN]);
    assert.deepEqual(body, { preconditions: { uid: "u", resourceVersion: "3" } });
    assert.equal(clock.pendingTimers, 0);
  });

  it("that is there already is taken over, with what others have put into it", async () => {
    const annotated = {
      metadata: { name: "x", resourceVersion: "5", annotations: { a: "b" }, labels: { own: "1" } },
      spec: { holderIdentity: "old", leaseTransitions: 3 },
    };
    const { controller, advance, requests } = setUp(ownLease(annotated));
    controller.start();
    await advance(0);
    const { method, body } = requests.at(-1)!;
    assert.equal(method, "PUT");
    const { metadata, spec } = body as { metadata: object; spec: object };
    assert.deepEqual(metadata, {
      ...annotated.metadata,
      name: "konnectivity-proxy-server-me",
      namespace: "ns",
      labels: { own: "1", "k8s-app": "k" },
    });
    assert.equal((spec as { leaseTransitions: number }).leaseTransitions, 3);
    await controller.stop();
  });

  it("is created again if somebody deleted it, and written again if somebody else wrote it", async () => {
    const api = ownLease();
    let problem: ApiError | undefined;
    const { controller, advance, log, failures } = setUp((request) => {
      const error = request.method === "PUT" ? problem : undefined;
      if (error === undefined) return api(request);
      problem = undefined;
      return error;
    });
    controller.start();
    await advance(0);
    problem = failed(404, "NotFound");
    await advance(16_000);
    assert.deepEqual(
      log()
        .filter((line) => line.includes(OWN))
        .slice(1),
      [`PUT ${OWN}`, `GET ${OWN}`, `PUT ${OWN}`],
    );
    problem = failed(409, "Conflict");
    await advance(16_000);
    assert.deepEqual(failures(), []);
    await controller.stop();
  });

  it("is tried again soon when it cannot be written, with the reason and a remedy in the log", async () => {
    let isDown = true;
    const api = ownLease();
    const { controller, advance, failures, requests } = setUp((request) =>
      isDown ? failed(403, "Forbidden", request) : api(request),
    );
    controller.start();
    await advance(0);
    assert.equal(failures()[0]?.fields["action"], "publish");
    assert.equal(
      failures()[0]?.fields["hint"],
      "allow our identity by RBAC to get, create, update and delete leases in namespace ns",
    );
    await advance(220);
    await advance(440);
    assert.ok(failures().length >= 3);
    isDown = false;
    await advance(7_700);
    assert.ok(requests.some(({ method }) => method === "POST"));
    await controller.stop();
  });

  it("gives up on a namespace that is not there, until the next attempt", async () => {
    const { controller, advance, log, failures } = setUp((request) =>
      failed(404, "NotFound", request),
    );
    controller.start();
    await advance(0);
    assert.deepEqual(log(), [`GET ${OWN}`, `POST ${COLLECTION}`]);
    assert.match(String(failures()[0]?.fields["hint"]), /namespace exists/);
    await controller.stop();
  });

  for (const [write, startedMs] of [
    ["POST", 0],
    ["PUT", 16_000],
  ] as const) {
    it(`is deleted also if the server stops before the answer to its ${write} is there`, async () => {
      const api = ownLease();
      const slow = lagging(api);
      const { controller, advance, writes, failures, clock } = setUp(slow.answer);
      controller.start();
      if (write === "PUT") await advance(0);
      slow.lag();
      await advance(startedMs);
      assert.match(writes().at(-1)!, new RegExp(`^${write} `));
      const stopped = controller.stop();
      await advance(1_999);
      slow.catchUp();
      await stopped;
      assert.equal(writes().at(-1), `DELETE ${OWN}`);
      assert.ok(api({ method: "GET", path: OWN, timeoutMs: 0 }) instanceof ApiError, "gone");
      assert.deepEqual(failures(), []);
      assert.equal(clock.pendingTimers, 0);
    });
  }

  it("is left to end by itself if the apiserver does not answer when the server stops", async () => {
    const slow = lagging(ownLease());
    const { controller, advance, writes, failures, clock } = setUp(slow.answer);
    controller.start();
    await advance(0);
    slow.lag();
    await advance(16_000);
    const stopped = controller.stop();
    await advance(2_000);
    await stopped;
    assert.deepEqual(writes(), [`POST ${COLLECTION}`, `PUT ${OWN}`]);
    assert.equal(failures()[0]?.fields["error"], "no answer within 2 s");
    assert.equal(clock.pendingTimers, 0);
  });

  it("does not keep the server longer than two seconds when requests cannot even be given up", async () => {
    const { controller, advance, clock } = setUp(() => new Promise(() => undefined));
    controller.start();
    await advance(0);
    const stopped = controller.stop();
    await advance(2_000);
    await stopped;
    assert.equal(clock.pendingTimers, 0);
  });

  it("is not waited for if nothing of it has been written when the server stops", async () => {
    const slow = lagging(ownLease());
    slow.lag();
    const { controller, log, failures, clock } = setUp(slow.answer);
    controller.start();
    await controller.stop();
    assert.deepEqual(log(), [`GET ${OWN}`]);
    assert.deepEqual(failures(), []);
    assert.equal(clock.pendingTimers, 0);
  });
});

describe("leases that others have left behind", () => {
  it("are deleted once they have ended, if nobody has renewed them since they were listed", async () => {
    const iso = (ms: number) => new Date(1_700_000_000_000 + ms).toISOString();
    const lease = (name: string, spec: object) => ({
      metadata: { name, uid: `uid-${name}`, resourceVersion: "9" },
      spec: { leaseDurationSeconds: 30, ...spec },
    });
    const items = [
      lease("alive", { renewTime: iso(0) }),
      lease("ended", { renewTime: iso(-60_000) }),
      lease("ended-acquired", { acquireTime: iso(-60_000) }),
      lease("renewed-meanwhile", { renewTime: iso(-60_000) }),
      lease("gone-meanwhile", { renewTime: iso(-60_000) }),
      lease("endless", { renewTime: iso(-60_000), leaseDurationSeconds: undefined }),
      lease("timeless", {}),
    ];
    const own = ownLease();
    const { controller, advance, requests, registry, failures } = setUp((request) => {
      if (request.path.endsWith("renewed-meanwhile")) return failed(409, "Conflict");
      if (request.path.endsWith("gone-meanwhile")) return failed(404, "NotFound");
      return request.path.startsWith(`${COLLECTION}?`) ? { items } : own(request);
    });
    controller.start();
    await advance(16_500);
    const deletions = requests.filter(({ method }) => method === "DELETE");
    assert.deepEqual(
      deletions.map(({ path }) => path.slice(COLLECTION.length + 1)),
      ["ended", "ended-acquired", "renewed-meanwhile", "gone-meanwhile"],
    );
    assert.deepEqual(deletions[0]?.body, {
      preconditions: { uid: "uid-ended", resourceVersion: "9" },
    });
    const list = requests.find(({ path }) => path.includes("?"));
    assert.equal(list?.path, `${COLLECTION}?labelSelector=k8s-app%3Dk`);
    assert.deepEqual(failures(), []);
    const samples = readExposition(await registry.exposition());
    const sample = (name: string, labels: object) =>
      samples.find(
        (one) =>
          one.name === `konnectivity_network_proxy_server_${name}` &&
          JSON.stringify(one.labels) === JSON.stringify(labels),
      )?.value;
    assert.equal(sample("culled_leases_count", {}), 2);
    assert.equal(sample("lease_list_total", { http_status_code: "200", reason: "" }), 1);
    assert.equal(sample("lease_delete_total", { http_status_code: "200", reason: "" }), 2);
    assert.equal(sample("lease_delete_total", { http_status_code: "409", reason: "Conflict" }), 1);
    await controller.stop();
  });

  it("wait for the next time when they cannot be listed", async () => {
    const own = ownLease();
    let lists = 0;
    const { controller, advance, failures, clock } = setUp((request) => {
      if (!request.path.includes("?")) return own(request);
      lists++;
      return failed(503, "ServiceUnavailable");
    });
    controller.start();
    await advance(16_500);
    assert.equal(failures()[0]?.fields["action"], "collect");
    await advance(16_500);
    assert.equal(lists, 2);
    await controller.stop();
    assert.equal(clock.pendingTimers, 0);
  });
});
