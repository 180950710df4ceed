import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { SUCCESS, nonZeroExit } from "../../cluster/status.ts";
import { startCommand } from "../command-process.ts";
import type { CommandProcess } from "../command-process.ts";
import type { Container } from "../container.ts";
import type { CommandStreams, StreamChoice } from "./command-streams.ts";

/** Run a command for a client of exec; it is ended when the client leaves. */
export async function runExec(
  command: readonly string[],
  { tty }: StreamChoice,
  container: Container,
  streams: CommandStreams,
): Promise<void> {
  const process = startCommand(command, { tty, hostname: container.pod.name });
  void streams.closed.then(() => {
    process.kill();
  });
  followResize(streams, process);
  if (streams.stdin === undefined) process.stdin.end();
  else void pass(streams.stdin, process.stdin);
  const outputs = [pass(process.stdout, streams.stdout), pass(process.stderr, streams.stderr)];
  const exitCode = await process.exited;
  await Promise.all(outputs);
  streams.finish(exitCode === 0 ? SUCCESS : nonZeroExit(exitCode));
}

/** Attach a client to a container, until one of them ends. */
export async function runAttach(container: Container, streams: CommandStreams): Promise<void> {
  const { process } = container;
  followResize(streams, process);
  if (container.pod.container?.stdin === true) {
    // The container outlives those who attach to it, so its input stays open.
    streams.stdin?.pipe(process.stdin, { end: false });
    streams.stdin?.on("error", () => undefined);
  } else {
    streams.stdin?.resume();
  }
  container.attach(streams.stdout, streams.stderr);
  await Promise.race([container.ended, streams.closed]);
  streams.stdin?.unpipe();
  streams.finish(SUCCESS);
}

/** Everything from one to the other, and the end; resolves when that is done or cannot be. */
async function pass(source: Readable | undefined, sink: Writable | undefined): Promise<void> {
  if (source === undefined) return;
  if (sink === undefined) {
    source.resume();
    return;
  }
  await pipeline(source, sink).catch(() => undefined);
}

function followResize({ resize }: CommandStreams, process: CommandProcess): void {
  if (resize === undefined) return;
  const lines = createInterface({ input: resize });
  // The client is gone, and `closed` says so.
  lines.on("error", () => undefined);
  lines.on("line", (line) => {
    try {
      const { Width, Height } = JSON.parse(line) as { Width: number; Height: number };
      process.resize(Width, Height);
    } catch {
      // Not a size, or the terminal is gone.
    }
  });
}
