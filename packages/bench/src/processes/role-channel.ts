import type { Child } from "./child-processes.ts";
import type { RoleReply, RoleRequest } from "./roles.ts";

interface Waiting {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Requests to one of the bench's own processes, and its replies. */
export class RoleChannel {
  readonly #child: Child;
  readonly #name: string;
  readonly #waiting = new Map<number, Waiting>();
  #lastRequestId = 0;

  /** @param name - For messages. */
  constructor(child: Child, name: string) {
    this.#child = child;
    this.#name = name;
    child.process.on("message", (reply) => {
      this.#onReply(reply as RoleReply);
    });
    child.process.on("exit", () => {
      for (const { reject } of this.#waiting.values()) reject(this.#endedError());
    });
  }

  /** @throws {Error} if the process says so, does not answer in time, or ends. */
  request(command: string, argument: unknown, timeoutMs: number): Promise<unknown> {
    const requestId = ++this.#lastRequestId;
    return new Promise((resolve, reject) => {
      if (!this.#child.process.connected) {
        reject(this.#endedError());
        return;
      }
      const settled = () => {
        clearTimeout(timer);
        this.#waiting.delete(requestId);
      };
      const timer = setTimeout(() => {
        settled();
        reject(new Error(`the ${this.#name} process did not ${command} within ${timeoutMs} ms`));
      }, timeoutMs);
      this.#waiting.set(requestId, {
        resolve: (result) => {
          settled();
          resolve(result);
        },
        reject: (error) => {
          settled();
          reject(error);
        },
      });
      const request: RoleRequest = { requestId, command, argument };
      this.#child.process.send(request);
    });
  }

  #onReply({ requestId, result, error }: RoleReply): void {
    const waiting = this.#waiting.get(requestId);
    if (error === undefined) waiting?.resolve(result);
    else waiting?.reject(new Error(error));
  }

  #endedError(): Error {
    return new Error(`the ${this.#name} process has ended: ${this.#child.stderrTail()}`);
  }
}
