import { certificateCheck, lastDialCheck } from "@reachback/common";
import type { CertificateFacts, CheckResult, Clock, ReadinessCheck } from "@reachback/common";
import type { ServerSet } from "./servers/server-set.ts";

/** What an agent's readiness depends on. */
export interface AgentReadiness {
  /** Servers that must have a tunnel. */
  readonly minServers: number | "all";
  readonly servers: Pick<ServerSet, "tunnelCount" | "connectedCount" | "serverCount">;
  /** The agent's own; `undefined` if a token identifies it. */
  certificate(): CertificateFacts | undefined;
  /** When an endpoint was reached last, in the clock's milliseconds. */
  lastDialAtMs(): number | undefined;
}

/** The agent's checks, one line each in `/readyz?verbose`. */
export function agentReadinessChecks(
  state: AgentReadiness,
  clock: Clock,
): readonly ReadinessCheck[] {
  return [
    { name: "server-connected", run: () => serversResult(state) },
    certificateCheck(() => {
      const facts = state.certificate();
      return new Map(facts === undefined ? [] : [["agent", facts]]);
    }, clock),
    lastDialCheck(() => state.lastDialAtMs(), clock),
  ];
}

/** Without any tunnel in upstream's words. */
function serversResult({ minServers, servers }: AgentReadiness): CheckResult {
  const { tunnelCount, connectedCount, serverCount } = servers;
  if (tunnelCount === 0) return { ok: false, detail: "no servers connected" };
  const needed = minServers === "all" ? serverCount : minServers;
  const found = `${connectedCount} of ${serverCount}`;
  // A tunnel that drains serves too, so with one that is enough.
  if (connectedCount >= needed || needed === 1) return { ok: true, detail: found };
  return { ok: false, detail: `${found}, needed are ${minServers} (--ready-min-servers)` };
}
