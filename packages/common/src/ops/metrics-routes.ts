import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { EXPOSITION_CONTENT_TYPE } from "../metrics/metric-registry.ts";
import type { MetricRegistry } from "../metrics/metric-registry.ts";
import { joinHostPort, splitHostPort } from "../net/host-port.ts";
import { redirectAnswer } from "./go-answers.ts";
import type { OpsRoute } from "./ops-route.ts";

const compress = promisify(gzip);

/** `/metrics` in the Prometheus text format, compressed for those who ask for that. */
export function metricsRoute(registry: MetricRegistry): OpsRoute {
  return {
    path: "/metrics",
    async handler({ acceptEncoding }) {
      const text = await registry.exposition();
      const headers = { "Content-Type": EXPOSITION_CONTENT_TYPE };
      if (!acceptsGzip(acceptEncoding)) return { status: 200, body: text, headers };
      return {
        status: 200,
        body: await compress(text),
        headers: { ...headers, "Content-Encoding": "gzip" },
      };
    },
  };
}

/** `/metrics` of the agent's admin port, which upstream moved to the health port. */
export function movedMetricsRoute(healthPort: number): OpsRoute {
  return {
    path: "/metrics",
    handler({ host, method, rawQuery }) {
      const query = rawQuery === "" ? "" : `?${rawQuery}`;
      const target = joinHostPort(withoutPort(host), healthPort);
      return redirectAnswer(301, `//${target}/metrics${query}`, method);
    },
  };
}

/** Whether an Accept-Encoding header names gzip and does not give it the weight 0. */
export function acceptsGzip(acceptEncoding: string): boolean {
  return acceptEncoding.split(",").some((item) => {
    const [coding = "", ...parameters] = item.split(";").map((part) => part.trim().toLowerCase());
    return coding === "gzip" && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

/** The host of a Host header, an IPv6 address without its brackets. */
function withoutPort(host: string): string {
  const split = splitHostPort(host);
  return typeof split === "string" ? host.replace(/^\[(.*)\]$/, "$1") : split.host;
}
