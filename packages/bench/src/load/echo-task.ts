import { encodeRequest } from "../endpoint/endpoint-request.ts";
import { LatencyRecorder } from "./latency-recorder.ts";
import type { LoadConnection, LoadHandler } from "./load-connection.ts";
import type { OpenTask, TaskResult, TaskSpec } from "./load-task.ts";
import { openConnections } from "./open-connections.ts";

const MESSAGE = Buffer.alloc(64, 0x5a);

/** How long after the end answers may still come; what comes later has failed. */
const GRACE_MS = 2_000;

export async function openEcho(spec: TaskSpec<"echo">): Promise<OpenTask<TaskResult<"echo">>> {
  const connections = await openConnections(spec.route, spec.connections);
  const request = encodeRequest({ service: "echo", byteCount: 0 });
  for (const connection of connections) connection.send(request);
  return {
    run: () => new EchoRun(spec, connections).result(),
    close: () => {
      for (const connection of connections) connection.destroy();
    },
  };
}

/** One measurement on connections that outlive it. */
class EchoRun {
  readonly #pauseMs: number;
  readonly #durationMs: number;
  readonly #echoes: readonly Echo[];
  readonly #latencies = new LatencyRecorder();
  #startedAtMs = 0;
  #endsAtMs = 0;
  #count = 0;
  #lastAnswerAtMs = 0;
  #failed = 0;
  #waiting = 0;
  #onAllAnswered: () => void = () => undefined;

  constructor(spec: TaskSpec<"echo">, connections: readonly LoadConnection[]) {
    this.#pauseMs = spec.pauseMs;
    this.#durationMs = spec.durationMs;
    this.#echoes = connections.map((connection) => new Echo(connection, this));
  }

  async result(): Promise<TaskResult<"echo">> {
    this.#startedAtMs = performance.now();
    this.#endsAtMs = this.#startedAtMs + this.#durationMs;
    for (const [index, echo] of this.#echoes.entries()) {
      // Spread over the pause, or they would all be due at the same time for ever.
      if (this.#pauseMs === 0) this.#ask(echo);
      else this.#askLater(echo, (this.#pauseMs * index) / this.#echoes.length);
    }
    await new Promise((resolve) => setTimeout(resolve, this.#durationMs));
    await this.#lastAnswers();

    const nowMs = performance.now();
    for (const echo of this.#echoes) {
      if (echo.sentAtMs === 0) continue;
      // Without these, a connection that hangs would not show in the latencies at all.
      this.#latencies.add(nowMs - echo.sentAtMs);
      this.#failed++;
    }
    return {
      count: this.#count,
      seconds: (Math.max(this.#endsAtMs, this.#lastAnswerAtMs) - this.#startedAtMs) / 1000,
      failed: this.#failed,
      ...this.#latencies.summary(),
    };
  }

  answered(echo: Echo, sentAtMs: number): void {
    const nowMs = performance.now();
    this.#latencies.add(nowMs - sentAtMs);
    this.#waiting--;
    this.#count++;
    this.#lastAnswerAtMs = nowMs;
    if (nowMs < this.#endsAtMs) {
      if (this.#pauseMs === 0) this.#ask(echo);
      else this.#askLater(echo, this.#pauseMs);
    } else if (this.#waiting === 0) {
      this.#onAllAnswered();
    }
  }

  lost(): void {
    this.#failed++;
  }

  #ask(echo: Echo): void {
    this.#waiting++;
    echo.ask(performance.now());
  }

  #askLater(echo: Echo, delayMs: number): void {
    setTimeout(() => {
      if (performance.now() < this.#endsAtMs && !echo.isLost) this.#ask(echo);
    }, delayMs);
  }

  #lastAnswers(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#waiting === 0 ? 0 : GRACE_MS);
      this.#onAllAnswered = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** One connection, on which at most one message is under way. */
class Echo implements LoadHandler {
  /** 0 while no answer is awaited. */
  sentAtMs = 0;
  isLost = false;
  readonly #connection: LoadConnection;
  readonly #run: EchoRun;
  #missingBytes = 0;

  constructor(connection: LoadConnection, run: EchoRun) {
    this.#connection = connection;
    this.#run = run;
    connection.handler = this;
  }

  ask(nowMs: number): void {
    this.sentAtMs = nowMs;
    this.#missingBytes = MESSAGE.length;
    this.#connection.send(MESSAGE);
  }

  received(byteCount: number): void {
    // The answer to a question of an earlier run, far too late.
    if (this.sentAtMs === 0) return;
    this.#missingBytes -= byteCount;
    if (this.#missingBytes > 0) return;
    const { sentAtMs } = this;
    this.sentAtMs = 0;
    this.#run.answered(this, sentAtMs);
  }

  closed(): void {
    this.isLost = true;
    // What it waits for is counted as failed at the end.
    if (this.sentAtMs === 0) this.#run.lost();
  }
}
