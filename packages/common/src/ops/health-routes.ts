import type { OpsHandler, OpsRoute } from "./ops-route.ts";

/** Says whether the program is up and serving, in upstream's answers. */
const alive: OpsHandler = () => ({ status: 200, body: "ok" });

/** `/healthz`, `/ready` and `/readyz` of the server's health port. */
export function serverHealthRoutes(hasAgent: () => boolean): readonly OpsRoute[] {
  const ready: OpsHandler = (request) =>
    hasAgent() ? alive(request) : { status: 500, body: "no connection to any proxy agent" };
  return [
    { path: "/healthz", handler: alive },
    { path: "/ready", handler: ready },
    { path: "/readyz", handler: ready },
  ];
}

/** `/healthz`, `/ready` and `/readyz` of the agent's health port. */
export function agentHealthRoutes(isConnected: () => boolean): readonly OpsRoute[] {
  const ready: OpsHandler = (request) => {
    if (!isConnected()) {
      return {
        status: 503,
        body: "[+]ping ok\n[-]server-connected failed: no servers connected\n",
      };
    }
    return request.query.has("verbose")
      ? { status: 200, body: "[+]ping ok\n[+]server-connected ok\ncheck passed\n" }
      : alive(request);
  };
  return [
    { path: "/healthz", handler: alive },
    { path: "/ready", handler: ready },
    { path: "/readyz", handler: ready },
  ];
}
