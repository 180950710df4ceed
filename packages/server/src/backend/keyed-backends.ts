import type { Random } from "@reachback/common";
import type { Backend } from "./backend.ts";

/** Backends by a key (an agent id, an identifier), several for one key, oldest first. */
export class KeyedBackends {
  readonly #byKey = new Map<string, Backend[]>();
  /** The keys once more, so that one can be picked at random. */
  readonly #keys: string[] = [];

  get keyCount(): number {
    return this.#keys.length;
  }

  add(key: string, backend: Backend): void {
    const backends = this.#byKey.get(key);
    if (backends === undefined) {
      this.#byKey.set(key, [backend]);
      this.#keys.push(key);
    } else if (!backends.includes(backend)) {
      backends.push(backend);
    }
  }

  remove(key: string, backend: Backend): void {
    const backends = this.#byKey.get(key);
    const at = backends?.indexOf(backend) ?? -1;
    if (backends === undefined || at < 0) return;
    backends.splice(at, 1);
    if (backends.length > 0) return;
    this.#byKey.delete(key);
    // The order of the keys means nothing: the last one fills the gap.
    const last = this.#keys.pop();
    if (last !== undefined && last !== key) this.#keys[this.#keys.indexOf(key)] = last;
  }

  /** The oldest backend of `key` that is no last resort; the oldest of all if every one is. */
  get(key: string): Backend | undefined {
    const backends = this.#byKey.get(key);
    return backends?.find((backend) => !backend.isLastResort) ?? backends?.[0];
  }

  /**
   * A backend of a random key. One that is a last resort only if all are: keys are tried in turn
   * from the random one on.
   */
  pick(random: Random): Backend | undefined {
    const start = Math.floor(random.fraction() * this.#keys.length);
    let fallback: Backend | undefined;
    for (let i = 0; i < this.#keys.length; i++) {
      const backend = this.get(this.#keys[(start + i) % this.#keys.length] ?? "");
      if (backend?.isLastResort === false) return backend;
      fallback ??= backend;
    }
    return fallback;
  }
}
