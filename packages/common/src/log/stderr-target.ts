import { closeSync, constants, fstatSync, openSync, write, writeSync } from "node:fs";
import type { LogTarget } from "./log-target.ts";

const STDERR = 2;

/**
 * Standard error, written so that a reader who stops reading never stops this process.
 *
 * A pipe (what container runtimes give) or a terminal is opened a second time without blocking:
 * lines then leave within the call that made them, so none is lost by an exit, and a full pipe
 * answers `EAGAIN`. Changing the descriptor we were given instead would change it for everyone who
 * shares it. Anything else, a file or a journal's socket, is written from the thread pool; if that
 * blocks for good it holds one of the pool's threads and the exit of the process.
 */
export function openStderr(): LogTarget {
  const fd = openWithoutBlocking();
  return fd === undefined ? pooledTarget(STDERR) : directTarget(fd);
}

function openWithoutBlocking(): number | undefined {
  try {
    const kind = fstatSync(STDERR);
    if (!kind.isFIFO() && !kind.isCharacterDevice()) return undefined;
    return openSync(
      `/proc/self/fd/${STDERR}`,
      constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY,
    );
  } catch {
    // No procfs, or a pipe of another user: the thread pool will do.
    return undefined;
  }
}

function directTarget(fd: number): LogTarget {
  return {
    write(chunk, done) {
      let writtenBytes = 0;
      let failure: NodeJS.ErrnoException | null = null;
      try {
        writtenBytes = writeSync(fd, chunk);
      } catch (error) {
        failure = error as NodeJS.ErrnoException;
      }
      done(failure, writtenBytes);
    },
    writeSync: (chunk) => writeSync(fd, chunk),
    close() {
      closeSync(fd);
    },
  };
}

function pooledTarget(fd: number): LogTarget {
  return {
    write(chunk, done) {
      write(fd, chunk, done);
    },
    writeSync: (chunk) => writeSync(fd, chunk),
    close: () => undefined,
  };
}
