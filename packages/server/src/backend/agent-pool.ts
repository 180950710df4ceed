import type { Random } from "@reachback/common";
import type { Candidate, Standing } from "./candidate.ts";

/** Whether a backend may be chosen at all, for this dial. */
export type IsUsable = (backend: Candidate) => boolean;

/** Random picks in a large pool before all its agents are looked at. */
const MAX_PICKS = 8;

/**
 * What an agent needs to find out that a second tunnel leads to a server that it has already, and to
 * close it. One that is older is meant to stay.
 */
export const DUPLICATE_MS = 2_000;

interface Agent {
  readonly agentId: string;
  /** Oldest first. */
  readonly tunnels: Candidate[];
}

/** Agents that may take the same dials. */
export class AgentPool {
  readonly #random: Random;
  readonly #byId = new Map<string, Agent>();
  /** The agents once more, so that one can be picked at random. */
  readonly #agents: Agent[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  get agentCount(): number {
    return this.#agents.length;
  }

  add(backend: Candidate): void {
    const agent = this.#byId.get(backend.agentId);
    if (agent === undefined) {
      const added = { agentId: backend.agentId, tunnels: [backend] };
      this.#byId.set(backend.agentId, added);
      this.#agents.push(added);
    } else if (!agent.tunnels.includes(backend)) {
      for (const older of agent.tunnels) older.listen();
      agent.tunnels.push(backend);
    }
  }

  remove(backend: Candidate): void {
    const agent = this.#byId.get(backend.agentId);
    const at = agent?.tunnels.indexOf(backend) ?? -1;
    if (agent === undefined || at < 0) return;
    agent.tunnels.splice(at, 1);
    if (agent.tunnels.length > 0) return;
    this.#byId.delete(agent.agentId);
    // The order means nothing: the last one fills the gap.
    const last = this.#agents.pop();
    if (last !== undefined && last !== agent) this.#agents[this.#agents.indexOf(agent)] = last;
  }

  /** The less busy of two random agents of that standing, or `undefined` if there is none. */
  choose(standing: Standing, isUsable: IsUsable): Candidate | undefined {
    const picked = this.#pickSome(standing, isUsable);
    if (picked !== undefined) return picked;
    // A small pool, or one where hardly anybody is fit: look at all.
    const fit = this.#agents.flatMap((agent) => tunnelOf(agent, standing, isUsable) ?? []);
    const at = Math.floor(this.#random.fraction() * fit.length);
    const first = fit[at];
    if (first === undefined || fit.length === 1) return first;
    const step = 1 + Math.floor(this.#random.fraction() * (fit.length - 1));
    const second = fit[(at + step) % fit.length];
    return second === undefined ? first : lessBusy(first, second);
  }

  /** As {@link choose}, without a look at all of a large pool. */
  #pickSome(standing: Standing, isUsable: IsUsable): Candidate | undefined {
    const count = this.#agents.length;
    if (count <= MAX_PICKS) return undefined;
    let first: Candidate | undefined;
    for (let pick = 0; pick < MAX_PICKS; pick++) {
      const agent = this.#agents[Math.floor(this.#random.fraction() * count)];
      const backend = agent === undefined ? undefined : tunnelOf(agent, standing, isUsable);
      if (backend === undefined || backend === first) continue;
      if (first !== undefined) return lessBusy(first, backend);
      first = backend;
    }
    return first;
  }
}

/**
 * The oldest tunnel of an agent: an agent closes a later one that it has no use for. But a newer one
 * that has come to stay if nothing was heard from the older since: that one may be left over from a
 * machine that lost its power.
 */
function tunnelOf(
  { tunnels }: Agent,
  standing: Standing,
  isUsable: IsUsable,
): Candidate | undefined {
  let chosen: Candidate | undefined;
  for (const tunnel of tunnels) {
    if (tunnel.standing !== standing || !isUsable(tunnel)) continue;
    if (chosen === undefined || (chosen.isSilent && tunnel.ageMs >= DUPLICATE_MS)) chosen = tunnel;
  }
  return chosen;
}

/** Of two that are as busy, the one that was chosen longer ago: so equal agents get equal shares. */
function lessBusy(one: Candidate, other: Candidate): Candidate {
  const difference = one.load - other.load;
  if (difference !== 0) return difference < 0 ? one : other;
  return one.lastChosen <= other.lastChosen ? one : other;
}
