import { Session } from "node:inspector";
import type { HeapProfiler, Profiler as CpuProfiler } from "node:inspector";
import type { Clock } from "../clock.ts";

/**
 * Record where this process spends its time, for `durationMs` or until `signal`.
 *
 * @returns a `.cpuprofile`, which Chrome DevTools and most editors open.
 */
export function recordCpuProfile(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
): Promise<string> {
  return withSession(async (session) => {
    await post<undefined>((done) => {
      session.post("Profiler.enable", done);
    });
    await post<undefined>((done) => {
      session.post("Profiler.start", done);
    });
    await pause(clock, durationMs, signal);
    const { profile } = await post<CpuProfiler.StopReturnType>((done) => {
      session.post("Profiler.stop", done);
    });
    return JSON.stringify(profile);
  });
}

/**
 * Record what this process allocates and still holds at the end, for `durationMs` or until
 * `signal`.
 *
 * @returns a `.heapprofile`, which Chrome DevTools opens.
 */
export function recordHeapProfile(
  clock: Clock,
  durationMs: number,
  signal: AbortSignal,
): Promise<string> {
  return withSession(async (session) => {
    await post<undefined>((done) => {
      session.post("HeapProfiler.startSampling", done);
    });
    await pause(clock, durationMs, signal);
    const { profile } = await post<HeapProfiler.StopSamplingReturnType>((done) => {
      session.post("HeapProfiler.stopSampling", done);
    });
    return JSON.stringify(profile);
  });
}

async function withSession<Result>(use: (session: Session) => Promise<Result>): Promise<Result> {
  const session = new Session();
  session.connect();
  try {
    return await use(session);
  } finally {
    // Also stops whatever was started, should a step have failed.
    session.disconnect();
  }
}

function post<Result>(
  send: (done: (error: Error | null, result: Result) => void) => void,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    send((error, result) => {
      if (error === null) resolve(result);
      else reject(error);
    });
  });
}

function pause(clock: Clock, durationMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const cancel = clock.schedule(durationMs, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    const stop = () => {
      cancel();
      resolve();
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
