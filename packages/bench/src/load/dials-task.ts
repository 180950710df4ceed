import { encodeRequest } from "../endpoint/endpoint-request.ts";
import { LatencyRecorder } from "./latency-recorder.ts";
import { openConnection } from "./open-connection.ts";
import type { OpenTask, TaskResult, TaskSpec } from "./load-task.ts";

type Spec = TaskSpec<"dials">;

export function openDials(spec: Spec): Promise<OpenTask<TaskResult<"dials">>> {
  return Promise.resolve({ run: () => runDials(spec), close: () => undefined });
}

async function runDials(spec: Spec): Promise<TaskResult<"dials">> {
  const latencies = new LatencyRecorder();
  const question = Buffer.alloc(spec.byteCount);
  question.set(encodeRequest({ service: "exchange", byteCount: spec.byteCount }));
  const startedAtMs = performance.now();
  const endsAtMs = startedAtMs + spec.durationMs;
  let count = 0;
  let lastAtMs = endsAtMs;
  let failed = 0;
  let firstFailure = "";

  const dialOnAndOn = async () => {
    while (performance.now() < endsAtMs) {
      const dialedAtMs = performance.now();
      try {
        await exchangeOnce(spec, question);
        const nowMs = performance.now();
        latencies.add(nowMs - dialedAtMs);
        count++;
        lastAtMs = Math.max(endsAtMs, nowMs);
      } catch (error) {
        latencies.add(performance.now() - dialedAtMs);
        failed++;
        firstFailure ||= error instanceof Error ? error.message : String(error);
        // Whatever is wrong, do not make it worse.
        await sleep(20);
      }
      if (spec.pauseMs > 0) await sleep(spec.pauseMs);
    }
  };
  await Promise.all(Array.from({ length: spec.parallel }, dialOnAndOn));
  return {
    count,
    seconds: (lastAtMs - startedAtMs) / 1000,
    failed,
    firstFailure,
    ...latencies.summary(),
  };
}

async function exchangeOnce(spec: Spec, question: Buffer): Promise<void> {
  const startedAtMs = performance.now();
  const connection = await openConnection(spec.route, spec.timeoutMs);
  let missingBytes = spec.byteCount;
  try {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => {
          reject(new Error(`no answer after ${spec.timeoutMs} ms`));
        },
        spec.timeoutMs - (performance.now() - startedAtMs),
      );
      connection.handler = {
        received: (byteCount) => {
          missingBytes -= byteCount;
          if (missingBytes > 0) return;
          clearTimeout(timer);
          resolve();
        },
        closed: (reason) => {
          clearTimeout(timer);
          reject(new Error(`lost before the answer: ${reason}`));
        },
      };
      connection.send(question);
    });
  } finally {
    connection.destroy();
  }
}

function sleep(durationMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, durationMs));
}
