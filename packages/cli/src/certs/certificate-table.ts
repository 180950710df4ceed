import { relative } from "node:path";
import type { WrittenCertificate } from "./draft-certificate.ts";
import { daysLeft } from "./validity.ts";

const HEADINGS = ["file", "for", "subject", "days left", "names"] as const;

/** How the names column goes on after these many. */
const NAMES_SHOWN = 4;

/** The certificates as a table for people: a line each, columns aligned. */
export function certificateTable(
  certificates: readonly WrittenCertificate[],
  outDir: string,
  nowMs: number,
): string {
  const rows = certificates.map(({ certPath, usage, commonName, notAfter, names }) => [
    relative(outDir, certPath),
    usage,
    commonName,
    String(daysLeft(notAfter, nowMs)),
    namesText(names),
  ]);
  return alignedText([[...HEADINGS], ...rows]);
}

function namesText(names: readonly string[]): string {
  if (names.length === 0) return "-";
  const hidden = names.length - NAMES_SHOWN;
  const shown = names.slice(0, NAMES_SHOWN).join(", ");
  return hidden > 0 ? `${shown} and ${hidden} more` : shown;
}

function alignedText(rows: readonly (readonly string[])[]): string {
  const widths = HEADINGS.map((_, column) =>
    Math.max(...rows.map((cells) => cells[column]?.length ?? 0)),
  );
  return rows
    .map((cells) => cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "))
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}
