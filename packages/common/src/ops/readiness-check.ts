import type { Clock } from "../clock.ts";
import { validityProblem } from "../tls/certificate-facts.ts";
import type { CertificateFacts } from "../tls/certificate-facts.ts";

/** One of the things that make a program ready. */
export interface ReadinessCheck {
  /** Without spaces: the key of its line. */
  readonly name: string;
  /** Looks at it, at once. */
  readonly run: () => CheckResult;
}

export interface CheckResult {
  readonly ok: boolean;
  /** What was found, in a few words; why not, if it failed. */
  readonly detail: string;
}

const DAY_MS = 86_400_000;

/**
 * Whether the certificates in use are valid now.
 *
 * @param certificates - By what they are for.
 */
export function certificateCheck(
  certificates: () => ReadonlyMap<string, CertificateFacts>,
  clock: Pick<Clock, "wallTimeMs">,
): ReadinessCheck {
  return {
    name: "certificates",
    run: () => {
      const nowMs = clock.wallTimeMs();
      const all = [...certificates()].map(([use, facts]) => {
        const problem = validityProblem(facts, nowMs);
        const days = Math.floor((facts.notAfterAtMs - nowMs) / DAY_MS);
        return { ok: problem === undefined, text: `${use}: ${problem ?? `${days} days left`}` };
      });
      const failed = all.filter(({ ok }) => !ok);
      const told = failed.length > 0 ? failed : all;
      const detail = told.map(({ text }) => text).join("; ");
      return { ok: failed.length === 0, detail: detail === "" ? "none in use" : detail };
    },
  };
}

/**
 * Says how long ago a dial succeeded last. It never fails: there may be nothing to dial.
 *
 * @param lastDialAtMs - In the clock's milliseconds; `undefined` for never.
 */
export function lastDialCheck(
  lastDialAtMs: () => number | undefined,
  clock: Pick<Clock, "now">,
): ReadinessCheck {
  return {
    name: "last-good-dial",
    run: () => {
      const atMs = lastDialAtMs();
      if (atMs === undefined) return { ok: true, detail: "none yet" };
      return { ok: true, detail: `${Math.floor((clock.now() - atMs) / 1000)} s ago` };
    },
  };
}
