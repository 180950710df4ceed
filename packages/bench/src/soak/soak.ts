import { setTimeout as sleep } from "node:timers/promises";
import type { BenchHost } from "../bench-host.ts";
import { OptionsProblem } from "../options.ts";
import { freePort } from "../processes/free-port.ts";
import { formatElapsed } from "../report/format.ts";
import { withWorkshop } from "../workshop.ts";
import type { ProbedProgram } from "./probed-program.ts";
import { SoakEndpoint } from "./soak-endpoint.ts";
import { SoakLoad } from "./soak-load.ts";
import type { LoadCounts } from "./soak-load.ts";
import { parseSoakOptions } from "./soak-options.ts";
import type { SoakOptions } from "./soak-options.ts";
import { SoakSystem } from "./soak-system.ts";
import { emptyFinding, handlesFinding, heapFinding, isSame, mib } from "./verdict.ts";
import type { Finding } from "./verdict.ts";

const KILL_EVERY_MS = 30_000;
const SAMPLE_EVERY_MS = 5_000;
const PROGRESS_EVERY_MS = 1_000;

/** Before anything is compared: code is compiled and buffers are made once. */
const FIRST_LOAD_MS = 5_000;
const WARM_UP_MS = 30_000;

/** For everything to be gone when nothing happens any more: timers of closed connections last 10 s. */
const REST_MS = 20_000;

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
      const system = await SoakSystem.start(children, folder);
      try {
        return await new Soak(options, host, system).run();
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
  readonly #heaps: readonly { name: string; program: ProbedProgram; bytes: number[] }[];
  readonly #startedAtMs = performance.now();

  constructor(options: SoakOptions, host: BenchHost, system: SoakSystem) {
    this.#options = options;
    this.#host = host;
    this.#system = system;
    this.#heaps = [
      { name: "server", program: system.server, bytes: [] },
      { name: "agent", program: system.steadyAgent, bytes: [] },
    ];
  }

  async run(): Promise<readonly Finding[]> {
    const { minutes, connectionsPerSecond, seed } = this.#options;
    const { clients } = this.#system;
    const endpoint = await SoakEndpoint.start();
    const load = new SoakLoad(
      { clients, endpoint: endpoint.address, nowhere: `127.0.0.1:${await freePort()}` },
      seededFractions(seed),
      (sinceMs) => this.#system.wasKilledSince(sinceMs),
    );
    // Whatever the processes need once, they have after this.
    await load.run(connectionsPerSecond, FIRST_LOAD_MS);
    const before = await this.#restingHandles();

    const stopped = new AbortController();
    const until = { signal: stopped.signal };
    const beside = [
      this.#every(KILL_EVERY_MS, until, () => this.#system.killAgent()),
      this.#every(SAMPLE_EVERY_MS, until, () => this.#sample()),
      this.#every(PROGRESS_EVERY_MS, until, () => {
        this.#showProgress(load);
      }),
    ];
    const durationMs = minutes * 60_000 - (performance.now() - this.#startedAtMs);
    await load.run(connectionsPerSecond, durationMs);
    stopped.abort();
    await Promise.all(beside);
    const after = await this.#restingHandles(before);
    this.#host.terminal?.write(CLEAR_LINE);

    return [
      loadFinding(load.counts, performance.now() - this.#startedAtMs),
      emptyFinding("endpoint", { sockets: endpoint.openCount }),
      emptyFinding("server", await this.#leftInServer()),
      emptyFinding("agent", await this.#leftInAgent()),
      ...this.#heaps.flatMap(({ name, bytes }, index) => [
        handlesFinding(name, before[index] ?? {}, after[index] ?? {}),
        heapFinding(name, bytes),
      ]),
    ];
  }

  /** Do it again and again, one at a time, until `signal` aborts. */
  async #every(
    intervalMs: number,
    { signal }: { readonly signal: AbortSignal },
    action: () => Promise<void> | void,
  ): Promise<void> {
    for (;;) {
      await sleep(intervalMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      await action();
    }
  }

  async #sample(): Promise<void> {
    const isWarm = performance.now() - this.#startedAtMs > WARM_UP_MS;
    for (const { program, bytes } of this.#heaps) {
      const { heapUsedBytes } = await program.sample();
      if (!isWarm) bytes.length = 0;
      bytes.push(heapUsedBytes);
    }
  }

  /** The handles of each process, when they are as `expected`, or stay the same. */
  async #restingHandles(expected?: readonly Readonly<Record<string, number>>[]) {
    const deadlineMs = performance.now() + REST_MS;
    for (let last: Readonly<Record<string, number>>[] | undefined; ;) {
      await sleep(PROGRESS_EVERY_MS);
      const now: Readonly<Record<string, number>>[] = [];
      for (const { program } of this.#heaps) now.push((await program.sample()).handles);
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
        value('grpc_connections{service_method="Connect"}') - this.#system.agentCount,
    };
  }

  async #leftInAgent(): Promise<Record<string, number>> {
    const metrics = await this.#system.steadyAgent.metrics();
    return { connections: metrics.get(`${AGENT}open_endpoint_connections`) ?? 0 };
  }

  #showProgress({ counts, openCount }: SoakLoad): void {
    const { terminal } = this.#host;
    if (terminal === undefined) return;
    const heaps = this.#heaps.map(({ name, bytes }) => `${name} ${mib(bytes.at(-1) ?? 0)}`);
    const line = [
      `${formatElapsed(performance.now() - this.#startedAtMs)} of ${this.#options.minutes}:00`,
      `${counts.started} connections, ${openCount} open, ${counts.cut} cut`,
      `${sum(counts.failed)} failed`,
      ...heaps,
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

function loadFinding({ started, fine, cut, failed }: LoadCounts, durationMs: number): Finding {
  const reasons = [...failed].map(([what, count]) => `${count} x ${what}`).join("; ");
  const text = `load: ${started} connections in ${formatElapsed(durationMs)}, ${fine} fine, ${cut} cut by killed agents, ${sum(failed)} failed`;
  return { ok: failed.size === 0, text: reasons === "" ? text : `${text}: ${reasons}` };
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((total, count) => total + count, 0);
}
