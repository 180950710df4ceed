/** Reports one write: an error, or how many bytes of it were taken. */
export type WriteDone = (error: NodeJS.ErrnoException | null, writtenBytes: number) => void;

/** What a {@link LogSink} appends its lines to. One write at a time. */
export interface LogTarget {
  /**
   * Take some or all of `chunk`; `done` may be called before this returns. `EAGAIN` means that
   * nothing can be taken just now.
   */
  write(chunk: Buffer, done: WriteDone): void;

  /** The same, at once, for the last lines before an exit. Throws what `write` would report. */
  writeSync(chunk: Buffer): number;

  /** Let go of the old file before the next write, after somebody renamed it. */
  reopen?(): void;

  /** Release what the target opened itself. Not while a write is under way. */
  close(): void;
}
