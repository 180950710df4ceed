import assert from "node:assert/strict";
import { MetricRegistry } from "@reachback/common";
import { RecordingLogger } from "@reachback/common/testing";
import type { ManualClock } from "@reachback/common/testing";
import { ENDPOINT_SOCKET } from "../../src/limits.ts";
import { AgentMetrics } from "../../src/metrics.ts";
import type { ServerAddress } from "../../src/servers/server-address.ts";
import type { TunnelOpener } from "../../src/servers/server-set.ts";
import type {
  OpenTunnel,
  TunnelAnswer,
  TunnelAttempt,
  TunnelEvents,
} from "../../src/tunnel/tunnel-connector.ts";
import { Tunnel } from "../../src/tunnel/tunnel.ts";
import { FakeCarrier } from "../tunnel/fake-carrier.ts";
import { TEST_FLOW } from "../tunnel/test-flow.ts";

/** What answers an attempt: a server's identity, a failure, or nothing for now. */
export type Answer = FakeServer | Error | "silence";

export interface FakeServer {
  readonly id: string;
  /** How many servers it says there are. */
  readonly count: number;
  /** Whether it has the extension. */
  readonly turnsAway?: boolean;
}

const STEP_MS = 10_000;

/** A tunnel that a server accepted, and what became of it. */
export interface FakeTunnel extends OpenTunnel {
  readonly host: string;
  readonly events: TunnelEvents;
  readonly carrier: FakeCarrier;
  readonly isEnded: boolean;
}

/** Servers that answer as a test says. */
export class FakeServers implements TunnelOpener {
  /** What answers at a host. */
  answerAt: (host: string) => Answer = () => this.answer;
  /** What answers everywhere, unless {@link answerAt} says otherwise. */
  answer: Answer = new Error("refused");
  /** When each attempt began, and where. */
  readonly attempts: { readonly atMs: number; readonly host: string }[] = [];
  /** Attempts that have not been answered, nor given up. */
  pendingCount = 0;
  readonly opened: FakeTunnel[] = [];
  turnedAwayCount = 0;
  readonly #clock: ManualClock;

  constructor(clock: ManualClock) {
    this.#clock = clock;
  }

  get attemptCount(): number {
    return this.attempts.length;
  }

  async connect(
    { host }: ServerAddress,
    { accepted, exceptServers, signal }: TunnelAttempt,
  ): Promise<TunnelAnswer> {
    this.attempts.push({ atMs: this.#clock.now(), host });
    const answer = this.answerAt(host);
    if (answer instanceof Error) throw answer;
    if (answer === "silence") {
      this.pendingCount++;
      try {
        return await this.#silence(signal);
      } finally {
        this.pendingCount--;
      }
    }
    if (exceptServers().includes(answer.id)) {
      assert.equal(answer.turnsAway, true, `${answer.id} was named, but cannot turn away`);
      this.turnedAwayCount++;
      return "turned away";
    }
    const carrier = new FakeCarrier();
    const tunnel = this.#newTunnel();
    tunnel.attach(carrier);
    tunnel.opened(answer.turnsAway === true ? [["reachback-extensions", "turn-away"]] : []);
    let isEnded = false;
    const open: OpenTunnel = {
      tunnel,
      serverId: answer.id,
      serverCount: answer.count,
      end: () => {
        isEnded = true;
        tunnel.end();
      },
    };
    const events = accepted(open);
    this.opened.push({
      ...open,
      host,
      events,
      carrier,
      get isEnded() {
        return isEnded;
      },
    });
    return "accepted";
  }

  /** Rejects when the attempt is given up, or as a real one does, after {@link STEP_MS}. */
  #silence(signal: AbortSignal): Promise<never> {
    return new Promise((_, reject) => {
      const cancel = this.#clock.schedule(STEP_MS, () => {
        reject(new Error("answer: timed out"));
      });
      signal.addEventListener("abort", () => {
        cancel();
        reject(signal.reason as Error);
      });
    });
  }

  #newTunnel(): Tunnel {
    return new Tunnel(
      {
        tunnelOpened: () => undefined,
        serverDraining: () => undefined,
        tunnelClosed: () => undefined,
        connectionGone: () => undefined,
      },
      {
        clock: this.#clock,
        metrics: new AgentMetrics(new MetricRegistry()),
        logger: new RecordingLogger(),
        dialer: { dial: () => new Promise(() => undefined) },
        socketLimits: ENDPOINT_SOCKET,
        flow: TEST_FLOW,
        halfCloseTimeoutMs: 10_000,
      },
    );
  }
}
