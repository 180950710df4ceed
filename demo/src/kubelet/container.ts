import { StringDecoder } from "node:string_decoder";
import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import type { PodSpec } from "../cluster/cluster.ts";
import { startCommand } from "./command-process.ts";
import type { CommandProcess } from "./command-process.ts";
import { ContainerLog } from "./container-log.ts";

const DEFAULT_COMMAND = [
  "sh",
  "-c",
  'i=0; while :; do i=$((i + 1)); echo "$HOSTNAME: line $i"; sleep 1; done',
];

/** Who is attached and does not read loses what the container writes beyond this. */
const MAX_QUEUED_BYTES = 1024 * 1024;

/** The container of a pod: a process of this machine, without any walls around it. */
export class Container {
  readonly pod: PodSpec;
  readonly log = new ContainerLog();
  readonly process: CommandProcess;
  /** Resolves when it has exited and all that it wrote is in the log. */
  readonly ended: Promise<void>;
  readonly #watchers = { stdout: new Set<Writable>(), stderr: new Set<Writable>() };

  constructor(pod: PodSpec) {
    const { command = DEFAULT_COMMAND, stdin = false, tty = false } = pod.container ?? {};
    this.pod = pod;
    this.process = startCommand(command, { tty, hostname: pod.name });
    if (!stdin && !tty) this.process.stdin.end();
    this.ended = Promise.all([
      this.process.exited,
      this.#watch(this.process.stdout, this.#watchers.stdout),
      this.#watch(this.process.stderr, this.#watchers.stderr),
    ]).then(() => {
      this.log.complete();
    });
  }

  /** Give what it writes from now on to the outputs too. */
  attach(stdout: Writable | undefined, stderr: Writable | undefined): void {
    for (const [output, watchers] of [
      [stdout, this.#watchers.stdout],
      [stderr, this.#watchers.stderr],
    ] as const) {
      if (output === undefined) continue;
      watchers.add(output);
      output.once("close", () => watchers.delete(output));
    }
  }

  /** Keep what comes from an output; resolves at its end. */
  async #watch(output: Readable | undefined, watchers: ReadonlySet<Writable>): Promise<void> {
    if (output === undefined) return;
    const decoder = new StringDecoder();
    output.on("data", (piece: Buffer) => {
      this.log.append(decoder.write(piece));
      for (const watcher of watchers) {
        if (watcher.writable && watcher.writableLength < MAX_QUEUED_BYTES) watcher.write(piece);
      }
    });
    await finished(output).catch(() => undefined);
  }
}
