import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "@reachback/client";
import { Wish } from "./soak-endpoint.ts";

const BURST_EVERY_MS = 20;
const CONNECTION_TIMEOUT_MS = 30_000;
const MAX_ECHO_BYTES = 32 * 1024;

/** What a connection of the soak does, and how often of a hundred. */
const MIX = [
  ["echo", 45],
  ["hold", 10],
  ["leave while dialing", 15],
  ["leave at any moment", 15],
  ["be reset by the endpoint", 8],
  ["leave a flood unread", 3],
  ["be refused", 4],
] as const;

type Behaviour = (typeof MIX)[number][0];

/** Where connections go. */
export interface SoakRoute {
  readonly clients: readonly Client[];
  readonly endpoint: string;
  /** An address where nobody listens. */
  readonly nowhere: string;
}

export interface LoadCounts {
  started: number;
  /** Went as they should. */
  fine: number;
  /** Failed while an agent was killed, as some must. */
  cut: number;
  /** How late this process was at worst, because the machine has other work. */
  worstLateMs: number;
  /** Failed without a reason, by what happened. */
  readonly failed: Map<string, number>;
}

/** Connections at a steady rate, each of which does one thing or another. */
export class SoakLoad {
  readonly counts: LoadCounts = {
    started: 0,
    fine: 0,
    cut: 0,
    worstLateMs: 0,
    failed: new Map(),
  };
  readonly #route: SoakRoute;
  /** Numbers in [0, 1). */
  readonly #random: () => number;
  /** Whether something was broken on purpose since then. */
  readonly #isExcused: (sinceMs: number) => boolean;
  readonly #open = new Set<Promise<void>>();

  constructor(route: SoakRoute, random: () => number, isExcused: (sinceMs: number) => boolean) {
    this.#route = route;
    this.#random = random;
    this.#isExcused = isExcused;
  }

  get openCount(): number {
    return this.#open.size;
  }

  /** Start so many a second for so long; resolves when the last one is over. */
  async run(perSecond: number, durationMs: number): Promise<void> {
    const beganAtMs = performance.now();
    let due = 0;
    for (let passedMs = 0; passedMs < durationMs; passedMs = performance.now() - beganAtMs) {
      const wanted = Math.floor((passedMs / 1_000) * perSecond);
      for (; due < wanted; due++) this.#start();
      const sleepsAtMs = performance.now();
      await sleep(BURST_EVERY_MS);
      const lateMs = performance.now() - sleepsAtMs - BURST_EVERY_MS;
      this.counts.worstLateMs = Math.max(this.counts.worstLateMs, lateMs);
    }
    while (this.#open.size > 0) await Promise.all(this.#open);
  }

  #start(): void {
    const behaviour = this.#behaviour();
    const startedAtMs = performance.now();
    this.counts.started++;
    const task = this.#connect(behaviour)
      .then(() => {
        this.counts.fine++;
      })
      .catch((error: unknown) => {
        if (this.#isExcused(startedAtMs)) {
          this.counts.cut++;
          return;
        }
        const what = `${behaviour}: ${error instanceof Error ? error.message : String(error)}`;
        this.counts.failed.set(what, (this.counts.failed.get(what) ?? 0) + 1);
      });
    this.#open.add(task);
    void task.finally(() => this.#open.delete(task));
  }

  #behaviour(): Behaviour {
    let left = this.#random() * 100;
    for (const [behaviour, share] of MIX) {
      left -= share;
      if (left < 0) return behaviour;
    }
    return "echo";
  }

  #below(bound: number): number {
    return Math.floor(this.#random() * bound);
  }

  /** @throws if it does not go as it should. */
  async #connect(behaviour: Behaviour): Promise<void> {
    const { clients, endpoint, nowhere } = this.#route;
    const client = clients[this.#below(clients.length)];
    if (client === undefined) throw new Error("no client");
    switch (behaviour) {
      case "leave while dialing":
        await leaveWhileDialing(client, endpoint, this.#below(6));
        return;
      case "be refused":
        await expectRefusal(client, nowhere);
        return;
      case "echo":
        await this.#echo(await client.dial(endpoint), 1, 0);
        return;
      case "hold":
        await this.#echo(await client.dial(endpoint), 4, this.#below(1_000));
        return;
      case "leave at any moment":
        await this.#leave(await client.dial(endpoint), Wish.echo, 50);
        return;
      case "leave a flood unread":
        await this.#leave(await client.dial(endpoint), Wish.flood, 500);
        return;
      case "be reset by the endpoint":
        await beReset(await client.dial(endpoint));
    }
  }

  /** Say something and hear it again, so many times; then finish. */
  async #echo(stream: Duplex, times: number, pauseMs: number): Promise<void> {
    const closed = whenClosed(stream);
    let said = Buffer.alloc(0);
    let heard: Buffer[] = [];
    let heardBytes = 0;
    let onWhole: (() => void) | undefined;
    stream.on("data", (piece: Buffer) => {
      heard.push(piece);
      heardBytes += piece.length;
      if (heardBytes >= said.length) onWhole?.();
    });
    for (let round = 0; round < times; round++) {
      if (round > 0) await sleep(pauseMs);
      said = Buffer.alloc(1 + this.#below(MAX_ECHO_BYTES), 1 + this.#below(255));
      said[0] = Wish.echo;
      heard = [];
      heardBytes = 0;
      const whole = new Promise<void>((resolve) => {
        onWhole = resolve;
      });
      stream.write(said);
      await Promise.race([whole, closed]);
      if (!Buffer.concat(heard).equals(said)) throw new Error("lost or wrong bytes");
    }
    stream.end();
    await closed;
  }

  async #leave(stream: Duplex, wish: number, withinMs: number): Promise<void> {
    const closed = whenClosed(stream).catch(() => undefined);
    stream.write(Buffer.alloc(1 + this.#below(MAX_ECHO_BYTES), wish));
    await sleep(this.#below(withinMs));
    stream.destroy();
    await closed;
  }
}

async function leaveWhileDialing(client: Client, endpoint: string, afterMs: number): Promise<void> {
  const controller = new AbortController();
  const timer = setTimeout(() => {
    controller.abort(new Error("left"));
  }, afterMs);
  try {
    const stream = await client.dial(endpoint, { signal: controller.signal });
    stream.on("error", () => undefined);
    stream.destroy();
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    clearTimeout(timer);
  }
}

async function expectRefusal(client: Client, nowhere: string): Promise<void> {
  let stream: Duplex;
  try {
    stream = await client.dial(nowhere);
  } catch (error) {
    if (error instanceof Error && error.message.includes("connection refused")) return;
    throw error;
  }
  stream.destroy();
  throw new Error("nobody listens there, and yet it was open");
}

async function beReset(stream: Duplex): Promise<void> {
  let received = 0;
  stream.on("data", (piece: Buffer) => {
    received += piece.length;
  });
  const closed = whenClosed(stream);
  stream.write(Buffer.of(Wish.reset));
  await closed.catch(() => undefined);
  if (received > 0) throw new Error("bytes of nobody");
}

/** @throws if it ends with an error, or not in time. */
function whenClosed(stream: Duplex): Promise<void> {
  const closed = new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      stream.destroy(new Error(`still open after ${CONNECTION_TIMEOUT_MS / 1_000} s`));
    }, CONNECTION_TIMEOUT_MS);
    let failure: Error | undefined;
    stream.on("error", (error) => {
      failure = error;
    });
    stream.once("close", () => {
      clearTimeout(timer);
      if (failure === undefined) resolve();
      else reject(failure);
    });
  });
  // Perhaps nobody waits for it any more.
  closed.catch(() => undefined);
  return closed;
}
