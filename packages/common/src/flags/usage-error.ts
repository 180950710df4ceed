/**
 * The command line, or the configuration it describes, cannot be used.
 *
 * Carries every problem that was found, so that an operator mends them all in one round; each is a
 * complete line, and the first is the one upstream would have stopped at.
 */
export class UsageError extends Error {
  override readonly name = "UsageError";
  readonly problems: readonly string[];

  constructor(problems: readonly [string, ...string[]]) {
    super(problems.join("; "));
    this.problems = Object.freeze([...problems]);
  }
}
