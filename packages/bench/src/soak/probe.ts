// Preloaded into a process under test, which was started with --expose-gc and a channel: tells, when
// asked, what is left there after a garbage collection.

/** What a process holds. */
export interface ProbeSample {
  readonly heapUsedBytes: number;
  /** What keeps its event loop busy, by kind: sockets, listeners, timers. */
  readonly handles: Readonly<Record<string, number>>;
}

const HANDLE_KINDS = /Timeout|Socket|Server|Pipe|TLS/;

process.on("message", () => {
  globalThis.gc?.();
  const handles: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo().sort()) {
    if (HANDLE_KINDS.test(kind)) handles[kind] = (handles[kind] ?? 0) + 1;
  }
  const { heapUsed } = process.memoryUsage();
  process.send?.({ heapUsedBytes: heapUsed, handles } satisfies ProbeSample);
});
// Listening there must not keep the process alive.
process.channel?.unref();
