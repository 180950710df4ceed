/** Signals the programs react to. */
export type ProcessSignal = "SIGINT" | "SIGTERM" | "SIGHUP";

/** Where signals come from: Node's `process`, or a fake. */
export interface SignalSource {
  on(signal: ProcessSignal, listener: () => void): unknown;
  off(signal: ProcessSignal, listener: () => void): unknown;
}

/** The parts of Node's `process` by which a program is told to stop, and stops. */
export interface ProcessPort extends SignalSource {
  exit(code: number): void;
}

export interface StopSignalOptions {
  /** The first SIGTERM or SIGINT: begin to stop. Called at most once. */
  onStop(signal: ProcessSignal): void;

  /** Exit code of a second one, which ends the process at once: upstream's server 1, agent 0. */
  readonly secondExitCode: number;

  /** Called before that exit, for what must be done without waiting, such as the last log lines. */
  onExit?(): void;
}

/**
 * Stop in an orderly way at the first signal, and at once at any further one, whatever the orderly
 * way is waiting for.
 *
 * @returns stops listening, so that a signal does again what it does by default.
 */
export function listenForStop(port: ProcessPort, options: StopSignalOptions): () => void {
  let isStopping = false;
  const listenerOf = (signal: ProcessSignal) => () => {
    if (isStopping) {
      options.onExit?.();
      port.exit(options.secondExitCode);
      return;
    }
    isStopping = true;
    options.onStop(signal);
  };
  const onTerminate = listenerOf("SIGTERM");
  const onInterrupt = listenerOf("SIGINT");
  port.on("SIGTERM", onTerminate);
  port.on("SIGINT", onInterrupt);
  return () => {
    port.off("SIGTERM", onTerminate);
    port.off("SIGINT", onInterrupt);
  };
}
