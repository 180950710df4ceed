/** What the bench gets from the process it runs in. */
export interface BenchHost {
  /** Arguments only, without the interpreter and the script. */
  readonly argv: readonly string[];
  /** The current folder. */
  readonly cwd: string;
  stdout(text: string): void;
  stderr(text: string): void;
  /** A terminal for a line of progress; `undefined` where none is watched. */
  readonly terminal: { write(text: string): void; readonly columns: number } | undefined;
  /** Call `listener` when the process ends, for whatever reason. It cannot wait for anything. */
  onExit(listener: () => void): void;
}
