import type { CaseResult, RowResult } from "../run/case-result.ts";
import type { Metric } from "../run/metric.ts";
import type { SubjectId } from "../subjects/subject.ts";
import { formatQuantity, formatRatio } from "./format.ts";

const WIDTH = 960;
const MARGIN = 20;
const LABEL_WIDTH = 190;
/** Room behind the longest bar for what it stands for. */
const VALUE_WIDTH = 170;
const ROW_HEIGHT = 20;
const BAR_HEIGHT = 13;
const TITLE_HEIGHT = 44;
const CASE_GAP = 18;
const COLUMN_GAP = 16;

/** More would not fit side by side. */
const MAX_COLUMNS = 2;

const COLORS: Readonly<Record<SubjectId, string>> = {
  direct: "#b6bdc7",
  relay: "#6b7280",
  reachback: "#2563eb",
  "reachback-grpc": "#60a5fa",
  openssh: "#d97706",
  peer: "#7c3aed",
};

const STYLE = `
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 14px }
.faint { fill: #59636e }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .faint { fill: #9198a1 } }
`;

/** Bars of every case: its first two compared metrics, each with its ratio to the reference. */
export function svgChart(results: readonly CaseResult[], caption: string): string {
  const parts: string[] = [];
  let y = MARGIN + 16;
  parts.push(textElement(MARGIN, y, caption, "faint"));
  for (const result of results) {
    y += CASE_GAP;
    parts.push(...caseElements(result, y));
    y += TITLE_HEIGHT + result.rows.length * ROW_HEIGHT;
  }
  const height = y + MARGIN;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img">`,
    `<title>${escapeXml(caption)}</title>`,
    `<style>${STYLE}</style>`,
    ...parts,
    "</svg>\n",
  ].join("\n");
}

function caseElements(result: CaseResult, top: number): string[] {
  const metrics = result.metrics.filter(({ isCompared }) => isCompared).slice(0, MAX_COLUMNS);
  const columnWidth =
    (WIDTH - 2 * MARGIN - LABEL_WIDTH - (MAX_COLUMNS - 1) * COLUMN_GAP) / MAX_COLUMNS;
  const firstRow = top + TITLE_HEIGHT;
  return [
    textElement(MARGIN, top + 16, result.title, "title"),
    ...result.rows.map((row, index) =>
      textElement(MARGIN, firstRow + index * ROW_HEIGHT + BAR_HEIGHT - 2, row.title),
    ),
    ...metrics.flatMap((metric, column) =>
      columnElements(result.rows, metric, {
        x: MARGIN + LABEL_WIDTH + column * (columnWidth + COLUMN_GAP),
        y: firstRow,
        width: columnWidth,
      }),
    ),
  ];
}

interface Area {
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

function columnElements(rows: readonly RowResult[], metric: Metric, area: Area): string[] {
  const largest = Math.max(...rows.map(({ summaries }) => summaries[metric.id]?.median ?? 0));
  const better = metric.better === "higher" ? "more is better" : "less is better";
  return [
    textElement(area.x, area.y - 8, `${metric.title} (${better})`, "faint"),
    ...rows.flatMap((row, index) => {
      const summary = row.summaries[metric.id];
      if (summary === undefined) return [];
      const share = largest > 0 ? summary.median / largest : 0;
      const width = Math.max(1, Math.round(share * (area.width - VALUE_WIDTH)));
      const y = area.y + index * ROW_HEIGHT;
      const ratio = summary.ratio === undefined ? "" : ` · ${formatRatio(summary.ratio.median)}`;
      const value = `${formatQuantity(summary.median, metric.unit)}${ratio}`;
      return [
        `<rect x="${area.x}" y="${y}" width="${width}" height="${BAR_HEIGHT}" rx="2" fill="${COLORS[row.id]}"/>`,
        textElement(area.x + width + 6, y + BAR_HEIGHT - 2, value),
      ];
    }),
  ];
}

function textElement(x: number, y: number, text: string, className?: string): string {
  const attribute = className === undefined ? "" : ` class="${className}"`;
  return `<text x="${x}" y="${y}"${attribute}>${escapeXml(text)}</text>`;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
