import { GrpcCode, goCodeName } from "../grpc/grpc-status.ts";
import { LabelledCounter } from "./counter.ts";
import type { MetricSeries } from "./metric-family.ts";
import { UNKNOWN_PACKET_TYPE, packetTypeName } from "./packet-type-name.ts";

/** Failures of gRPC streams by segment, status code and the type of the packet that was sent. */
export class StreamErrorCounters {
  readonly #counter = new LabelledCounter(["code", "packet_type", "segment"]);

  /**
   * Count one failure.
   *
   * @param code - of gRPC; one that gRPC does not have, which only a peer can make up, counts as
   * unknown.
   * @param packetType - of the packet whose sending failed; omitted for a failed receive, which has
   * no packet yet. The end of a stream is not a failure.
   */
  count(segment: string, code: number, packetType?: number): void {
    const isKnown = code >= GrpcCode.OK && code <= GrpcCode.UNAUTHENTICATED;
    this.#counter.increment({
      code: goCodeName(isKnown ? code : GrpcCode.UNKNOWN),
      packet_type: packetType === undefined ? UNKNOWN_PACKET_TYPE : packetTypeName(packetType),
      segment,
    });
  }

  series(): Iterable<MetricSeries> {
    return this.#counter.series();
  }
}
