import { Backoff, jittered } from "@reachback/common";
import type { CancelTimer, Clock, Random } from "@reachback/common";
import { MAX_FRESH_ATTEMPTS, MAX_SLOW_ATTEMPTS, SLOW_ATTEMPT_MS } from "../limits.ts";
import { HandshakeTurns } from "./handshake-turns.ts";
import type { HandshakeTurn } from "./handshake-turns.ts";

export interface AttemptPace {
  /** The pause between attempts once servers are hard to find, and the first after a failure. */
  readonly syncIntervalMs: number;
  /** The longest pause after failures. */
  readonly syncIntervalCapMs: number;
}

export interface AttemptPorts {
  readonly clock: Clock;
  readonly random: Random;
}

/** What there is to get at a place. */
export interface WantedTunnels {
  /** Servers that are to have a tunnel each; infinite where nobody knows how many there are. */
  readonly servers: number;
  /** How many of them have none; none or less where there are enough. */
  readonly missing: number;
}

/** What came of an attempt that did not fail: a tunnel, or a server that has one already. */
export type AttemptOutcome = "opened" | "duplicate";

/**
 * One try to get a tunnel. Rejects if there is none.
 *
 * @param handshakeTurn - To be called when a connection is there, and waited for before its handshake.
 */
export type Attempt = (
  signal: AbortSignal,
  handshakeTurn: () => Promise<void>,
) => Promise<AttemptOutcome>;

/** An attempt that goes on. */
interface Run {
  readonly startedAtMs: number;
  readonly abort: AbortController;
  turn: HandshakeTurn | undefined;
  /** When its handshake began: waiting for its turn is not what makes an attempt take long. */
  begunAtMs: number;
}

/** Upstream's figures: each pause is half as long again, and up to a tenth longer at random. */
const BACKOFF_FACTOR = 1.5;
const JITTER = 0.1;

/**
 * Duplicates in a row that are drawn eagerly, for each server that is wanted: behind a balancer that
 * chooses at random, the last one stays unmet once in 160,000 times.
 */
const EAGER_DUPLICATES = 12;

/** Servers, as far as eagerness goes, where nobody knows how many there are. */
const SUPPOSED_SERVERS = 5;

/** Failures in a row that count as duplicates then: of a server that is down, while others answer. */
const TOLERATED_FAILURES = 3;

/** The pause behind a duplicate then, as a part of the sync interval, at the shortest. */
const EAGER_FRACTION = 1 / 5;

/** Draws in a sync interval once there were as many duplicates in a row as there are servers. */
const EAGER_DRAWS = 30;

/**
 * Attempts at a time then: one for each server, within these limits. A server with workers gives them
 * connections in turn, so that those which arrive together meet different ones.
 */
const MIN_EAGER_ATTEMPTS = 2;
const MAX_EAGER_ATTEMPTS = 12;

/**
 * The attempts to get the tunnels that are missing at one place. With none missing there is no
 * attempt, and no timer.
 *
 * - As many attempts run at a time as tunnels are missing, but {@link MAX_FRESH_ATTEMPTS} at most.
 *   One that has been going on for {@link SLOW_ATTEMPT_MS} does not keep the next one waiting;
 *   {@link MAX_SLOW_ATTEMPTS} of these are tolerated on top. {@link HandshakeTurns} says how many of
 *   them go beyond a connection at a time.
 * - Failures are followed by growing pauses, counted from the start of what failed. A few of them
 *   among duplicates count as such: one of the servers behind the balancer is down.
 * - A duplicate is followed by a short pause, as long as the attempt took if that was longer, and then
 *   by several attempts, the more the more servers there are: behind a balancer one of them may find
 *   the server that is missing. After as many duplicates as servers they come at {@link EAGER_DRAWS}
 *   in a sync interval, after {@link EAGER_DUPLICATES} for each server in vain it is the sync
 *   interval, and one attempt.
 * - A tunnel that ends is replaced after a random part of the sync interval, so that the agents of a
 *   server that went do not all come at once; one that did not last as if it had failed.
 */
export class ConnectAttempts {
  readonly #pace: AttemptPace;
  readonly #ports: AttemptPorts;
  readonly #attempt: Attempt;
  readonly #wanted: () => WantedTunnels;
  readonly #failures: Backoff;
  /** For tunnels that end soon after they were opened. */
  readonly #shortLives: Backoff;
  readonly #running = new Set<Run>();
  readonly #handshakes: HandshakeTurns;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #failedAtMs = Number.NEGATIVE_INFINITY;
  /** When a tunnel was lost last that had not lasted. */
  #shortLifeEndedAtMs = Number.NEGATIVE_INFINITY;
  #duplicates = 0;
  #failuresInRow = 0;
  #lastMissing = 0;
  #cancelWake: CancelTimer | undefined;
  #isStopped = false;

  /** @param wanted - What is wanted now. */
  constructor(
    pace: AttemptPace,
    ports: AttemptPorts,
    attempt: Attempt,
    wanted: () => WantedTunnels,
  ) {
    this.#pace = pace;
    this.#ports = ports;
    this.#attempt = attempt;
    this.#handshakes = new HandshakeTurns(ports.clock);
    this.#wanted = wanted;
    const backoff = () =>
      new Backoff(
        {
          initialMs: pace.syncIntervalMs,
          capMs: pace.syncIntervalCapMs,
          factor: BACKOFF_FACTOR,
          jitter: JITTER,
        },
        ports.random,
      );
    this.#failures = backoff();
    this.#shortLives = backoff();
  }

  /** Start and cancel attempts as is called for now. To be called whenever `wanted` may differ. */
  reconcile(): void {
    this.#cancelWake?.();
    this.#cancelWake = undefined;
    if (this.#isStopped) return;
    const { missing } = this.#wanted();
    if (missing > this.#lastMissing) this.#duplicates = 0;
    this.#lastMissing = missing;
    if (missing <= 0) {
      this.#cancelAll();
      return;
    }
    const nowMs = this.#ports.clock.now();
    if (nowMs < this.#notBeforeMs) {
      this.#wakeAt(this.#notBeforeMs);
      return;
    }
    while (this.#mayStart(nowMs)) this.#start(nowMs);
    this.#wakeWhenSlow(nowMs);
  }

  /** A tunnel has ended, or counts no more, after so long. {@link reconcile} is to follow. */
  lost(livedMs: number): void {
    const { syncIntervalMs, syncIntervalCapMs } = this.#pace;
    this.#duplicates = 0;
    if (livedMs < syncIntervalCapMs) {
      const nowMs = this.#ports.clock.now();
      // Of tunnels that went together, as those to the workers of one server do, one counts.
      if (nowMs - livedMs < this.#shortLifeEndedAtMs) return;
      this.#shortLifeEndedAtMs = nowMs;
      this.#pause(this.#shortLives.next());
    } else {
      this.#shortLives.reset();
      this.#pause(this.#ports.random.fraction() * syncIntervalMs);
    }
  }

  /** Give up what is running, and start nothing any more. Idempotent. */
  stop(): void {
    this.#isStopped = true;
    this.#cancelWake?.();
    this.#cancelAll();
  }

  #mayStart(nowMs: number): boolean {
    const limit = this.#freshLimit;
    return this.#freshCount(nowMs) < limit && this.#running.size < limit + MAX_SLOW_ATTEMPTS;
  }

  get #freshLimit(): number {
    const limit = Math.min(this.#wanted().missing, MAX_FRESH_ATTEMPTS);
    if (limit <= 0 || this.#duplicates === 0) return limit;
    return this.#isEager ? Math.max(limit, this.#eagerAttempts) : 1;
  }

  get #eagerAttempts(): number {
    return Math.max(MIN_EAGER_ATTEMPTS, Math.min(this.#serverCount, MAX_EAGER_ATTEMPTS));
  }

  get #isEager(): boolean {
    if (this.#failuresInRow > TOLERATED_FAILURES) return false;
    return this.#duplicates <= EAGER_DUPLICATES * this.#serverCount;
  }

  get #serverCount(): number {
    const { servers } = this.#wanted();
    return Number.isFinite(servers) ? servers : SUPPOSED_SERVERS;
  }

  #freshCount(nowMs: number): number {
    let count = 0;
    for (const { startedAtMs } of this.#running) {
      if (nowMs < startedAtMs + SLOW_ATTEMPT_MS) count++;
    }
    return count;
  }

  #start(nowMs: number): void {
    const run: Run = {
      startedAtMs: nowMs,
      abort: new AbortController(),
      turn: undefined,
      begunAtMs: nowMs,
    };
    this.#running.add(run);
    const handshakeTurn = async () => {
      run.turn = this.#handshakes.take();
      await run.turn.come;
      run.begunAtMs = this.#ports.clock.now();
    };
    this.#attempt(run.abort.signal, handshakeTurn).then(
      (outcome) => {
        if (!this.#remove(run)) return;
        this.#failures.reset();
        this.#failuresInRow = 0;
        if (outcome === "opened") this.#duplicates = 0;
        else this.#duplicate(this.#ports.clock.now() - run.begunAtMs);
        this.reconcile();
      },
      () => {
        if (!this.#remove(run)) return;
        this.#failed(nowMs);
        this.reconcile();
      },
    );
  }

  /** Whether it was running still. */
  #remove(run: Run): boolean {
    const isRunning = this.#running.delete(run);
    // Whoever is next is not to begin with what is not needed any more.
    if (isRunning && this.#wanted().missing <= 0) this.#cancelAll();
    run.turn?.over();
    return isRunning;
  }

  #failed(startedAtMs: number): void {
    // Of attempts that ran together, one failure counts.
    if (startedAtMs < this.#failedAtMs) return;
    const nowMs = this.#ports.clock.now();
    this.#failedAtMs = nowMs;
    this.#failuresInRow++;
    if (this.#duplicates > 0 && this.#failuresInRow <= TOLERATED_FAILURES) {
      this.#duplicate(nowMs - startedAtMs);
    } else {
      this.#pause(this.#failures.next(), startedAtMs);
    }
  }

  #duplicate(tookMs: number): void {
    const { syncIntervalMs } = this.#pace;
    this.#duplicates++;
    // Soon after a server was met others are likely to be there; later, one of them may be down.
    const isSoon = this.#duplicates <= this.#serverCount;
    const fraction = Math.max(EAGER_FRACTION, isSoon ? 0 : this.#eagerAttempts / EAGER_DRAWS);
    const shortMs = Math.max(syncIntervalMs * fraction, tookMs);
    const pauseMs = this.#isEager ? Math.min(shortMs, syncIntervalMs) : syncIntervalMs;
    this.#pause(jittered(pauseMs, JITTER, this.#ports.random));
  }

  #pause(pauseMs: number, fromMs = this.#ports.clock.now()): void {
    this.#notBeforeMs = Math.max(this.#notBeforeMs, fromMs + pauseMs);
  }

  /** The next attempt may start when one that runs becomes slow, if there is room for it then. */
  #wakeWhenSlow(nowMs: number): void {
    if (this.#running.size >= this.#freshLimit + MAX_SLOW_ATTEMPTS) return;
    for (const { startedAtMs } of this.#running) {
      if (nowMs >= startedAtMs + SLOW_ATTEMPT_MS) continue;
      // Sets keep their order: this is the oldest of those that are not slow yet.
      this.#wakeAt(startedAtMs + SLOW_ATTEMPT_MS);
      return;
    }
  }

  #wakeAt(timeMs: number): void {
    const { clock } = this.#ports;
    this.#cancelWake?.();
    this.#cancelWake = clock.schedule(timeMs - clock.now(), () => {
      this.reconcile();
    });
  }

  #cancelAll(): void {
    const running = [...this.#running];
    this.#running.clear();
    for (const { abort } of running) abort.abort();
    for (const { turn } of running) turn?.over();
  }
}
