import type { Random } from "@reachback/common";
import { AgentPool } from "./agent-pool.ts";
import type { IsUsable } from "./agent-pool.ts";
import type { Candidate } from "./candidate.ts";

/** How backends are ranked: those that fail take a dial only if all do. */
const STANDINGS = ["sound", "draining", "failing"] as const;

export interface PoolSettings {
  /** Agents of this zone are preferred; empty for no preference. */
  readonly zone: string;
  readonly random: Random;
}

/** Agents that may take the same dials, those in the server's own zone first. */
export class ZonedPool {
  readonly #zone: string;
  readonly #near: AgentPool;
  readonly #far: AgentPool;

  constructor({ zone, random }: PoolSettings) {
    this.#zone = zone;
    this.#near = new AgentPool(random);
    this.#far = new AgentPool(random);
  }

  get agentCount(): number {
    return this.#near.agentCount + this.#far.agentCount;
  }

  add(backend: Candidate): void {
    this.#poolOf(backend).add(backend);
  }

  remove(backend: Candidate): void {
    this.#poolOf(backend).remove(backend);
  }

  /** The best standing there is comes before the zone: a dial must succeed first of all. */
  choose(isUsable: IsUsable): Candidate | undefined {
    for (const standing of STANDINGS) {
      const backend = this.#near.choose(standing, isUsable) ?? this.#far.choose(standing, isUsable);
      if (backend !== undefined) return backend;
    }
    return undefined;
  }

  #poolOf(backend: Candidate): AgentPool {
    return this.#zone === "" || backend.identifiers.zone.includes(this.#zone)
      ? this.#near
      : this.#far;
  }
}

/** The first of `choices` that does not fail, or the first of all. Asks for no more than it needs. */
export function firstNotFailing(choices: Iterable<Candidate | undefined>): Candidate | undefined {
  let fallback: Candidate | undefined;
  for (const backend of choices) {
    if (backend !== undefined && backend.standing !== "failing") return backend;
    fallback ??= backend;
  }
  return fallback;
}
