import { certificateCheck, lastDialCheck } from "@reachback/common";
import type { CertificateFacts, Clock, ReadinessCheck } from "@reachback/common";
import type { ProxyStrategy } from "./options/proxy-strategies.ts";
import type { ReadyStrategies } from "./options/ready-strategies.ts";

/** What a server's readiness depends on. */
export interface ServerReadiness {
  isStopping(): boolean;
  /** What each strategy could choose from, in their order: agents, or identifiers for `destHost`. */
  keyCounts(): ReadonlyMap<ProxyStrategy, number>;
  /** Which strategies must have something. */
  readonly required: ReadyStrategies;
  /** Of its listeners, by listener. */
  certificates(): ReadonlyMap<string, CertificateFacts>;
  /** When a dial succeeded last, in the clock's milliseconds. */
  lastDialAtMs(): number | undefined;
}

/** Upstream's whole answer. */
const NO_AGENT = "no connection to any proxy agent";

/** The server's checks, one line each in `/readyz?verbose`. */
export function serverReadinessChecks(
  state: ServerReadiness,
  clock: Clock,
): readonly ReadinessCheck[] {
  return [
    {
      name: "shutdown",
      run: () =>
        state.isStopping()
          ? { ok: false, detail: "the server is stopping" }
          : { ok: true, detail: "" },
    },
    ...[...state.keyCounts().keys()].map((strategy) => strategyCheck(strategy, state)),
    certificateCheck(() => state.certificates(), clock),
    lastDialCheck(() => state.lastDialAtMs(), clock),
  ];
}

function strategyCheck(strategy: ProxyStrategy, state: ServerReadiness): ReadinessCheck {
  return {
    name: `strategy-${strategy}`,
    run: () => {
      const counts = state.keyCounts();
      const count = counts.get(strategy) ?? 0;
      const things = strategy === "destHost" ? "identifiers of agents" : "agents";
      if (count > 0) return { ok: true, detail: `${count} ${things}` };
      if (!isMissed(strategy, counts, state.required)) {
        return { ok: true, detail: `no ${things}, and not needed (--ready-strategies)` };
      }
      const isWithoutAny = [...counts.values()].every((each) => each === 0);
      if (isWithoutAny) return { ok: false, detail: NO_AGENT };
      return { ok: false, detail: `no ${things} for strategy ${strategy}` };
    },
  };
}

/** Whether a strategy without anything to choose from makes the server unready. */
function isMissed(
  strategy: ProxyStrategy,
  counts: ReadonlyMap<ProxyStrategy, number>,
  required: ReadyStrategies,
): boolean {
  const [first] = counts.keys();
  switch (required) {
    case "all":
      return true;
    case "first":
      return strategy === first;
    case "any":
      // With none at all it is the first that says so.
      return strategy === first && [...counts.values()].every((count) => count === 0);
  }
}
