import type { RoleProcess } from "../processes/role-process.ts";
import type { TaskKind, TaskResult, TaskSpec } from "./load-task.ts";

/** For all connections of a task to open; an idle one has thousands, with a TLS handshake each. */
const OPEN_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 5_000;

/** A task whose connections are open in the load process. */
export interface RemoteTask<Kind extends TaskKind> {
  /** @throws {Error} after `timeoutMs`, which is for when all else fails: tasks end by themselves. */
  run(timeoutMs: number): Promise<TaskResult<Kind>>;
}

/** A load process, seen from the bench. */
export class LoadClient {
  readonly #process: RoleProcess<"load">;

  constructor(process: RoleProcess<"load">) {
    this.#process = process;
  }

  /** Open a task, do `work` with it, and close it whatever happens. */
  async withTask<Kind extends TaskKind, Outcome>(
    kind: Kind,
    spec: TaskSpec<Kind>,
    work: (task: RemoteTask<Kind>) => Promise<Outcome>,
  ): Promise<Outcome> {
    const taskId = await this.#process.call("open", { kind, spec }, OPEN_TIMEOUT_MS);
    const close = () => this.#process.call("close", taskId, CLOSE_TIMEOUT_MS);
    try {
      const outcome = await work({
        run: (timeoutMs) => this.#process.call("run", taskId, timeoutMs),
      });
      await close();
      return outcome;
    } catch (error) {
      // The first error is the one that tells.
      await close().catch(() => undefined);
      throw error;
    }
  }
}
