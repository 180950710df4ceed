import { setImmediate as nextTurn } from "node:timers/promises";
import { OK_STATUS } from "@reachback/common";
import { ManualClock, RecordingLogger, SeededRandom } from "@reachback/common/testing";
import type { AddressSource } from "../../src/servers/address-source.ts";
import type { ServerAddress } from "../../src/servers/server-address.ts";
import type { ServerCountSource } from "../../src/servers/server-count.ts";
import { ServerSet } from "../../src/servers/server-set.ts";
import { FakeServers } from "./fake-servers.ts";

export const PACE = { syncIntervalMs: 1_000, syncIntervalCapMs: 10_000 };

export const SEED = 7;

/** Addresses that a test changes. */
export class FakeAddresses implements AddressSource {
  readonly isShared: boolean;
  current: readonly ServerAddress[];
  suspicions = 0;
  isStopped = false;
  #onChange: () => void = () => undefined;

  constructor(hosts: readonly string[], isShared: boolean) {
    this.current = hosts.map(addressOf);
    this.isShared = isShared;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
  }

  change(hosts: readonly string[]): void {
    this.current = hosts.map(addressOf);
    this.#onChange();
  }

  suspect(): void {
    this.suspicions++;
  }

  stop(): void {
    this.isStopped = true;
  }
}

function addressOf(host: string): ServerAddress {
  return { host, port: 8091, name: host };
}

/** A count that a test sets, e.g. as leases would. */
export class FakeCount implements ServerCountSource {
  isStopped = false;
  #value: number | undefined;
  #onChange: () => void = () => undefined;

  count(announced: number): number {
    return this.#value ?? announced;
  }

  start(onChange: () => void): void {
    this.#onChange = onChange;
  }

  set(value: number): void {
    this.#value = value;
    this.#onChange();
  }

  stop(): void {
    this.isStopped = true;
  }
}

export interface SetupOptions {
  /** Each is a server; without any, all servers are behind one. */
  readonly hosts?: readonly string[];
  readonly seed?: number;
}

export function setup({ hosts, seed = SEED }: SetupOptions = {}) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const servers = new FakeServers(clock);
  const addresses = new FakeAddresses(hosts ?? ["balancer"], hosts === undefined);
  const count = new FakeCount();
  const outcomes: string[] = [];
  let changes = 0;
  const set = new ServerSet(
    PACE,
    servers,
    { addresses, count },
    {
      clock,
      logger,
      random: new SeededRandom(seed),
      metrics: { tunnelAttempted: (outcome) => outcomes.push(outcome) },
    },
    () => {
      changes++;
    },
  );
  /** Let `ms` pass, in which promises settle too. */
  const pass = async (ms: number, stepMs = 20) => {
    for (let passed = 0; passed < ms;) {
      await nextTurn();
      const step = Math.min(ms - passed, stepMs);
      clock.advance(step);
      passed += step;
    }
    await nextTurn();
  };
  const lose = (index: number, status = OK_STATUS) => {
    servers.opened[index]!.events.closed(status);
    servers.opened[index]!.events.gone();
  };
  const logged = (event: string) => logger.lines.filter((line) => line.event === event);
  return {
    clock,
    logger,
    logged,
    servers,
    addresses,
    count,
    set,
    pass,
    lose,
    outcomes,
    changes: () => changes,
  };
}
