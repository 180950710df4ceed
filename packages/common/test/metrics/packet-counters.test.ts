import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LabelledCounter } from "../../src/metrics/counter.ts";
import { PacketCounters, SegmentPackets } from "../../src/metrics/packet-counters.ts";
import { StreamErrorCounters } from "../../src/metrics/stream-error-counters.ts";
import { PacketType } from "../../src/packet/packet.ts";

function asTable(series: Iterable<{ labels: Readonly<Record<string, string>>; value: number }>) {
  return Object.fromEntries(
    [...series].map(({ labels, value }) => [Object.values(labels).join(" "), value]),
  );
}

describe("SegmentPackets", () => {
  it("counts every type under its name, and others under their number", () => {
    const packets = new SegmentPackets();
    for (const type of Object.values(PacketType)) packets.count(type);
    for (const type of [99, 99, 67, 127, 128, -1, 2 ** 31 - 1, -(2 ** 31)]) packets.count(type);
    assert.deepEqual(asTable(packets.series("from_client")), {
      "DIAL_REQ from_client": 1,
      "DIAL_RSP from_client": 1,
      "CLOSE_REQ from_client": 1,
      "CLOSE_RSP from_client": 1,
      "DATA from_client": 1,
      "DIAL_CLS from_client": 1,
      "DRAIN from_client": 1,
      "CREDIT from_client": 1,
      "FINISH from_client": 1,
      "RESET from_client": 1,
      "67 from_client": 1,
      "99 from_client": 2,
      "127 from_client": 1,
      "128 from_client": 1,
      "-1 from_client": 1,
      "2147483647 from_client": 1,
      "-2147483648 from_client": 1,
    });
  });

  it("keeps a peer that invents types from making series without end", () => {
    const packets = new SegmentPackets();
    for (let type = 1_000; type < 101_000; type++) packets.count(type);
    packets.count(1_000);
    const table = asTable(packets.series("x"));
    assert.equal(Object.keys(table).length, 17);
    assert.equal(table["1000 x"], 2);
    assert.equal(table["Unknown x"], 100_000 - 16);
  });
});

describe("PacketCounters", () => {
  it("keeps segments apart", () => {
    const packets = new PacketCounters(["to_agent", "from_agent"]);
    packets.of("to_agent").count(PacketType.DATA);
    assert.deepEqual(asTable(packets.series()), { "DATA to_agent": 1 });
  });
});

describe("StreamErrorCounters", () => {
  it("labels a failure with Go's code name and the type that was sent", () => {
    const errors = new StreamErrorCounters();
    errors.count("from_agent", 1);
    errors.count("from_agent", 1);
    errors.count("to_client", 14, PacketType.DIAL_RSP);
    errors.count("to_client", 4242);
    assert.deepEqual(asTable(errors.series()), {
      "Canceled Unknown from_agent": 2,
      "Unavailable DIAL_RSP to_client": 1,
      "Unknown Unknown to_client": 1,
    });
  });
});

describe("LabelledCounter", () => {
  it("does not mind the order in which labels are given", () => {
    const counter = new LabelledCounter(["a", "b"]);
    counter.increment({ a: "1", b: "2" });
    counter.increment({ b: "2", a: "1" });
    counter.increment({ b: "1", a: "2" });
    assert.deepEqual(
      [...counter.series()].map(({ value }) => value),
      [2, 1],
    );
  });
});
