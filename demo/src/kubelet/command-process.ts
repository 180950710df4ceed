import { spawn as spawnPiped } from "node:child_process";
import { constants } from "node:os";
import { Readable, Writable } from "node:stream";
import { spawn as spawnInTerminal } from "@lydell/node-pty";

/** A command that runs, in a terminal or on pipes. */
export interface CommandProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** A terminal has none. */
  readonly stderr: Readable | undefined;
  /** Resolves with the exit code, as shells count: 128 and the signal's number for a signal. */
  readonly exited: Promise<number>;
  /** Change the terminal's size; nothing without one. */
  resize(columns: number, rows: number): void;
  /** End it and what it has started. */
  kill(): void;
}

/** As shells say of a command that is not there. */
const EXIT_NOT_FOUND = 127;

const END_OF_TRANSMISSION = "\x04";

/**
 * Runs its arguments, and keeps the terminal open for a moment longer. Node takes the hang-up of a
 * terminal for its end, though what was written last may still be on its way.
 */
const LINGER = 'trap : INT QUIT; "$@"; code=$?; sleep 0.2; exit $code';

/** Start a command; one that cannot be started says so on its standard error and exits with 127. */
export function startCommand(
  command: readonly string[],
  { tty, hostname }: { readonly tty: boolean; readonly hostname: string },
): CommandProcess {
  const [file = "", ...args] = command;
  const env = { PATH: process.env["PATH"] ?? "", HOME: "/", HOSTNAME: hostname };
  return tty
    ? startInTerminal(file, args, { ...env, TERM: "xterm" })
    : startOnPipes(file, args, env);
}

function startOnPipes(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): CommandProcess {
  // In a process group of its own, so that all of it can be ended.
  const child = spawnPiped(file, args, { env, stdio: "pipe", detached: true });
  child.stdin.on("error", () => undefined);
  const exited = new Promise<number>((resolve) => {
    child.once("error", (error) => {
      child.stderr.push(`${error.message}\n`);
      resolve(EXIT_NOT_FOUND);
    });
    child.once("exit", (code, signal) => {
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    resize: () => undefined,
    kill: () => {
      killGroup(child.pid);
    },
  };
}

function startInTerminal(
  file: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): CommandProcess {
  const argv = ["-c", LINGER, "sh", file, ...args];
  const terminal = spawnInTerminal("sh", argv, { env, name: "xterm", encoding: null });
  const stdout = new Readable({
    read: () => {
      terminal.resume();
    },
  });
  // Declared as text, which it is not with `encoding: null`.
  terminal.onData((piece: unknown) => {
    if (!stdout.push(piece)) terminal.pause();
  });
  const exited = new Promise<number>((resolve) => {
    terminal.onExit(({ exitCode, signal = 0 }) => {
      stdout.push(null);
      resolve(signal === 0 ? exitCode : 128 + signal);
    });
  });
  return {
    stdin: new Writable({
      write: (piece: Buffer, _encoding, done) => {
        // Declared for text, but it goes to a socket.
        terminal.write(piece as unknown as string);
        done();
      },
      final: (done) => {
        terminal.write(END_OF_TRANSMISSION);
        done();
      },
    }),
    stdout,
    stderr: undefined,
    exited,
    resize: (columns, rows) => {
      terminal.resize(columns, rows);
    },
    kill: () => {
      killGroup(terminal.pid);
    },
  };
}

function killGroup(leader: number | undefined): void {
  if (leader === undefined) return;
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // All of it has ended.
  }
}
