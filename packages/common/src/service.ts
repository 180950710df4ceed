import { systemClock } from "./clock.ts";
import { systemFileExists } from "./file-exists.ts";
import { memoryLimitBytes } from "./memory-limit.ts";
import { boundGarbage } from "./garbage-bound.ts";
import { tuneGarbageCollection } from "./garbage-collection.ts";
import type { FlagTable } from "./flags/flag-table.ts";
import type { LoggingOptions } from "./log/logging-options.ts";
import type { ProgramLogger } from "./log/pino-logger.ts";
import type { ProcessMetrics } from "./metrics/process-metrics.ts";
import { startProgram } from "./program.ts";
import type { Program } from "./program.ts";
import { systemRandom } from "./random.ts";
import { listenForStop } from "./signals.ts";
import type { ProcessPort } from "./signals.ts";

/** The parts of Node's `process` that a service runs on. */
export interface ServiceProcess extends ProcessPort {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  exitCode?: number | string | null | undefined;
  on(event: "uncaughtException", listener: (error: Error) => void): unknown;
  on(signal: Parameters<ProcessPort["on"]>[0], listener: () => void): unknown;
}

/** What a service is given to run with. */
export interface ServicePorts {
  readonly clock: typeof systemClock;
  readonly random: typeof systemRandom;
  readonly logger: ProgramLogger;
  readonly processMetrics: ProcessMetrics;
}

export interface ServiceDefinition<Options> {
  /** Start; from then on the service runs until its `stop` is called. */
  start(options: Options, ports: ServicePorts): Promise<RunningService>;

  /** Exit code of a second signal while stopping: upstream's server 1, agent 0. */
  readonly secondSignalExitCode: number;
}

export interface RunningService {
  /** End in an orderly way; called once, at the first signal. */
  stop(): Promise<void>;
}

/**
 * Run a program that serves until it is told to stop: flags, logger, signals, exit code.
 *
 * SIGTERM and SIGINT stop it in an orderly way, a second one at once; SIGHUP reopens the log file.
 * An error that nobody handles is logged before it ends the process.
 */
export async function runService<
  Table extends FlagTable,
  Options extends { readonly logging: LoggingOptions },
>(
  process: ServiceProcess,
  program: Program<Table, Options>,
  definition: ServiceDefinition<Options>,
): Promise<void> {
  tuneGarbageCollection();
  boundGarbage(1, systemClock);
  process.exitCode = await startProgram(
    program,
    {
      argv: process.argv.slice(2),
      env: process.env,
      random: systemRandom,
      fileExists: systemFileExists,
      memoryLimitBytes,
      stdout: (text) => process.stdout.write(text),
      stderr: (text) => process.stderr.write(text),
    },
    async (options) => {
      // Loaded here, because they take time that help, mistakes and the client library need not wait.
      const { createLogger } = await import("./log/pino-logger.ts");
      const identity = { program: program.name, version: program.version };
      const logger = createLogger(options.logging, identity, { clock: systemClock });
      try {
        await serve(process, options, definition, logger, await loadProcessMetrics());
        // The wait below does not keep the process alive.
        process.exitCode = 0;
        return 0;
      } finally {
        await logger.close();
      }
    },
  );
}

/**
 * Metrics of this process, for an executable that {@link runService} does not run. To be made once;
 * loaded only then, because that takes time.
 */
export async function loadProcessMetrics(): Promise<ProcessMetrics> {
  const { ProcessMetrics } = await import("./metrics/process-metrics.ts");
  return new ProcessMetrics();
}

async function serve<Options>(
  process: ServiceProcess,
  options: Options,
  definition: ServiceDefinition<Options>,
  logger: ProgramLogger,
  processMetrics: ProcessMetrics,
): Promise<void> {
  process.on("SIGHUP", () => {
    logger.reopen();
  });
  process.on("uncaughtException", (error) => {
    logger.error("program.failed", error);
    logger.flushSync();
    process.exit(1);
  });
  logger.info("program.starting", { pid: process.pid });
  const service = await definition.start(options, {
    clock: systemClock,
    random: systemRandom,
    logger,
    processMetrics,
  });
  logger.info("program.started");
  await new Promise<void>((resolve) => {
    listenForStop(process, {
      onStop: (signal) => {
        logger.info("program.stopping", { signal });
        resolve();
      },
      secondExitCode: definition.secondSignalExitCode,
      onExit: () => {
        logger.flushSync();
      },
    });
  });
  await service.stop();
  logger.info("program.stopped");
}
