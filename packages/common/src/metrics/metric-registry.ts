import { familyText } from "./exposition.ts";
import { readFamily } from "./family-reading.ts";
import type { FamilyReading } from "./family-reading.ts";
import type { MetricFamily } from "./metric-family.ts";

/** The content type under which {@link MetricRegistry.exposition} is served. */
export const EXPOSITION_CONTENT_TYPE =
  "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/** Families that somebody else formats, by name: the text of each, every line ended. */
export interface FamilyTextSource {
  texts(): Promise<ReadonlyMap<string, string>>;
}

/**
 * The metrics of one program, to be written out when it is scraped.
 *
 * Each program makes its own; there is no default one, so that two of them in one process, as in a
 * test, do not meet.
 */
export class MetricRegistry {
  readonly #families = new Map<string, MetricFamily>();
  readonly #sources: FamilyTextSource[] = [];

  /** @throws if the name is taken. */
  add(family: MetricFamily): void {
    if (this.#families.has(family.name)) {
      throw new Error(`the metric ${family.name} is registered already`);
    }
    this.#families.set(family.name, family);
  }

  /** Add families of another library, whose names must differ from all others. */
  addSource(source: FamilyTextSource): void {
    this.#sources.push(source);
  }

  /** The families of this registry as they are now, without those of {@link addSource}. */
  readings(): FamilyReading[] {
    return Array.from(this.#families.values(), readFamily);
  }

  /** All families that have a series, by name, in the Prometheus text format 0.0.4. */
  async exposition(): Promise<string> {
    const foreign = await Promise.all(this.#sources.map((source) => source.texts()));
    const texts = new Map(foreign.flatMap((source) => [...source]));
    for (const [name, family] of this.#families) texts.set(name, familyText(family));
    return [...texts]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, text]) => text)
      .join("");
  }
}
