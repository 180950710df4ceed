import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import type { Agent, AgentOptions } from "@reachback/agent";
import type { Clock } from "@reachback/common";
import { RecordingLogger } from "@reachback/common/testing";
import { startAgent } from "./cluster.ts";
import type { StartAgentOptions } from "./cluster.ts";
import { TrackedClock } from "./tracked-clock.ts";

export interface TrackedAgent {
  readonly agent: Agent;
  readonly logger: RecordingLogger;
  /** Why attempts to open a tunnel failed, in order. */
  readonly refusals: () => string[];
  /** How often something was logged. */
  readonly count: (event: string) => number;
  /** A sample of the agent's metrics; the name without upstream's prefix, or in full. */
  readonly metric: (name: string) => Promise<string | undefined>;
}

const PREFIX = "konnectivity_network_proxy_agent_";

/** A clock that knows how many timers are pending. */
export type CountingClock = Clock & { readonly pendingTimers: number };

export interface TrackedAgentOptions extends Omit<StartAgentOptions, "logger" | "clock"> {
  readonly clock?: CountingClock;
}

/** Start an agent that must leave no timer behind when it is stopped, at the end of the test. */
export async function startTrackedAgent(
  t: TestContext,
  serverPort: number,
  overrides: Partial<AgentOptions> = {},
  { clock = new TrackedClock(), ...options }: TrackedAgentOptions = {},
): Promise<TrackedAgent> {
  const logger = new RecordingLogger();
  const agent = await startAgent(t, serverPort, overrides, { ...options, clock, logger });
  // Hooks run in order: the agent has been stopped by now.
  t.after(() => {
    assert.equal(clock.pendingTimers, 0, "timers left behind");
  });
  return {
    agent,
    logger,
    refusals: () =>
      logger.lines
        .filter(({ event }) => event === "tunnel.refused")
        .map(({ fields }) => String(fields["error"])),
    count: (event) => logger.lines.filter((line) => line.event === event).length,
    metric: async (name) => {
      const response = await fetch(`http://127.0.0.1:${agent.ports.health}/metrics`, {
        headers: { connection: "close" },
      });
      const lines = (await response.text()).split("\n");
      const starts = [`${PREFIX}${name} `, `${name} `];
      const line = lines.find((text) => starts.some((start) => text.startsWith(start)));
      return line?.slice(line.lastIndexOf(" ") + 1);
    },
  };
}
