import type { Duplex } from "node:stream";
import type { DialAttempt } from "./dial-attempt.ts";

/** Opens connections through one kind of frontend. */
export interface Dialer {
  /** @throws {ClientError}; or what `attempt` was given up with. Then nothing is left of it. */
  dial(attempt: DialAttempt): Promise<Duplex>;

  /** Let go of what connections share; they are closed already. */
  close(): void;
}
