import type { HistogramReading, Labels, MetricFamily, MetricSeries } from "./metric-family.ts";

/**
 * One family in the Prometheus text format 0.0.4, byte for byte as Go's client library writes it:
 * label names sorted, series sorted by their label values, numbers in Go's shortest form.
 *
 * @returns the lines, each ended, or `""` if the family has no series.
 */
export function familyText(family: MetricFamily): string {
  const lines =
    family.type === "histogram"
      ? sorted(family.collect()).flatMap(({ pairs, value }) =>
          histogramLines(family.name, pairs, value),
        )
      : sorted(family.collect()).map(
          ({ pairs, value }) => `${family.name}${labelText(pairs)} ${goNumber(value)}\n`,
        );
  if (lines.length === 0) return "";
  const help = family.help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
  return `# HELP ${family.name} ${help}\n# TYPE ${family.name} ${family.type}\n${lines.join("")}`;
}

/** A number as Go's `strconv` prints it in its shortest form: `0.0001`, `1e-06`, `12.5`, `1e+06`. */
export function goNumber(value: number): string {
  if (value === Infinity) return "+Inf";
  if (value === -Infinity) return "-Inf";
  if (value === 0 || Number.isNaN(value)) return String(Math.abs(value));
  const [digits = "", exponentText = ""] = value.toExponential().split("e");
  const exponent = Number(exponentText);
  if (exponent >= -4 && exponent < 6) return String(value);
  const sign = exponent < 0 ? "-" : "+";
  return `${digits}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

type LabelPairs = readonly (readonly [name: string, value: string])[];

interface SortedSeries<Value> {
  readonly pairs: LabelPairs;
  readonly value: Value;
}

function sorted<Value>(series: Iterable<MetricSeries<Value>>): SortedSeries<Value>[] {
  return Array.from(series, ({ labels, value }) => ({ pairs: pairsOf(labels), value })).sort(
    (one, other) => byLabelValues(one.pairs, other.pairs),
  );
}

function pairsOf(labels: Labels): LabelPairs {
  return Object.entries(labels).sort(([one], [other]) => compare(one, other));
}

function byLabelValues(one: LabelPairs, other: LabelPairs): number {
  for (const [index, [, value]] of one.entries()) {
    const order = compare(value, other[index]?.[1] ?? "");
    if (order !== 0) return order;
  }
  return 0;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function labelText(pairs: LabelPairs): string {
  if (pairs.length === 0) return "";
  return `{${pairs.map(([name, value]) => `${name}="${escapeValue(value)}"`).join(",")}}`;
}

function escapeValue(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function histogramLines(name: string, pairs: LabelPairs, reading: HistogramReading): string[] {
  const bucket = (bound: string, count: number) =>
    `${name}_bucket${labelText([...pairs, ["le", bound]])} ${goNumber(count)}\n`;
  return [
    ...reading.bounds.map((bound, index) =>
      bucket(goNumber(bound), reading.cumulativeCounts[index] ?? 0),
    ),
    bucket("+Inf", reading.count),
    `${name}_sum${labelText(pairs)} ${goNumber(reading.sum)}\n`,
    `${name}_count${labelText(pairs)} ${goNumber(reading.count)}\n`,
  ];
}
