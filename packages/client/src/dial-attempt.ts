import type { CancelTimer, Clock } from "@reachback/common";
import { ClientError } from "./client-error.ts";
import type { DialOptions } from "./client-options.ts";

/** One dial until its outcome is known: its deadline, and whoever else may give it up. */
export class DialAttempt {
  readonly endpoint: string;
  readonly allowHalfOpen: boolean;
  readonly onRead: DialOptions["onRead"];
  /** What is waited for now, for the message of {@link ClientError} `ERR_DIAL_TIMEOUT`. */
  step = "starting";

  readonly #controller = new AbortController();
  readonly #cancelTimer: CancelTimer;
  readonly #callerSignal: AbortSignal | undefined;

  constructor(
    endpoint: string,
    options: DialOptions & { readonly timeoutMs: number },
    clock: Clock,
  ) {
    const { timeoutMs, signal, allowHalfOpen = false, onRead } = options;
    this.endpoint = endpoint;
    this.allowHalfOpen = allowHalfOpen;
    this.onRead = onRead;
    this.#callerSignal = signal;
    this.#cancelTimer = clock.schedule(timeoutMs, () => {
      const text = `dial of ${endpoint} not done after ${timeoutMs} ms: ${this.step}`;
      this.giveUp(new ClientError("ERR_DIAL_TIMEOUT", text));
    });
    if (signal?.aborted === true) this.#onCallerAbort();
    else signal?.addEventListener("abort", this.#onCallerAbort);
  }

  /** Aborts when the dial is given up; the reason is what it rejects with. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  giveUp(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** The outcome is known: nobody gives it up any more. */
  settle(): void {
    this.#cancelTimer();
    this.#callerSignal?.removeEventListener("abort", this.#onCallerAbort);
  }

  readonly #onCallerAbort = (): void => {
    this.giveUp(this.#callerSignal?.reason);
  };
}
