import { byteSizeType } from "../flags/byte-size.ts";
import type { FlagTable, ParsedFlags } from "../flags/flag-table.ts";
import { durationType } from "../flags/flag-type.ts";
import type { FlowLimits } from "./flow.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** First window of each direction of a connection; both ends know it (PROTOCOL.md, "Credit"). */
export const INITIAL_WINDOW_BYTES = 64 * KIB;

/** Least that may be queued for a connection of an upstream peer; its packets are small. */
const MIN_QUEUE_BYTES = 256 * KIB;

/** What a packet of an upstream peer holds at most: their reads are of 4 KiB. */
const UPSTREAM_PACKET_BYTES = 4 * KIB;

/** Bounds of the windows where a flag does not say otherwise: shares of the memory limit, up to this. */
const MAX_CONNECTION_WINDOW_BYTES = 64 * MIB;
const MAX_TUNNEL_WINDOW_BYTES = 512 * MIB;
const MAX_PROCESS_WINDOW_BYTES = 1024 * MIB;

const group = "Flow control";

/** Flags of both programs for what may be under way. */
export const FLOW_FLAGS = {
  "connection-window": {
    type: byteSizeType,
    default: 0,
    group,
    help: "Most that may be under way to this end in one connection, which a slow reader can make it hold; at least 64Ki. 0: an eighth of the memory limit, at most 64Mi.",
  },
  "tunnel-window": {
    type: byteSizeType,
    default: 0,
    group,
    help: "What the windows of one tunnel's connections may grow by, together. 0: a quarter of the memory limit, at most 512Mi.",
  },
  "process-window": {
    type: byteSizeType,
    default: 0,
    group,
    help: "What the windows of all connections may grow by, together. 0: a quarter of the memory limit, at most 1Gi.",
  },
  "stall-timeout": {
    type: durationType,
    default: 1_000,
    group,
    help: "Time after which a connection whose queue is full, and of which nothing is taken, is reset, if the other end of the tunnel has no flow control. 0: never; then it holds up its tunnel.",
  },
  "half-close-timeout": {
    type: durationType,
    default: 10_000,
    group,
    help: "Time of silence after which a connection is reset that one side has finished and the other has not. 0: never.",
  },
} as const satisfies FlagTable;

/** What is wrong with sizes among {@link FLOW_FLAGS}. */
export function windowProblems({ values }: ParsedFlags<typeof FLOW_FLAGS>): string[] {
  const bytes = values["connection-window"];
  if (bytes === 0 || bytes >= INITIAL_WINDOW_BYTES) return [];
  // The peer uses its first window without being told.
  const least = byteSizeType.format(INITIAL_WINDOW_BYTES);
  return [
    `connection-window must be >= ${least}, got ${byteSizeType.format(bytes)}; 0 means an eighth of the memory limit`,
  ];
}

/** What {@link FLOW_FLAGS} say. */
export interface FlowOptions {
  readonly limits: FlowLimits;
  /** What all windows may grow by, together. */
  readonly processWindowBytes: number;
  /** Silence after which a half-closed connection is reset, in milliseconds; 0 for never. */
  readonly halfCloseTimeoutMs: number;
}

/**
 * @param memoryLimitBytes - What the process may use.
 * @param xfrChannelSize - Packets of an upstream peer that may be queued for one connection.
 */
export function resolveFlowOptions(
  { values }: ParsedFlags<typeof FLOW_FLAGS>,
  xfrChannelSize: number,
  memoryLimitBytes: number,
): FlowOptions {
  const share = (parts: number, maxBytes: number) =>
    Math.max(INITIAL_WINDOW_BYTES, Math.min(maxBytes, Math.floor(memoryLimitBytes / parts)));
  return Object.freeze({
    limits: Object.freeze({
      initialBytes: INITIAL_WINDOW_BYTES,
      maxBytes: values["connection-window"] || share(8, MAX_CONNECTION_WINDOW_BYTES),
      tunnelWindowBytes: values["tunnel-window"] || share(4, MAX_TUNNEL_WINDOW_BYTES),
      queueBytes: Math.max(MIN_QUEUE_BYTES, xfrChannelSize * UPSTREAM_PACKET_BYTES),
      stallTimeoutMs: values["stall-timeout"],
    }),
    processWindowBytes: values["process-window"] || share(4, MAX_PROCESS_WINDOW_BYTES),
    halfCloseTimeoutMs: values["half-close-timeout"],
  });
}
