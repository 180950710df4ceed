import type { OpsHandler, OpsRequest, OpsResponse, OpsRoute } from "./ops-route.ts";
import type { ReadinessCheck } from "./readiness-check.ts";

/** Says whether the program is up and serving, in upstream's answers. Nobody else has a say in it. */
const alive: OpsHandler = () => ({ status: 200, body: "ok" });

/**
 * `/healthz`, `/livez`, `/ready` and `/readyz` of the server's health port. Like upstream's, a server
 * that is not ready answers 500 with the reasons alone; every check has its line if `?verbose` asks.
 *
 * @param refresh - Brings what the checks look at up to date, before they do.
 */
export function serverHealthRoutes(
  checks: readonly ReadinessCheck[],
  refresh?: () => Promise<void>,
): readonly OpsRoute[] {
  return routes(async (request) => {
    await refresh?.();
    return readiness(checks, request, (failed) => ({
      status: 500,
      body: request.query.has("verbose")
        ? undefined
        : failed.map(({ detail }) => detail).join("\n"),
    }));
  });
}

/**
 * The same of the agent's. Like upstream's, an agent that is not ready answers 503 with lines whether
 * they were asked for or not: those of what failed, or with `?verbose` all.
 */
export function agentHealthRoutes(checks: readonly ReadinessCheck[]): readonly OpsRoute[] {
  return routes((request) =>
    readiness(checks, request, (failed) => ({
      status: 503,
      body: request.query.has("verbose") ? undefined : linesOf(failed),
    })),
  );
}

function routes(ready: OpsHandler): readonly OpsRoute[] {
  return [
    { path: "/healthz", handler: alive },
    { path: "/livez", handler: alive },
    { path: "/ready", handler: ready },
    { path: "/readyz", handler: ready },
  ];
}

interface CheckOutcome {
  readonly name: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** @param failing - Status and body if a check fails; no body for all lines. */
function readiness(
  checks: readonly ReadinessCheck[],
  request: OpsRequest,
  failing: (failed: readonly CheckOutcome[]) => { status: number; body: string | undefined },
): OpsResponse | Promise<OpsResponse> {
  const outcomes = checks.map(({ name, run }) => ({ name, ...run() }));
  const failed = outcomes.filter(({ ok }) => !ok);
  if (failed.length > 0) {
    const { status, body } = failing(failed);
    return { status, body: body ?? linesOf(outcomes) };
  }
  if (!request.query.has("verbose")) return alive(request);
  return { status: 200, body: `${linesOf(outcomes)}check passed\n` };
}

/** A line for each outcome, behind one that says that somebody answers: as Kubernetes' programs do. */
function linesOf(outcomes: readonly CheckOutcome[]): string {
  const lines = outcomes.map(({ name, ok, detail }) => {
    const verdict = ok ? `[+]${name} ok` : `[-]${name} failed`;
    return `${verdict}${detail === "" ? "" : `: ${detail}`}\n`;
  });
  return `[+]ping ok\n${lines.join("")}`;
}
