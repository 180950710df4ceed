/** One line of numbers in the Prometheus text format. */
export interface ExposedSample {
  /** With the `_bucket`, `_sum` or `_count` of a histogram. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of a text in the Prometheus text format; throws at a line that is none. */
export function readExposition(text: string): readonly ExposedSample[] {
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const match = /^(?<name>[a-zA-Z_:][\w:]*)(?:\{(?<labels>.*)\})? (?<value>\S+)$/.exec(line);
      const { name = "", labels = "", value = "" } = match?.groups ?? {};
      if (name === "") throw new Error(`not a sample: ${line}`);
      return { name, labels: readLabels(labels), value: readNumber(value) };
    });
}

function readLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[name] = value.replace(/\\(.)/g, (_, escaped: string) =>
      escaped === "n" ? "\n" : escaped,
    );
  }
  return labels;
}

function readNumber(text: string): number {
  if (text === "+Inf") return Infinity;
  if (text === "-Inf") return -Infinity;
  return Number(text);
}
