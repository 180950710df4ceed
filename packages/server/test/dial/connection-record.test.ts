import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricRegistry } from "@reachback/common";
import { ManualClock, RecordingLogger } from "@reachback/common/testing";
import type { CloseReason } from "../../src/dial/close-reason.ts";
import { ConnectionRecord } from "../../src/dial/connection-record.ts";
import { ServerMetrics } from "../../src/metrics.ts";
import { connectionId, dialId } from "../fake-agent.ts";

/** What a warning must name; undefined where there must be none. */
const NAMED: Readonly<Record<CloseReason, RegExp | undefined>> = {
  client_closed: undefined,
  client_lost: undefined,
  endpoint_closed: undefined,
  endpoint_error: undefined,
  agent_lost: undefined,
  protocol_error: /version/,
  slow_consumer: /--stall-timeout/,
  half_close_timeout: /--half-close-timeout/,
  shutdown: undefined,
};

describe("the end of a connection, without debug lines", () => {
  for (const [reason, named] of Object.entries(NAMED)) {
    it(`${named === undefined ? "is not logged" : "is warned of, with a hint"}: ${reason}`, () => {
      const logger = Object.assign(new RecordingLogger(), { debugEnabled: false });
      const metrics = new ServerMetrics(new MetricRegistry());
      const record = new ConnectionRecord(
        {
          wireDialId: dialId(7),
          connectionId: connectionId(1),
          agentId: "node-a",
          address: "10.0.0.1:80",
        },
        { clock: new ManualClock(), metrics, logger },
      );
      record.toAgent(3);
      record.closed(reason as CloseReason, "why");
      const [line, ...more] = logger.lines;
      assert.deepEqual(more, []);
      if (named === undefined) {
        assert.equal(line, undefined);
        return;
      }
      const { hint, ...fields } = line?.fields ?? {};
      assert.deepEqual([line?.level, line?.event], ["warn", "connection.closed"]);
      assert.match(String(hint), named);
      assert.deepEqual(fields, {
        dialId: "7",
        connectionId: "1",
        agentId: "node-a",
        address: "10.0.0.1:80",
        reason,
        error: "why",
        bytesToAgent: 3,
        bytesFromAgent: 0,
      });
    });
  }
});
