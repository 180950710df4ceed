import type { CancelTimer, Clock } from "../clock.ts";
import type { LogEvent, LogFields } from "./logger.ts";

const INTERVAL_MS = 10_000;
const MAX_KEYS_PER_EVENT = 8;

/** Fields that name one occurrence rather than its kind, so they never make two lines differ. */
const OCCURRENCE_FIELDS = new Set(["connectionId", "dialId"]);

/** Writes a line that stands for `repeated` occurrences; `fields` are those of the latest one. */
export type WriteRepeated = (event: LogEvent, fields: LogFields, repeated: number) => void;

interface Repeats {
  readonly event: LogEvent;
  suppressed: number;
  latest: LogFields;
}

/**
 * Keeps a warning that happens over and over from filling the log.
 *
 * The first of its kind is written at once. Those that follow are counted, and every ten seconds
 * one line with their number stands for all of them, until ten seconds pass without any. Two
 * warnings are of one kind if the event and all texts among their fields are equal: numbers,
 * booleans and ids of connections and dials may differ. Of one event, eight kinds are told apart at
 * a time; the others share one count, so that a peer who varies a text cannot fill the log either.
 */
export class RepeatLimiter {
  readonly #clock: Clock;
  readonly #write: WriteRepeated;
  readonly #byKey = new Map<string, Repeats>();
  readonly #keysOfEvent = new Map<LogEvent, number>();
  #cancelTick: CancelTimer | undefined;

  constructor(clock: Clock, write: WriteRepeated) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Whether this occurrence is to be written now; otherwise it has been counted. */
  admits(event: LogEvent, fields: LogFields): boolean {
    const key = this.#keyOf(event, fields);
    const repeats = this.#byKey.get(key);
    if (repeats !== undefined) {
      repeats.suppressed++;
      repeats.latest = fields;
      return false;
    }
    this.#byKey.set(key, { event, suppressed: 0, latest: fields });
    this.#keysOfEvent.set(event, (this.#keysOfEvent.get(event) ?? 0) + 1);
    this.#cancelTick ??= this.#clock.schedule(INTERVAL_MS, () => {
      this.#tick();
    });
    return true;
  }

  /** Write every count that is still held back, and forget all. Leaves no timer. */
  flush(): void {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    this.#writeCounts();
    this.#byKey.clear();
    this.#keysOfEvent.clear();
  }

  #keyOf(event: LogEvent, fields: LogFields): string {
    let key: string = event;
    for (const name in fields) {
      const value = fields[name];
      if (typeof value === "string" && !OCCURRENCE_FIELDS.has(name)) key += `\n${name}=${value}`;
    }
    const full = (this.#keysOfEvent.get(event) ?? 0) >= MAX_KEYS_PER_EVENT;
    return full && !this.#byKey.has(key) ? event : key;
  }

  #tick(): void {
    this.#cancelTick = undefined;
    for (const [key, { event, suppressed }] of this.#byKey) {
      if (suppressed > 0) continue;
      this.#byKey.delete(key);
      this.#keysOfEvent.set(event, (this.#keysOfEvent.get(event) ?? 1) - 1);
    }
    this.#writeCounts();
    if (this.#byKey.size === 0) return;
    this.#cancelTick = this.#clock.schedule(INTERVAL_MS, () => {
      this.#tick();
    });
  }

  #writeCounts(): void {
    for (const repeats of this.#byKey.values()) {
      const { event, latest, suppressed } = repeats;
      if (suppressed === 0) continue;
      repeats.suppressed = 0;
      this.#write(event, latest, suppressed);
    }
  }
}
