import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

/** A file to be written, and who may read it. */
export interface FileToWrite {
  readonly path: string;
  readonly text: string;
  /** E.g. `0o600`. The process's umask can only take away from it. */
  readonly mode: number;
}

export interface WriteFilesOptions {
  /** Replace what is there. */
  readonly overwrite: boolean;
}

/** @throws {Error} naming every one of `paths` at which there is something. */
export function refuseExisting(paths: readonly string[]): void {
  const existing = paths.filter((path) => existsSync(path));
  if (existing.length > 0) {
    throw new Error(
      `nothing was written, because these files exist (--force replaces them): ${existing.join(", ")}`,
    );
  }
}

/**
 * Write all `files`, or none: a failure on the way, such as a file that exists where `overwrite` is
 * not set, removes what was begun. Folders are made as needed.
 *
 * Each file has its mode from the moment it exists. Where something is replaced, the new file is
 * complete before it takes the old one's place, so that no reader sees half a key, nor a key under
 * the old file's mode.
 */
export function writeFiles(files: readonly FileToWrite[], { overwrite }: WriteFilesOptions): void {
  const begun: string[] = [];
  try {
    for (const file of files) {
      mkdirSync(dirname(file.path), { recursive: true });
      const path = overwrite ? temporaryPath(file.path) : file.path;
      // What a killed process has left behind.
      if (overwrite) rmSync(path, { force: true });
      const descriptor = openSync(path, "wx", file.mode);
      begun.push(path);
      writeAndClose(descriptor, file.text);
    }
    if (overwrite) for (const { path } of files) renameSync(temporaryPath(path), path);
  } catch (error) {
    for (const path of begun) rmSync(path, { force: true });
    throw error;
  }
}

function temporaryPath(path: string): string {
  return `${path}.new`;
}

function writeAndClose(descriptor: number, text: string): void {
  try {
    writeSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
