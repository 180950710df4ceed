import assert from "node:assert/strict";
import { isIPv4, isIPv6 } from "node:net";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ManualClock, RecordingLogger, SeededRandom } from "@reachback/common/testing";
import type { AllAddresses } from "../../src/lookup/dns-host-lookup.ts";
import { DnsAddresses } from "../../src/servers/dns-addresses.ts";

const INTERVAL_MS = 3_000;

type Answer = readonly string[] | AllAddresses | Error | "silence";

function setup(hosts: readonly string[] = ["servers"]) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const asked: { name: string; atMs: number }[] = [];
  const answers: Record<string, Answer> = {};
  const addresses = new DnsAddresses(
    hosts.map((host) => ({ host, port: 1, name: host })),
    INTERVAL_MS,
    {
      clock,
      logger,
      random: new SeededRandom(1),
      lookup: {
        lookupAll: async (name, signal) => {
          asked.push({ name, atMs: clock.now() });
          const answer = answers[name] ?? [];
          if (answer instanceof Error) throw answer;
          if (answer === "silence") {
            return new Promise((_, reject) => {
              signal.addEventListener("abort", () => {
                reject(signal.reason as Error);
              });
            });
          }
          return "v4" in answer ? answer : { v4: answer.filter(isIPv4), v6: answer.filter(isIPv6) };
        },
      },
    },
  );
  let changes = 0;
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 100) {
      clock.advance(100);
      await nextTurn();
    }
  };
  return {
    addresses,
    answers,
    asked,
    clock,
    logger,
    pass,
    changes: () => changes,
    start: async () => {
      addresses.start(() => {
        changes++;
      });
      await nextTurn();
    },
    current: () => addresses.current.map(({ host, name }) => `${host} ${name}`),
  };
}

describe("the addresses of servers in DNS", () => {
  it("are all that a name has, looked up again in every interval", async () => {
    const { answers, start, pass, current, changes, asked } = setup();
    answers["servers"] = ["10.0.0.1"];
    await start();
    assert.deepEqual(current(), ["10.0.0.1 servers"]);
    answers["servers"] = ["fd00::1", "10.0.0.2", "10.0.0.1"];
    await pass(INTERVAL_MS);
    assert.deepEqual(current(), ["10.0.0.1 servers", "10.0.0.2 servers", "fd00::1 servers"]);
    answers["servers"] = ["10.0.0.2"];
    await pass(INTERVAL_MS);
    assert.deepEqual(current(), ["10.0.0.2 servers"]);
    assert.equal(changes(), 3);
    await pass(30_000);
    assert.ok(asked.length >= 12 && asked.length <= 15, String(asked.length));
    assert.equal(changes(), 3);
  });

  it("do not change with the order of an answer", async () => {
    const { answers, start, pass, changes } = setup();
    answers["servers"] = ["10.0.0.1", "10.0.0.2"];
    await start();
    answers["servers"] = ["10.0.0.2", "10.0.0.1"];
    await pass(INTERVAL_MS);
    assert.equal(changes(), 1);
  });

  it("outlive answers that say nothing, and look-ups that fail or hang", async () => {
    const { answers, start, pass, current, logger, asked } = setup();
    answers["servers"] = ["10.0.0.1"];
    await start();
    for (const nothing of [new Error("no such host"), "silence"] as const) {
      answers["servers"] = nothing;
      await pass(20_000);
      assert.deepEqual(current(), ["10.0.0.1 servers"]);
    }
    const failures = logger.lines.filter(({ event }) => event === "servers.lookup_failed");
    assert.equal(failures[0]?.fields["error"], "no such host");
    assert.equal(failures.at(-1)?.fields["error"], "no answer in time");
    const before = asked.length;
    answers["servers"] = ["10.0.0.2"];
    await pass(9_000);
    assert.ok(asked.length > before);
    assert.deepEqual(current(), ["10.0.0.2 servers"]);
  });

  it("are replaced in the family that answered, and kept in the one that could not be learned", async () => {
    const { answers, start, pass, current } = setup();
    answers["servers"] = ["10.0.0.1", "fd00::1"];
    await start();
    answers["servers"] = { v4: ["10.0.0.2"], v6: undefined };
    await pass(INTERVAL_MS);
    assert.deepEqual(current(), ["10.0.0.2 servers", "fd00::1 servers"]);
    answers["servers"] = { v4: undefined, v6: ["fd00::2"] };
    await pass(INTERVAL_MS);
    assert.deepEqual(current(), ["10.0.0.2 servers", "fd00::2 servers"]);
    answers["servers"] = { v4: [], v6: ["fd00::2"] };
    await pass(INTERVAL_MS);
    assert.deepEqual(current(), ["fd00::2 servers"]);
  });

  it("follow the servers where one family has never been learned", async () => {
    const { answers, start, pass, current, changes } = setup();
    for (let generation = 1; generation <= 3; generation++) {
      answers["servers"] = { v4: [`10.0.0.${generation}`], v6: undefined };
      if (generation === 1) await start();
      else await pass(INTERVAL_MS);
      assert.deepEqual(current(), [`10.0.0.${generation} servers`]);
    }
    assert.equal(changes(), 3);
  });

  it("are looked up at once, but not more than once a second, when a server is suspect", async () => {
    const { addresses, answers, start, pass, asked } = setup();
    answers["servers"] = ["10.0.0.1"];
    await start();
    await pass(1_500);
    addresses.suspect();
    addresses.suspect();
    await pass(100);
    assert.deepEqual(asked.length, 2);
    for (let times = 0; times < 20; times++) {
      addresses.suspect();
      await pass(100);
    }
    const gapsMs = asked.slice(1).map(({ atMs }, index) => atMs - asked[index]!.atMs);
    assert.ok(gapsMs.every((gapMs) => gapMs >= 1_000));
    assert.deepEqual([3, 4].includes(asked.length), true);
  });

  it("of one name do not wait for those of another; an address stands for itself", async () => {
    const { answers, start, current } = setup(["mute", "servers", "192.0.2.1"]);
    answers["mute"] = "silence";
    answers["servers"] = ["10.0.0.1"];
    await start();
    assert.deepEqual(current(), ["10.0.0.1 servers", "192.0.2.1 192.0.2.1"]);
  });

  it("are 64 at most", async () => {
    const { answers, start, current, logger } = setup();
    answers["servers"] = Array.from({ length: 100 }, (_, index) => `10.0.0.${index}`);
    await start();
    assert.equal(current().length, 64);
    const ignored = logger.lines.find(({ event }) => event === "servers.ignored");
    assert.equal(ignored?.fields["count"], 36);
  });

  it("leave no timer and no look-up behind", async () => {
    const { addresses, answers, start, clock, pass, asked } = setup(["a", "b"]);
    answers["a"] = "silence";
    answers["b"] = ["10.0.0.1"];
    await start();
    addresses.stop();
    await nextTurn();
    assert.equal(clock.pendingTimers, 0);
    addresses.suspect();
    await pass(20_000);
    assert.equal(asked.length, 2);
  });
});
