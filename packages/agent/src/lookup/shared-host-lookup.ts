import type { HostLookup } from "./host-lookup.ts";

/** A look-up under way, or waiting its turn. */
interface Flight {
  readonly name: string;
  readonly abort: AbortController;
  readonly result: Promise<readonly string[]>;
  readonly start: () => void;
  waiterCount: number;
}

/**
 * Bounds another {@link HostLookup}: a name that is being looked up is not asked for a second time,
 * and only so many names are looked up at once. The others wait in line, and leave it when nobody
 * waits for them any more.
 */
export class SharedHostLookup implements HostLookup {
  readonly #inner: HostLookup;
  readonly #maxConcurrent: number;
  readonly #flights = new Map<string, Flight>();
  readonly #waiting = new Set<Flight>();
  #runningCount = 0;

  constructor(inner: HostLookup, maxConcurrent: number) {
    this.#inner = inner;
    this.#maxConcurrent = maxConcurrent;
  }

  lookup(name: string, signal: AbortSignal): Promise<readonly string[]> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const flight = this.#flights.get(name) ?? this.#newFlight(name);
      flight.waiterCount++;
      const onAbort = () => {
        this.#leave(flight);
        reject(signal.reason as Error);
      };
      signal.addEventListener("abort", onAbort);
      flight.result
        .finally(() => {
          signal.removeEventListener("abort", onAbort);
        })
        .then(resolve, reject);
    });
  }

  #newFlight(name: string): Flight {
    const abort = new AbortController();
    let start: () => void = () => undefined;
    const turn = new Promise<void>((resolve) => {
      start = resolve;
    });
    const result = turn
      .then(() => this.#inner.lookup(name, abort.signal))
      .finally(() => {
        this.#runningCount--;
        this.#forget(flight);
        this.#startNext();
      });
    const flight: Flight = { name, abort, result, start, waiterCount: 0 };
    this.#flights.set(name, flight);
    this.#waiting.add(flight);
    this.#startNext();
    return flight;
  }

  #startNext(): void {
    for (const flight of this.#waiting) {
      if (this.#runningCount >= this.#maxConcurrent) return;
      this.#waiting.delete(flight);
      this.#runningCount++;
      flight.start();
    }
  }

  #leave(flight: Flight): void {
    flight.waiterCount--;
    if (flight.waiterCount > 0) return;
    // Who asks from now on must not get what has been given up.
    this.#forget(flight);
    this.#waiting.delete(flight);
    flight.abort.abort();
  }

  #forget(flight: Flight): void {
    if (this.#flights.get(flight.name) === flight) this.#flights.delete(flight.name);
  }
}
