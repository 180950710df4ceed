import { randomBytes } from "node:crypto";
import { chmodSync, lstatSync, renameSync, statSync, unlinkSync } from "node:fs";
import { connect } from "node:net";
import { basename, dirname, join } from "node:path";

/** Longest path of a Unix socket on Linux: `sun_path` of 108 bytes, the last of them 0. */
const MAX_PATH_BYTES = 107;

/** What keeps a path from being used for a socket, as an error with the code of the system. */
class SocketPathError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * The file of a listening Unix socket.
 *
 * The socket is bound under a temporary name beside `path`, given its mode, and renamed into place:
 * so it is never open wider than it should be, and it replaces the socket of a predecessor that is
 * gone without a gap. It is removed at the end only if it is still the one that was put there, so a
 * server that leaves late never removes its successor's.
 */
export class UnixSocketFile {
  readonly #path: string;
  readonly temporaryPath: string;
  /** What was found at the path and may be replaced; `undefined` for nothing. */
  #replaceable: string | undefined;
  #identity: string | undefined;

  constructor(path: string) {
    this.#path = path;
    // Not longer than most names, since the length of the whole path is limited.
    this.temporaryPath = join(dirname(path), `.${randomBytes(3).toString("hex")}`);
  }

  /**
   * Check that the path is free: nothing there, or the socket of a process that is gone and
   * `replaceStale`. Neither a socket that somebody listens on nor anything but a socket is ever
   * replaced.
   *
   * @throws an error with `code` (`EADDRINUSE`, `ENAMETOOLONG`, ...) and a reason.
   */
  async claim(replaceStale: boolean): Promise<void> {
    const longest = Math.max(Buffer.byteLength(this.#path), Buffer.byteLength(this.temporaryPath));
    if (longest > MAX_PATH_BYTES) {
      throw new SocketPathError(
        "EINVAL",
        `invalid argument (${longest} bytes, at most ${MAX_PATH_BYTES})`,
      );
    }
    if (statSync(dirname(this.#path), { throwIfNoEntry: false }) === undefined) {
      // Binding would fail as well, but libuv calls that "permission denied".
      throw new SocketPathError("ENOENT", "no such file or directory");
    }
    const existing = lstatSync(this.#path, { throwIfNoEntry: false });
    if (existing === undefined) return;
    if (!existing.isSocket()) {
      throw new SocketPathError("EADDRINUSE", "address already in use (a file that is no socket)");
    }
    if (!replaceStale) throw new SocketPathError("EADDRINUSE", "address already in use");
    this.#replaceable = identityOf(this.#path);
    if (await isLive(this.#path)) {
      throw new SocketPathError(
        "EADDRINUSE",
        "address already in use (another process listens there)",
      );
    }
  }

  /**
   * Give the bound socket its mode and its name.
   *
   * @throws an error with `code` if somebody has taken the path since {@link claim}.
   */
  publish(mode: number): void {
    chmodSync(this.temporaryPath, mode);
    if (identityOf(this.#path) !== this.#replaceable) {
      throw new SocketPathError(
        "EADDRINUSE",
        "address already in use (another process has just taken it)",
      );
    }
    renameSync(this.temporaryPath, this.#path);
    this.#identity = identityOf(this.#path);
  }

  /** Remove the socket, unless another one has taken its place. Never throws. */
  remove(): void {
    try {
      if (this.#identity !== undefined && identityOf(this.#path) === this.#identity) {
        unlinkSync(this.#path);
      }
    } catch {
      // Gone, or not ours to remove any more: either way there is nothing left to do.
    }
    this.#identity = undefined;
  }

  get name(): string {
    return basename(this.#path);
  }
}

/** What tells a file from one made later, and stays when its owner or mode is changed. */
function identityOf(path: string): string | undefined {
  const stat = lstatSync(path, { throwIfNoEntry: false, bigint: true });
  return stat === undefined ? undefined : `${stat.dev}:${stat.ino}:${stat.birthtimeNs}`;
}

/** Whether somebody accepts connections at `path`. Anything but a plain refusal counts as yes. */
function isLive(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path);
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", (error: NodeJS.ErrnoException) => {
      resolve(error.code !== "ECONNREFUSED" && error.code !== "ENOENT");
    });
  });
}
