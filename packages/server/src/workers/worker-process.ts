import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import type { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import type { Clock } from "@reachback/common";
import type { ReviewedToken } from "../authentication/verdict.ts";
import {
  WORKER_ANSWER_TIMEOUT_MS,
  WORKER_MAX_WAITING_MESSAGES,
  WORKER_MAX_WAITING_SOCKETS,
  WORKER_PROFILE_TIMEOUT_MS,
} from "../limits.ts";
import type {
  FromWorker,
  ProfileAnswer,
  ToWorker,
  TunnelChange,
  WorkerReport,
} from "./messages.ts";

/** Beside this file, and like it a source or a build. */
const MAIN = fileURLToPath(new URL(`main${import.meta.url.slice(-3)}`, import.meta.url));

/** What the owner of a worker's process is told. */
export interface WorkerProcessOwner {
  /** It takes sockets from now on. */
  started(): void;
  /** It cannot, or can no more, for this reason; its end follows. */
  failed(message: string): void;
  tunnelChanged(change: TunnelChange): void;
  tokenReviewed(reviewed: ReviewedToken): void;
  /** So many connections and dials are left; only once it was told to leave or to accept no more. */
  heldChanged(count: number): void;
  log(message: Extract<FromWorker, { type: "log" }>): void;
  /** It is gone. Called once. */
  exited(how: string): void;
}

/** The process of a worker, seen from the primary. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #clock: Clock;
  readonly #owner: WorkerProcessOwner;
  readonly #answers = new Map<number, (value: unknown) => void>();
  readonly exited: Promise<void>;
  #lastRequest = 0;
  #isGone = false;
  /** Sent, and not yet in its hands as far as the kernel and Node tell. */
  #waitingMessages = 0;
  readonly #waitingSockets = new Set<Socket>();

  constructor(clock: Clock, owner: WorkerProcessOwner) {
    this.#clock = clock;
    this.#owner = owner;
    this.#child = fork(MAIN, [], {
      serialization: "advanced",
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.exited = new Promise((resolve) => {
      const onExit = (how: string) => {
        if (this.#isGone) return;
        this.#isGone = true;
        for (const answer of [...this.#answers.values()]) answer(undefined);
        // Node keeps those that it has not sent, and says nothing of them any more.
        for (const socket of this.#waitingSockets) socket.destroy();
        this.#waitingSockets.clear();
        owner.exited(how);
        resolve();
      };
      this.#child.once("exit", (code, signal) => {
        onExit(signal === null ? `exit code ${code}` : `signal ${signal}`);
      });
      this.#child.on("error", (error) => {
        // It could not be started, or a message could not be sent; then its end is near.
        if (this.#child.pid === undefined) onExit(error.message);
      });
    });
    this.#child.on("message", (data) => {
      const message = data as unknown as FromWorker;
      switch (message.type) {
        case "started":
          owner.started();
          return;
        case "failed":
          owner.failed(message.message);
          return;
        case "tunnel":
          owner.tunnelChanged(message.change);
          return;
        case "token-reviewed":
          owner.tokenReviewed(message.reviewed);
          return;
        case "held":
          owner.heldChanged(message.count);
          return;
        case "log":
          owner.log(message);
          return;
        case "answer":
          this.#answers.get(message.request)?.(message.value);
          return;
      }
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Whether it takes no more sockets, because too many wait for it. */
  get isBehind(): boolean {
    return this.#waitingSockets.size >= WORKER_MAX_WAITING_SOCKETS;
  }

  send(message: ToWorker): void {
    // A failure is that of the process, which `exit` tells of.
    if (!this.#child.connected) return;
    if (this.#waitingMessages >= WORKER_MAX_WAITING_MESSAGES) {
      this.giveUp(`it has left ${this.#waitingMessages} messages of the primary unread`);
      return;
    }
    this.#waitingMessages++;
    this.#child.send(message, () => {
      this.#waitingMessages--;
    });
  }

  /** Hand over a socket that was accepted on the listener of that index. */
  sendSocket(listener: number, socket: Socket): void {
    const message: ToWorker = { type: "socket", listener };
    if (!this.#child.connected) {
      socket.destroy();
      return;
    }
    this.#waitingSockets.add(socket);
    this.#child.send(message, socket, { keepOpen: false }, (error) => {
      this.#waitingSockets.delete(socket);
      if (error !== null) socket.destroy();
    });
  }

  /** Have it tell its agents; resolves when it has, or is late. What it holds, it says by itself. */
  async leave(): Promise<void> {
    await this.#ask((request) => ({ type: "leave", request }), WORKER_ANSWER_TIMEOUT_MS);
  }

  /** Have it take no more sockets, agents and calls; resolves as {@link leave}. */
  async acceptNoMore(): Promise<void> {
    await this.#ask((request) => ({ type: "accept-no-more", request }), WORKER_ANSWER_TIMEOUT_MS);
  }

  /** How it does; `undefined` if it does not say so in time. */
  report(): Promise<WorkerReport | undefined> {
    return this.#ask(
      (request) => ({ type: "report", request }),
      WORKER_ANSWER_TIMEOUT_MS,
    ) as Promise<WorkerReport | undefined>;
  }

  /** A profile of it; `undefined` if there is none in time. */
  profile(path: string, rawQuery: string): Promise<ProfileAnswer | undefined> {
    return this.#ask(
      (request) => ({ type: "profile", request, path, rawQuery }),
      WORKER_PROFILE_TIMEOUT_MS,
    ) as Promise<ProfileAnswer | undefined>;
  }

  /** End it at once, for this reason. */
  giveUp(reason: string): void {
    this.#owner.failed(reason);
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #ask(messageOf: (request: number) => ToWorker, timeoutMs: number): Promise<unknown> {
    if (this.#isGone) return Promise.resolve(undefined);
    const request = ++this.#lastRequest;
    return new Promise((resolve) => {
      const answer = (value: unknown) => {
        cancel();
        this.#answers.delete(request);
        resolve(value);
      };
      this.#answers.set(request, answer);
      const cancel = this.#clock.schedule(timeoutMs, () => {
        answer(undefined);
      });
      this.send(messageOf(request));
    });
  }
}
