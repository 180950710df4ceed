import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricRegistry } from "@reachback/common";
import type { CloseReason as AgentCloseReason } from "../../packages/agent/src/endpoint/close-reason.ts";
import { AgentMetrics } from "../../packages/agent/src/metrics.ts";
import { AuthenticationMetrics } from "../../packages/server/src/authentication/authentication-metrics.ts";
import type { CloseReason as ServerCloseReason } from "../../packages/server/src/dial/close-reason.ts";
import { ServerMetrics } from "../../packages/server/src/metrics.ts";
import { WorkerMetrics } from "../../packages/server/src/workers/worker-metrics.ts";
import { readDocument, sectionOf } from "../support/documents.ts";

// What docs/metrics.md lists is what there is, no more and no less.

const document = readDocument("docs/metrics.md");

const UPSTREAM = /^konnectivity_network_proxy_(?:server|agent)_/;

/** The metrics of both programs, by name. */
function registeredNames() {
  const server = new MetricRegistry();
  new ServerMetrics(server);
  new AuthenticationMetrics(server, () => 0);
  const agent = new MetricRegistry();
  new AgentMetrics(agent);
  const nobody = { refresh: () => Promise.resolve(), reports: () => [] };
  const workers = new WorkerMetrics(nobody, undefined, () => 0).registry;
  const namesOf = (...registries: MetricRegistry[]) =>
    registries.flatMap((registry) => registry.readings().map(({ name }) => name));
  return { server: namesOf(server, workers), agent: namesOf(agent) };
}

/** What stands in the first column of a section's table. */
function rowsOf(heading: string): string[] {
  const rows = sectionOf(document, heading).matchAll(/^\| `([a-z_]+)` +\|/gm);
  return Array.from(rows, ([, name = ""]) => name).sort();
}

/** The names that a section lists below the line that says what they all begin with. */
function namesBelow(prefix: string): string[] {
  const [, list = ""] = document.split(`\`${prefix}\`:\n`);
  const [paragraph = ""] = list.split("\n\n");
  return Array.from(paragraph.matchAll(/`([a-z_]+)`/g), ([, name]) => `${prefix}${name}`).sort();
}

describe("docs/metrics.md", () => {
  const names = registeredNames();
  for (const program of ["server", "agent"] as const) {
    const isUpstreams = (name: string) => UPSTREAM.test(name);

    it(`has every metric of ours at the ${program}`, () => {
      const ours = names[program].filter((name) => !isUpstreams(name));
      assert.deepEqual(rowsOf(`## The ${program}'s own`), ours.sort());
    });

    it(`has every metric of upstream's at the ${program}`, () => {
      const upstreams = names[program].filter(isUpstreams);
      assert.deepEqual(namesBelow(`konnectivity_network_proxy_${program}_`), upstreams.sort());
    });
  }

  it("has every reason that connections end for", () => {
    // The compiler knows whether these are all.
    const atServer: Record<ServerCloseReason, true> = {
      client_closed: true,
      client_lost: true,
      endpoint_closed: true,
      endpoint_error: true,
      agent_lost: true,
      protocol_error: true,
      slow_consumer: true,
      half_close_timeout: true,
      shutdown: true,
    };
    const atAgent: Record<AgentCloseReason, true> = {
      server_closed: true,
      server_reset: true,
      endpoint_closed: true,
      endpoint_error: true,
      endpoint_stalled: true,
      slow_consumer: true,
      half_close_timeout: true,
      protocol_error: true,
      tunnel_lost: true,
    };
    const documented = rowsOf("## Why connections end, at the server");
    assert.deepEqual(documented, Object.keys(atServer).sort());
    assert.deepEqual(rowsOf("## Why connections end, at the agent"), Object.keys(atAgent).sort());
  });
});
