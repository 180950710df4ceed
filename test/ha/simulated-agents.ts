// Many light agents in a process of their own, started by a test. Each has a connection, a token and
// a backoff of its own and does what a real agent does to keep one tunnel; it serves no dials.
//
// Their TLS handshakes take turns: a real agent's handshake is done by a CPU of its own, while here
// thousands would hold up each other until all have timed out.

import { connect as connectHttp2 } from "node:http2";
import type { ClientHttp2Session } from "node:http2";
import { connect as connectTls, createSecureContext } from "node:tls";
import type { SecureContext, TLSSocket } from "node:tls";
import { Backoff, jittered, systemRandom } from "@reachback/common";

/** Sent to this process once. */
export interface SimulationOrder {
  readonly agentCount: number;
  readonly serverPort: number;
  /** CA of the server's certificate, as PEM. */
  readonly ca: string;
}

/** Sent by this process when it is there, and then several times a second. */
export interface SimulationReport {
  /** Agents that have a tunnel. */
  readonly connected: number;
  /** Attempts to open one that have failed, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
}

/** As the agent's flags and limits have them. */
const SYNC = { initialMs: 1_000, capMs: 10_000, factor: 1.5, jitter: 0.1 };
const CONNECT_TIMEOUT_MS = 10_000;
const ANSWER_TIMEOUT_MS = 45_000;

const HANDSHAKES_AT_A_TIME = 32;
const REPORT_INTERVAL_MS = 100;

let handshakeCount = 0;
const handshakeQueue: (() => void)[] = [];

async function handshakeTurn(): Promise<void> {
  if (handshakeCount < HANDSHAKES_AT_A_TIME) handshakeCount++;
  else await new Promise<void>((resolve) => handshakeQueue.push(resolve));
}

function endHandshakeTurn(): void {
  const next = handshakeQueue.shift();
  if (next === undefined) handshakeCount--;
  else next();
}

class SimulatedAgent {
  isConnected = false;
  readonly #index: number;
  readonly #port: number;
  readonly #secureContext: SecureContext;
  readonly #refused: (reason: string) => void;
  readonly #backoff = new Backoff(SYNC, systemRandom);

  constructor(
    index: number,
    port: number,
    secureContext: SecureContext,
    refused: (reason: string) => void,
  ) {
    this.#index = index;
    this.#port = port;
    this.#secureContext = secureContext;
    this.#refused = refused;
  }

  async run(): Promise<never> {
    for (;;) {
      try {
        const session = await this.#connect();
        await this.#holdTunnel(session);
        this.#backoff.reset();
        await pause(jittered(SYNC.initialMs, SYNC.jitter, systemRandom));
      } catch (error) {
        this.#refused((error as Error).message.replace(/\d+ agents/, "N agents"));
        await pause(this.#backoff.next());
      }
    }
  }

  async #connect(): Promise<ClientHttp2Session> {
    await handshakeTurn();
    try {
      const socket = await new Promise<TLSSocket>((resolve, reject) => {
        const connecting = connectTls({
          host: "127.0.0.1",
          port: this.#port,
          secureContext: this.#secureContext,
          ALPNProtocols: ["h2"],
          timeout: CONNECT_TIMEOUT_MS,
        });
        connecting.once("timeout", () => {
          connecting.destroy(new Error("tls: timed out"));
        });
        connecting.once("error", reject);
        connecting.once("secureConnect", () => {
          connecting.setTimeout(0);
          connecting.removeAllListeners("timeout");
          resolve(connecting);
        });
      });
      return connectHttp2("https://127.0.0.1", { createConnection: () => socket });
    } finally {
      endHandshakeTurn();
    }
  }

  /** Resolves when a tunnel is lost; rejects if there was none. */
  #holdTunnel(session: ClientHttp2Session): Promise<void> {
    return new Promise((resolve, reject) => {
      let reason = "answer: the connection is lost";
      const stream = session.request({
        ":method": "POST",
        ":path": "/AgentService/Connect",
        "content-type": "application/grpc",
        te: "trailers",
        agentid: `agent-${this.#index}`,
        authorization: `Bearer token-${this.#index}`,
      });
      const timer = setTimeout(() => {
        reason = "answer: timed out";
        session.destroy();
      }, ANSWER_TIMEOUT_MS);
      stream.once("response", (headers) => {
        clearTimeout(timer);
        if (headers["serverid"] === undefined) reason = String(headers["grpc-message"]);
        else this.isConnected = true;
      });
      stream.on("error", () => undefined);
      stream.resume();
      stream.once("close", () => {
        session.destroy();
      });
      session.on("error", () => undefined);
      session.once("close", () => {
        clearTimeout(timer);
        const wasConnected = this.isConnected;
        this.isConnected = false;
        if (wasConnected) resolve();
        else reject(new Error(reason));
      });
    });
  }
}

function pause(durationMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}

process.send?.({ connected: 0, refusals: {} } satisfies SimulationReport);

process.once("message", ({ agentCount, serverPort, ca }: SimulationOrder) => {
  const refusals: Record<string, number> = {};
  const secureContext = createSecureContext({ ca });
  const agents = Array.from(
    { length: agentCount },
    (_, index) =>
      new SimulatedAgent(index, serverPort, secureContext, (reason) => {
        refusals[reason] = (refusals[reason] ?? 0) + 1;
      }),
  );
  for (const agent of agents) void agent.run();
  setInterval(() => {
    const connected = agents.filter(({ isConnected }) => isConnected).length;
    process.send?.({ connected, refusals } satisfies SimulationReport);
  }, REPORT_INTERVAL_MS);
});
