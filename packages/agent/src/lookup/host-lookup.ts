/** Finds the addresses of host names. */
export interface HostLookup {
  /**
   * The addresses of `name`, at least one, in the order in which to try them.
   *
   * @throws {LookupError}, or `signal`'s reason when it aborts.
   */
  lookup(name: string, signal: AbortSignal): Promise<readonly string[]>;
}

/**
 * Why a name led to no address.
 *
 * - `not-found`: it has none, all who could know say.
 * - `timeout`: nobody answered.
 * - `failed`: somebody did, but could not say.
 */
export type LookupFailure = "not-found" | "timeout" | "failed";

export class LookupError extends Error {
  override readonly name = "LookupError";
  readonly failure: LookupFailure;

  constructor(failure: LookupFailure, message: string, cause?: unknown) {
    super(message, { cause });
    this.failure = failure;
  }
}
