import { setTimeout as sleep } from "node:timers/promises";
import type { BenchHost } from "../bench-host.ts";
import { OptionsProblem } from "../options.ts";
import { freePort } from "../processes/free-port.ts";
import { formatElapsed } from "../report/format.ts";
import { withWorkshop } from "../workshop.ts";
import type { Handles } from "./handles.ts";
import { SoakEndpoint } from "./soak-endpoint.ts";
import { SoakLoad } from "./soak-load.ts";
import type { LoadCounts } from "./soak-load.ts";
import { parseSoakOptions } from "./soak-options.ts";
import type { SoakOptions } from "./soak-options.ts";
import { SoakSubject, insideHere } from "./soak-subject.ts";
import { SoakSystem } from "./soak-system.ts";
import { emptyFinding, handlesFinding, isSame, mib } from "./verdict.ts";
import type { Finding } from "./verdict.ts";

/**
 * A round is load, then rest until nothing is open any more: what a heap holds while connections are
 * open depends on how many those are, which depends on how busy the machine is. A rest takes some 4 s,
 * so a long run has longer rounds, and thirty of them at most.
 */
const MIN_LOAD_MS = 15_000;
const MAX_ROUNDS = 30;

/** An agent is killed after so much load, and then as often: neither as it begins nor as it ends. */
const FIRST_KILL_MS = 22_500;
const KILL_EVERY_MS = 30_000;

/** Rounds before heaps are compared: whatever happens in a round has happened. */
const WARM_UP_ROUNDS = 2;

/** Three samples of the heap in each half, even if rounds take longer than they should. */
const MIN_ROUNDS = WARM_UP_ROUNDS + 6;

/** Before handles are counted for the first time: what is made once is there. */
const FIRST_LOAD_MS = 5_000;

/** For everything to be gone when nothing happens any more: a close may wait for its peer for 10 s. */
const MAX_REST_MS = 20_000;
const REST_POLL_MS = 500;

const PROGRESS_EVERY_MS = 1_000;

const CLEAR_LINE = "\r\x1b[K";

const SERVER = "konnectivity_network_proxy_server_";
const AGENT = "konnectivity_network_proxy_agent_";

/** Run the soak with the host's arguments; returns the exit code: 1 if something was left behind. */
export async function runSoak(host: BenchHost): Promise<number> {
  try {
    const options = await parseSoakOptions(host.argv);
    if (typeof options === "string") {
      host.stdout(`${options}\n`);
      return 0;
    }
    const findings = await withWorkshop(host, async ({ children, folder }) => {
      const system = await SoakSystem.start(children, folder, options.workers);
      try {
        return await new Soak(options, host, system, folder).run();
      } finally {
        for (const client of system.clients) client.close();
      }
    });
    for (const { ok, text } of findings) host.stdout(`${ok ? "ok  " : "FAIL"} ${text}\n`);
    return findings.every(({ ok }) => ok) ? 0 : 1;
  } catch (error) {
    host.stderr(`Error: ${error instanceof Error ? error.message : String(error)}\n`);
    if (error instanceof OptionsProblem) host.stderr('Run "npm run soak -- --help" for usage.\n');
    return 1;
  }
}

/** One run, from a system that has just started to what is left in it. */
class Soak {
  readonly #options: SoakOptions;
  readonly #host: BenchHost;
  readonly #system: SoakSystem;
  readonly #subjects: readonly SoakSubject[];
  readonly #startedAtMs = performance.now();

  /** @param folder - For snapshots of heaps. */
  constructor(options: SoakOptions, host: BenchHost, system: SoakSystem, folder: string) {
    this.#options = options;
    this.#host = host;
    this.#system = system;
    this.#subjects = [
      new SoakSubject("server", system.server, folder),
      ...system.workers.map(
        (worker, index) => new SoakSubject(`worker ${index + 1}`, worker, folder),
      ),
      new SoakSubject("agent", system.steadyAgent, folder),
      // The clients are to leave nothing either.
      new SoakSubject("clients", insideHere, folder),
    ];
  }

  async run(): Promise<readonly Finding[]> {
    const { clients } = this.#system;
    const endpoint = await SoakEndpoint.start();
    const load = new SoakLoad(
      { clients, endpoint: endpoint.address, nowhere: `127.0.0.1:${await freePort()}` },
      seededFractions(this.#options.seed),
      (sinceMs) => this.#system.wasKilledSince(sinceMs),
    );
    const progress = setInterval(() => {
      this.#showProgress(load);
    }, PROGRESS_EVERY_MS);
    try {
      return await this.#soak(load, endpoint);
    } finally {
      clearInterval(progress);
      this.#host.terminal?.write(CLEAR_LINE);
    }
  }

  async #soak(load: SoakLoad, endpoint: SoakEndpoint): Promise<readonly Finding[]> {
    const { minutes, connectionsPerSecond } = this.#options;
    await load.run(connectionsPerSecond, FIRST_LOAD_MS);
    const before = await this.#rest();
    let after = before;
    const durationMs = minutes * 60_000;
    const endMs = this.#startedAtMs + durationMs;
    const loadMs = Math.max(MIN_LOAD_MS, durationMs / MAX_ROUNDS);
    let nextKillMs = FIRST_KILL_MS;
    for (let round = 1; round <= MIN_ROUNDS || performance.now() < endMs; round++) {
      const tasks = [load.run(connectionsPerSecond, loadMs)];
      for (; nextKillMs < loadMs; nextKillMs += KILL_EVERY_MS) {
        tasks.push(this.#killLater(nextKillMs));
      }
      nextKillMs -= loadMs;
      await Promise.all(tasks);
      after = await this.#rest(before);
      if (round <= WARM_UP_ROUNDS) continue;
      for (const subject of this.#subjects) await subject.sampleHeap(load.counts.started);
    }
    return [
      loadFinding(load.counts, performance.now() - this.#startedAtMs),
      emptyFinding("endpoint", { sockets: endpoint.openCount }),
      emptyFinding("server", await this.#leftInServer()),
      emptyFinding("agent", await this.#leftInAgent()),
      ...this.#subjects.map(({ name }, index) =>
        handlesFinding(name, before[index] ?? {}, after[index] ?? {}),
      ),
      ...(await Promise.all(this.#subjects.map((subject) => subject.heapFinding()))),
    ];
  }

  async #killLater(afterMs: number): Promise<void> {
    await sleep(afterMs);
    await this.#system.killAgent();
  }

  /**
   * Wait until the handles of each process are as `expected`, or else stay the same, and return them;
   * as they are then, if that takes too long.
   */
  async #rest(expected?: readonly Handles[]): Promise<readonly Handles[]> {
    const deadlineMs = performance.now() + MAX_REST_MS;
    for (let last: readonly Handles[] | undefined; ;) {
      await sleep(REST_POLL_MS);
      const now: Handles[] = [];
      for (const subject of this.#subjects) now.push(await subject.handles());
      const wanted = expected ?? last;
      const isResting = wanted?.every((handles, index) => isSame(handles, now[index] ?? {}));
      if (isResting === true || performance.now() > deadlineMs) return now;
      last = now;
    }
  }

  async #leftInServer(): Promise<Record<string, number>> {
    const metrics = await this.#system.server.metrics();
    const value = (name: string) => metrics.get(`${SERVER}${name}`) ?? 0;
    return {
      "pending dials": value("pending_backend_dials"),
      connections: value("established_connections"),
      "gRPC streams": value('grpc_connections{service_method="Proxy"}'),
      "CONNECT requests": value("http_connections"),
      "full queues": value('full_receive_channels{service_method="Connect"}'),
      "tunnels too many":
        value('grpc_connections{service_method="Connect"}') -
        this.#system.agentCount * this.#options.workers,
    };
  }

  async #leftInAgent(): Promise<Record<string, number>> {
    const metrics = await this.#system.steadyAgent.metrics();
    return { connections: metrics.get(`${AGENT}open_endpoint_connections`) ?? 0 };
  }

  #showProgress({ counts, openCount }: SoakLoad): void {
    const { terminal } = this.#host;
    if (terminal === undefined) return;
    const heaps = this.#subjects.flatMap(({ name, heapBytes }) =>
      heapBytes === undefined ? [] : [`${name} ${mib(heapBytes)}`],
    );
    const line = [
      `${formatElapsed(performance.now() - this.#startedAtMs)} of ${this.#options.minutes}:00`,
      `${counts.started} connections, ${openCount} open, ${counts.cut} cut`,
      `${sum(counts.failed)} failed`,
      ...(heaps.length === 0 ? ["warming up"] : heaps),
      ...(this.#system.isReplacing ? ["replacing an agent"] : []),
    ].join(" · ");
    terminal.write(CLEAR_LINE + line.slice(0, terminal.columns - 1));
  }
}

/** Repeatable numbers in [0, 1) (mulberry32). */
function seededFractions(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

function loadFinding(counts: LoadCounts, durationMs: number): Finding {
  const { started, fine, cut, worstLateMs, failed } = counts;
  const reasons = [...failed].map(([what, count]) => `${count} x ${what}`).join("; ");
  const text =
    `load: ${started} connections in ${formatElapsed(durationMs)}, ${fine} fine, ` +
    `${cut} cut by killed agents, ${sum(failed)} failed${reasons === "" ? "" : `: ${reasons}`}; ` +
    `timers up to ${Math.round(worstLateMs)} ms late`;
  return { ok: failed.size === 0, text };
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}
