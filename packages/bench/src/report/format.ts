import type { Unit } from "../run/metric.ts";

const DASH = "–";

/** A number as people read it: three digits that count, thousands apart. */
export function formatNumber(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return DASH;
  const size = Math.abs(value);
  const decimals = Number.isInteger(value) || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en-US", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
}

/** `1.05x`; how many times the reference. */
export function formatRatio(ratio: number | undefined): string {
  if (ratio === undefined || Number.isNaN(ratio)) return DASH;
  return `${ratio.toFixed(ratio >= 100 ? 0 : ratio >= 10 ? 1 : 2)}x`;
}

/** With its unit, where no column head says it. */
export function formatQuantity(value: number | undefined, unit: Unit): string {
  const number = formatNumber(value);
  if (value === undefined || unit === "") return number;
  return unit === "%" || unit === "/s" ? `${number}${unit}` : `${number} ${unit}`;
}

/** `m:ss`. */
export function formatElapsed(elapsedMs: number): string {
  const seconds = Math.floor(elapsedMs / 1000);
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}
