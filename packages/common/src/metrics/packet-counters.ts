import type { PacketCounter } from "../packet/packet.ts";
import type { MetricSeries } from "./metric-family.ts";
import { UNKNOWN_PACKET_TYPE, packetTypeName } from "./packet-type-name.ts";

/** Types from 0 are counted in an array; the protocol's and its extensions' are all below this. */
const ARRAY_SIZE = 128;

/** A peer can send 2^32 types; so many beyond the array are told apart, and the rest are not. */
const MAX_RARE_TYPES = 16;

/** Packets of one segment, by their type. Counting one is an increment in an array of numbers. */
export class SegmentPackets implements PacketCounter {
  readonly #counts = new Float64Array(ARRAY_SIZE);
  readonly #rareCounts = new Map<number, number>();
  #unknownCount = 0;

  count(type: number): void {
    const count = this.#counts[type];
    if (count === undefined) this.#countRare(type);
    else this.#counts[type] = count + 1;
  }

  *series(segment: string): Iterable<MetricSeries> {
    const seriesOf = (packetType: string, value: number): MetricSeries => ({
      labels: { packet_type: packetType, segment },
      value,
    });
    for (const [type, count] of this.#counts.entries()) {
      if (count > 0) yield seriesOf(packetTypeName(type), count);
    }
    for (const [type, count] of this.#rareCounts) yield seriesOf(packetTypeName(type), count);
    if (this.#unknownCount > 0) yield seriesOf(UNKNOWN_PACKET_TYPE, this.#unknownCount);
  }

  #countRare(type: number): void {
    const count = this.#rareCounts.get(type) ?? 0;
    if (count === 0 && this.#rareCounts.size >= MAX_RARE_TYPES) this.#unknownCount++;
    else this.#rareCounts.set(type, count + 1);
  }
}

/** Packets by segment (which peer, which way) and type. */
export class PacketCounters<Segment extends string> {
  readonly #segments: Readonly<Record<Segment, SegmentPackets>>;

  constructor(segments: readonly Segment[]) {
    this.#segments = Object.fromEntries(
      segments.map((segment) => [segment, new SegmentPackets()]),
    ) as Record<Segment, SegmentPackets>;
  }

  /** The counters of one segment, to be kept by whoever counts there. */
  of(segment: Segment): SegmentPackets {
    return this.#segments[segment];
  }

  *series(): Iterable<MetricSeries> {
    for (const [segment, packets] of Object.entries<SegmentPackets>(this.#segments)) {
      yield* packets.series(segment);
    }
  }
}
