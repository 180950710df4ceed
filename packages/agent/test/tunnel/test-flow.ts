import { WindowBudget } from "@reachback/common";
import type { FlowPorts } from "@reachback/common";

const KIB = 1024;

/** Bounds that are small enough to be reached. */
export const TEST_FLOW: FlowPorts = {
  limits: {
    initialBytes: 64 * KIB,
    maxBytes: 1024 * KIB,
    tunnelWindowBytes: 16 * 1024 * KIB,
    queueBytes: 256 * KIB,
    stallTimeoutMs: 1_000,
  },
  budget: new WindowBudget(Number.MAX_SAFE_INTEGER),
};
