import type { Validity } from "./issue-certificate.ts";

export const DEFAULT_CA_DAYS = 3650;
export const DEFAULT_LEAF_DAYS = 365;

const DAY_MS = 24 * 60 * 60 * 1000;

/** Peers whose clocks are this far behind ours must not call a new certificate "not yet valid". */
const CLOCK_SKEW_MS = 5 * 60 * 1000;

/** From a little before `nowMs` to `days` after it, or to `latest` if that comes first. */
export function validityFrom(nowMs: number, days: number, latest?: Date): Validity {
  const wanted = new Date(nowMs + days * DAY_MS);
  return {
    notBefore: new Date(nowMs - CLOCK_SKEW_MS),
    notAfter: latest !== undefined && latest < wanted ? latest : wanted,
  };
}

/** Days from `nowMs` to `notAfter`, to the nearest whole one. */
export function daysLeft(notAfter: Date, nowMs: number): number {
  return Math.round((notAfter.getTime() - nowMs) / DAY_MS);
}
