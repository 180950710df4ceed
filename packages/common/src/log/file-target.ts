import {
  closeSync,
  fstatSync,
  ftruncate,
  ftruncateSync,
  openSync,
  write,
  writeSync,
} from "node:fs";
import { systemErrorText } from "../system-error-text.ts";
import type { LogTarget, WriteDone } from "./log-target.ts";

export interface FileTargetEvents {
  /** The file reached its limit and was cut to nothing; `bytes` are gone. */
  truncated(bytes: number): void;

  /** The new file could not be opened; lines go on into the old one. */
  reopenFailed(error: unknown): void;
}

/**
 * A file that lines are appended to from the thread pool, as a slow disk must not stop the loop.
 *
 * As klog does with `--log-file`, it cuts the file to nothing, keeping no old one, before a write
 * that would bring it to `maxBytes`.
 */
export class FileTarget implements LogTarget {
  readonly #path: string;
  readonly #maxBytes: number;
  readonly #events: FileTargetEvents;
  #fd: number;
  #sizeBytes: number;
  #reopenWanted = false;

  /**
   * @param maxBytes - 0 for no limit.
   * @throws if the file cannot be opened for appending, naming the path and the reason.
   */
  constructor(path: string, maxBytes: number, events: FileTargetEvents) {
    this.#path = path;
    this.#maxBytes = maxBytes;
    this.#events = events;
    this.#fd = openForAppending(path);
    this.#sizeBytes = fstatSync(this.#fd).size;
  }

  write(chunk: Buffer, done: WriteDone): void {
    this.#reopenIfWanted();
    if (!this.#wouldFill(chunk)) {
      this.#append(chunk, done);
      return;
    }
    ftruncate(this.#fd, 0, (error) => {
      if (error === null) this.#cut();
      this.#append(chunk, done);
    });
  }

  writeSync(chunk: Buffer): number {
    this.#reopenIfWanted();
    if (this.#wouldFill(chunk)) {
      ftruncateSync(this.#fd, 0);
      this.#cut();
    }
    const writtenBytes = writeSync(this.#fd, chunk);
    this.#sizeBytes += writtenBytes;
    return writtenBytes;
  }

  reopen(): void {
    // A write may be under way on the old descriptor, so the change waits for the next one.
    this.#reopenWanted = true;
  }

  close(): void {
    closeSync(this.#fd);
  }

  #append(chunk: Buffer, done: WriteDone): void {
    write(this.#fd, chunk, (error, writtenBytes) => {
      this.#sizeBytes += writtenBytes;
      done(error, writtenBytes);
    });
  }

  #wouldFill(chunk: Buffer): boolean {
    return (
      this.#maxBytes > 0 && this.#sizeBytes > 0 && this.#sizeBytes + chunk.length >= this.#maxBytes
    );
  }

  #cut(): void {
    const bytes = this.#sizeBytes;
    this.#sizeBytes = 0;
    this.#events.truncated(bytes);
  }

  #reopenIfWanted(): void {
    if (!this.#reopenWanted) return;
    this.#reopenWanted = false;
    try {
      const fd = openForAppending(this.#path);
      closeSync(this.#fd);
      this.#fd = fd;
      this.#sizeBytes = fstatSync(fd).size;
    } catch (error) {
      this.#events.reopenFailed(error);
    }
  }
}

function openForAppending(path: string): number {
  try {
    return openSync(path, "a", 0o644);
  } catch (error) {
    throw new Error(
      `failed to open the log file: open ${path}: ${systemErrorText(error as NodeJS.ErrnoException)}`,
      { cause: error },
    );
  }
}
