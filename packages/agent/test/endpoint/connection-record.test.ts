import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MetricRegistry } from "@reachback/common";
import type { ConnectionId, DialId } from "@reachback/common";
import { RecordingLogger } from "@reachback/common/testing";
import type { CloseReason } from "../../src/endpoint/close-reason.ts";
import { ConnectionRecord } from "../../src/endpoint/connection-record.ts";
import { AgentMetrics } from "../../src/metrics.ts";

/** What a warning must name; undefined where there must be none. */
const NAMED: Readonly<Record<CloseReason, RegExp | undefined>> = {
  server_closed: undefined,
  server_reset: undefined,
  endpoint_closed: undefined,
  endpoint_error: undefined,
  endpoint_stalled: /endpoint took nothing/,
  slow_consumer: /--stall-timeout/,
  half_close_timeout: /--half-close-timeout/,
  protocol_error: /version/,
  tunnel_lost: undefined,
};

describe("the end of an endpoint's connection, without debug lines", () => {
  for (const [reason, named] of Object.entries(NAMED)) {
    it(`${named === undefined ? "is not logged" : "is warned of, with a hint"}: ${reason}`, () => {
      const logger = Object.assign(new RecordingLogger(), { debugEnabled: false });
      const metrics = new AgentMetrics(new MetricRegistry());
      const record = new ConnectionRecord(
        { dialId: 7 as DialId, connectionId: 1 as ConnectionId, address: "10.0.0.1:80" },
        { metrics, logger },
      );
      record.toEndpoint(3);
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
        address: "10.0.0.1:80",
        reason,
        error: "why",
        bytesToEndpoint: 3,
        bytesFromEndpoint: 0,
      });
    });
  }
});
