import { rmSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import {
  SocketListener,
  boundGarbage,
  loadProcessMetrics,
  systemClock,
  systemRandom,
  tuneGarbageCollection,
} from "@reachback/common";
import type { Logger, OpsRequest, OpsRoute, ProcessMetrics } from "@reachback/common";
import { serverProfilingRoutes } from "../ops-listeners.ts";
import { Server } from "../server.ts";
import { ChannelLogger, LineChannel } from "./channel-logger.ts";
import type {
  FromWorker,
  ProfileAnswer,
  ToWorker,
  TunnelChange,
  WorkerReport,
} from "./messages.ts";
import { Neighbour } from "./neighbour.ts";
import { TunnelNews } from "./tunnel-news.ts";

/** The parts of Node's `process` that a worker runs on. */
export interface WorkerProcess {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly connected: boolean;
  send?(
    message: unknown,
    handle: undefined,
    options: undefined,
    sent: (error: Error | null) => void,
  ): boolean;
  disconnect?(): void;
  exit(code: number): void;
  on(event: "message", listener: (message: unknown, handle: unknown) => void): unknown;
  on(event: "disconnect" | "SIGTERM" | "SIGINT" | "SIGHUP", listener: () => void): unknown;
  on(event: "uncaughtException", listener: (error: Error) => void): unknown;
}

type StartMessage = Extract<ToWorker, { type: "start" }>;

/** Where the worker of a slot takes dials from its neighbours. */
export function handInPath(folder: string, slot: number): string {
  return join(folder, `${slot}.sock`);
}

/**
 * Be a worker: a server whose sockets, signals, log and questions about its health go through the
 * primary. It ends when the primary says so, and at once when the primary is gone.
 */
export function runWorker(process: WorkerProcess): void {
  tuneGarbageCollection();
  // Signals are for the primary, but a terminal or a service manager sends them to all.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.on(signal, () => undefined);
  }
  const send = (message: FromWorker, sent: () => void = () => undefined) => {
    if (process.connected) process.send?.(message, undefined, undefined, sent);
    else sent();
  };
  let worker: Worker | undefined;
  let folder: string | undefined;
  let isDone = false;
  process.on("disconnect", () => {
    // What the primary would have removed, had it not been killed.
    if (!isDone && folder !== undefined) rmSync(folder, { recursive: true, force: true });
    process.exit(isDone ? 0 : 1);
  });
  process.on("message", (data, handle) => {
    const message = data as ToWorker;
    if (message.type === "start") {
      folder = message.folder;
      boundGarbage(message.options.workers, systemClock);
      const logger = new ChannelLogger(message.debugEnabled, new LineChannel(send));
      process.on("uncaughtException", (error) => {
        logger.error("program.failed", error);
        // Behind the line, which is sent by then.
        send({ type: "failed", message: error.message }, () => {
          process.exit(1);
        });
      });
      Worker.start(message, process.env, logger, send).then(
        (started) => {
          worker = started;
          send({ type: "started" });
        },
        (error: unknown) => {
          const text = error instanceof Error ? error.message : String(error);
          send({ type: "failed", message: text });
        },
      );
    } else if (message.type === "end") {
      const done = () => {
        isDone = true;
        process.disconnect?.();
      };
      if (worker === undefined) done();
      else void worker.end().then(done);
    } else if (worker !== undefined) {
      worker.take(message, handle);
    } else if (handle instanceof Socket) {
      handle.destroy();
    }
  });
}

class Worker {
  readonly #server: Server;
  readonly #start: StartMessage;
  readonly #send: (message: FromWorker) => void;
  readonly #listeners: readonly SocketListener[];
  readonly #processMetrics: ProcessMetrics;
  readonly #profiling: readonly OpsRoute[];
  readonly #logger: Logger;
  readonly #neighbours = new Map<number, Neighbour>();

  private constructor(
    server: Server,
    start: StartMessage,
    send: (message: FromWorker) => void,
    listeners: readonly SocketListener[],
    processMetrics: ProcessMetrics,
    logger: ChannelLogger,
  ) {
    this.#server = server;
    this.#start = start;
    this.#send = send;
    this.#listeners = listeners;
    this.#processMetrics = processMetrics;
    this.#logger = logger;
    this.#profiling = serverProfilingRoutes(start.options, { clock: systemClock, logger });
    server.registry.observe(
      new TunnelNews(systemClock, (change) => {
        send({ type: "tunnel", change });
      }),
    );
  }

  static async start(
    start: StartMessage,
    env: WorkerProcess["env"],
    logger: ChannelLogger,
    send: (message: FromWorker) => void,
  ): Promise<Worker> {
    const listeners: SocketListener[] = [];
    const processMetrics = await loadProcessMetrics();
    const server = await Server.start(start.options, {
      clock: systemClock,
      random: systemRandom,
      logger,
      version: start.version,
      env,
      worker: {
        handInPath: handInPath(start.folder, start.slot),
        tokenReviewed: (reviewed) => {
          send({ type: "token-reviewed", reviewed });
        },
        openListener: (options, handler) => {
          const listener = SocketListener.unbound(options, handler);
          listeners.push(listener);
          return Promise.resolve(listener);
        },
      },
    });
    return new Worker(server, start, send, listeners, processMetrics, logger);
  }

  take(message: Exclude<ToWorker, { type: "start" | "end" }>, handle: unknown): void {
    switch (message.type) {
      case "socket":
        // It may have been closed on the way.
        if (handle instanceof Socket) this.#listeners[message.listener]?.feed(handle);
        return;
      case "neighbour":
        this.#neighbourChanged(message.slot, message.changes);
        return;
      case "neighbour-gone":
        this.#neighbours.get(message.slot)?.gone();
        this.#neighbours.delete(message.slot);
        return;
      case "token-reviewed":
        this.#server.learnToken(message.reviewed);
        return;
      case "leave":
        this.#server.leave();
        this.#answerHeld(message.request);
        return;
      case "accept-no-more":
        this.#server.acceptNoMore();
        this.#answerHeld(message.request);
        return;
      case "report":
        this.#answer(message.request, this.#report());
        return;
      case "profile":
        this.#answer(message.request, this.#profile(message.path, message.rawQuery));
        return;
    }
  }

  /** End whatever is open, and resolve when nothing is left. */
  async end(): Promise<void> {
    for (const neighbour of this.#neighbours.values()) neighbour.end();
    await this.#server.end();
    for (const neighbour of this.#neighbours.values()) neighbour.gone();
  }

  #answerHeld(request: number): void {
    const tellHeld = () => {
      this.#send({ type: "held", count: this.#server.heldCount });
    };
    this.#server.onConnectionEnded(tellHeld);
    tellHeld();
    this.#send({ type: "answer", request, value: undefined });
  }

  /** Nothing where there is no value: a question that fails costs no connection. */
  #answer(request: number, value: Promise<unknown>): void {
    value.then(
      (known) => {
        this.#send({ type: "answer", request, value: known });
      },
      (error: unknown) => {
        this.#logger.error("worker.unanswered", error);
        this.#send({ type: "answer", request, value: undefined });
      },
    );
  }

  #neighbourChanged(slot: number, changes: readonly TunnelChange[]): void {
    let neighbour = this.#neighbours.get(slot);
    if (neighbour === undefined) {
      neighbour = new Neighbour(handInPath(this.#start.folder, slot), {
        clock: systemClock,
        flowPorts: this.#server.flowPorts,
        registry: this.#server.registry,
      });
      this.#neighbours.set(slot, neighbour);
    }
    for (const change of changes) neighbour.tunnelChanged(change);
  }

  async #report(): Promise<WorkerReport> {
    const process = await this.#processMetrics.readings();
    return { state: this.#server.state, nowMs: systemClock.now(), process };
  }

  async #profile(path: string, rawQuery: string): Promise<ProfileAnswer> {
    const route =
      this.#profiling.find((each) => each.path === path) ??
      this.#profiling.find((each) => each.path.endsWith("/"));
    const request: OpsRequest = {
      method: "GET",
      path,
      rawQuery,
      query: new URLSearchParams(rawQuery),
      host: "",
      acceptEncoding: "",
      signal: new AbortController().signal,
    };
    const answer = await route?.handler(request);
    if (answer === undefined) return { status: 404, body: "404 page not found", headers: {} };
    const { status, body, headers = {} } = answer;
    return { status, body: body instanceof Readable ? await buffer(body) : body, headers };
  }
}
