import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { GrpcCode, MetricRegistry, OK_STATUS } from "@reachback/common";
import { ManualClock, RecordingLogger, SeededRandom } from "@reachback/common/testing";
import { ENDPOINT_SOCKET } from "../../src/limits.ts";
import { AgentMetrics } from "../../src/metrics.ts";
import { ServerSet } from "../../src/tunnel/server-set.ts";
import type { ServerSetOptions, TunnelOpener } from "../../src/tunnel/server-set.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import type { OpenTunnel, TunnelEvents } from "../../src/tunnel/tunnel-connector.ts";
import { FakeCarrier } from "./fake-carrier.ts";
import { TEST_FLOW } from "./test-flow.ts";

const OPTIONS: ServerSetOptions = {
  syncIntervalMs: 1_000,
  syncIntervalCapMs: 10_000,
  syncForever: false,
};

const SEED = 7;

/** What answers an attempt: a server's identity, a failure, or nothing for now. */
type Answer = { readonly id: string; readonly count: number } | Error | "silence";

/** Servers that answer as a test says. */
class FakeServers implements TunnelOpener {
  readonly address = "servers:8091";
  answer: Answer = new Error("refused");
  /** When each attempt began. */
  readonly attemptedAtMs: number[] = [];
  readonly opened: (OpenTunnel & {
    events: TunnelEvents;
    carrier: FakeCarrier;
    isEnded: boolean;
  })[] = [];
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  connect(accepted: (open: OpenTunnel) => TunnelEvents, signal: AbortSignal): Promise<void> {
    this.attemptedAtMs.push(this.#clock.now());
    const { answer } = this;
    if (answer instanceof Error) return Promise.reject(answer);
    if (answer === "silence") {
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          reject(signal.reason as Error);
        });
      });
    }
    const carrier = new FakeCarrier();
    const tunnel = this.#newTunnel();
    tunnel.attach(carrier);
    let isEnded = false;
    const open: OpenTunnel = {
      tunnel,
      serverId: answer.id,
      serverCount: answer.count,
      end: () => {
        isEnded = true;
        tunnel.end();
      },
    };
    const events = accepted(open);
    this.opened.push({
      ...open,
      events,
      carrier,
      get isEnded() {
        return isEnded;
      },
    });
    return Promise.resolve();
  }

  #newTunnel(): Tunnel {
    return new Tunnel(
      {
        tunnelOpened: () => undefined,
        tunnelClosed: () => undefined,
        connectionGone: () => undefined,
      },
      {
        clock: this.#clock,
        metrics: new AgentMetrics(new MetricRegistry()),
        logger: new RecordingLogger(),
        dialer: { dial: () => Promise.reject(new Error("nothing to dial")) },
        socketLimits: ENDPOINT_SOCKET,
        flow: TEST_FLOW,
        halfCloseTimeoutMs: 10_000,
      },
    );
  }
}

function setup(options: Partial<ServerSetOptions> = {}) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const servers = new FakeServers(clock);
  let changes = 0;
  const set = new ServerSet(
    { ...OPTIONS, ...options },
    servers,
    { clock, logger, random: new SeededRandom(SEED) },
    () => {
      changes++;
    },
  );
  /** Let `ms` pass, in which promises settle too. */
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms;) {
      await nextTurn();
      const step = Math.min(ms - passed, 5);
      clock.advance(step);
      passed += step;
    }
    await nextTurn();
  };
  const lose = (index: number, status = OK_STATUS) => {
    servers.opened[index]!.events.closed(status);
    servers.opened[index]!.events.gone();
  };
  return { clock, logger, servers, set, pass, lose, changes: () => changes };
}

describe("ServerSet", () => {
  it("waits longer after each failure, up to the cap, each time up to a tenth more", async () => {
    const { clock, servers, set } = setup();
    const random = new SeededRandom(SEED);
    set.start();
    await nextTurn();
    const bases = [1_000, 1_500, 2_250, 3_375, 5_062.5, 7_593.75, 10_000, 10_000, 10_000];
    for (const [index, baseMs] of bases.entries()) {
      const waitMs = baseMs * (1 + 0.1 * random.fraction());
      assert.ok(waitMs >= baseMs && waitMs < baseMs * 1.1);
      clock.advance(waitMs - 0.001);
      await nextTurn();
      assert.equal(servers.attemptedAtMs.length, index + 1, `too early after ${baseMs}`);
      clock.advance(0.002);
      await nextTurn();
      assert.equal(servers.attemptedAtMs.length, index + 2, `too late after ${baseMs}`);
    }
    set.stop();
    assert.equal(clock.pendingTimers, 0);
  });

  it("starts over with short waits once a server has answered, a known one included", async () => {
    const { servers, set, pass } = setup();
    set.start();
    await pass(5_000);
    servers.answer = { id: "a", count: 2 };
    await pass(5_000);
    const before = servers.attemptedAtMs.length;
    servers.answer = new Error("refused");
    await pass(1_100);
    assert.equal(servers.attemptedAtMs.length, before + 1);
    await pass(1_100);
    assert.equal(servers.attemptedAtMs.length, before + 2);
  });

  it("stops looking when it has as many tunnels as servers were announced", async () => {
    const { servers, set, pass } = setup();
    servers.answer = { id: "a", count: 2 };
    set.start();
    await pass(0);
    servers.answer = { id: "b", count: 2 };
    await pass(1_100);
    await pass(60_000);
    assert.equal(servers.attemptedAtMs.length, 2);
    assert.equal(set.tunnelCount, 2);
    assert.equal(set.serverCount, 2);
  });

  it("leaves a server at once that it has a tunnel to, and learns from it", async () => {
    const { servers, set, pass, logger } = setup();
    servers.answer = { id: "a", count: 3 };
    set.start();
    await pass(1_100);
    assert.deepEqual(
      servers.opened.map(({ isEnded }) => isEnded),
      [false, true],
    );
    assert.equal(set.tunnelCount, 1);
    assert.equal(logger.lines.filter(({ event }) => event === "tunnel.duplicate").length, 1);
    servers.answer = { id: "a", count: 1 };
    await pass(1_100);
    assert.equal(set.serverCount, 1);
    await pass(10_000);
    assert.equal(servers.attemptedAtMs.length, 3);
    assert.equal(logger.lines.filter(({ event }) => event === "tunnel.lost").length, 0);
  });

  it("never touches the tunnel it has when it leaves a duplicate", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answer = { id: "a", count: 2 };
    set.start();
    await pass(1_100);
    lose(1);
    assert.equal(set.tunnelCount, 1);
    assert.equal(servers.opened[0]?.isEnded, false);
  });

  it("goes on looking where that is wanted", async () => {
    const { servers, set, pass } = setup({ syncForever: true });
    servers.answer = { id: "a", count: 1 };
    set.start();
    await pass(10_000);
    assert.ok(servers.attemptedAtMs.length >= 10);
    servers.answer = { id: "b", count: 2 };
    await pass(1_100);
    assert.equal(set.tunnelCount, 2);
  });

  it("replaces a lost tunnel within 1.1 intervals", async () => {
    const { servers, set, pass, lose, logger } = setup();
    servers.answer = { id: "a", count: 1 };
    set.start();
    await pass(5_000);
    lose(0, { code: GrpcCode.UNAVAILABLE, message: "gone" });
    assert.equal(set.tunnelCount, 0);
    assert.equal(set.isEmpty, true);
    await pass(1_100);
    assert.equal(set.tunnelCount, 1);
    const lost = logger.lines.filter(({ event }) => event === "tunnel.lost");
    assert.deepEqual(lost[0]?.fields, { serverId: "a", code: "Unavailable", error: "gone" });
  });

  it("replaces the tunnel to a server that takes its leave, and keeps the old one up", async () => {
    const { servers, set, pass, lose } = setup();
    servers.answer = { id: "a", count: 1 };
    set.start();
    await pass(100);
    servers.opened[0]!.events.serverLeaving();
    assert.equal(set.tunnelCount, 1);
    await pass(1_100);
    assert.equal(set.tunnelCount, 2);
    assert.equal(servers.opened[0]?.isEnded, false);
    lose(0);
    assert.equal(set.tunnelCount, 1);
    await pass(5_000);
    assert.equal(servers.attemptedAtMs.length, 2);
  });

  it("makes no attempt while it drains, and gives up the one under way", async () => {
    const { clock, servers, set, pass, lose, logger } = setup();
    servers.answer = { id: "a", count: 2 };
    set.start();
    await pass(0);
    servers.answer = "silence";
    await pass(1_100);
    assert.equal(servers.attemptedAtMs.length, 2);
    set.drain();
    set.drain();
    lose(0);
    await pass(60_000);
    assert.equal(servers.attemptedAtMs.length, 2);
    assert.deepEqual(servers.opened[0]?.carrier.sent, ["DRAIN"]);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(logger.lines.filter(({ event }) => event === "tunnel.refused").length, 0);
  });

  it("makes no attempt that was due when it drains", async () => {
    const { clock, servers, set, pass } = setup();
    set.start();
    await pass(0);
    set.drain();
    await pass(60_000);
    assert.equal(servers.attemptedAtMs.length, 1);
    assert.equal(clock.pendingTimers, 0);
  });

  it("ends every tunnel when it stops, and is empty once they are gone", async () => {
    const { clock, servers, set, pass, lose, logger, changes } = setup();
    servers.answer = { id: "a", count: 2 };
    set.start();
    await pass(0);
    servers.answer = { id: "b", count: 2 };
    await pass(1_100);
    set.stop();
    assert.deepEqual(
      servers.opened.map(({ carrier }) => carrier.isEnded),
      [true, true],
    );
    assert.equal(set.isEmpty, false);
    const before = changes();
    lose(0);
    lose(1);
    assert.equal(set.isEmpty, true);
    assert.ok(changes() > before);
    await pass(60_000);
    assert.equal(servers.attemptedAtMs.length, 2);
    assert.equal(clock.pendingTimers, 0);
    assert.equal(logger.lines.filter(({ event }) => event === "tunnel.lost").length, 0);
  });
});
