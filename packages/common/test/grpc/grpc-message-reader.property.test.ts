import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { GrpcMessageReader } from "../../src/grpc/grpc-message-reader.ts";
import { GrpcError } from "../../src/grpc/grpc-status.ts";
import { PacketDecoder } from "../../src/packet/packet-decoder.ts";
import { DRAIN_MESSAGE, dataMessage, grpcMessage } from "./memory-server.ts";

function open() {
  const events: string[] = [];
  let data = "";
  const decoder = new PacketDecoder(
    {
      control: (packet) => events.push(`control ${packet.type}`),
      data: (connectionId, piece, first) => {
        if (!first) events.pop();
        data = (first ? "" : data) + piece.toString("hex");
        events.push(`data ${connectionId} ${data}`);
      },
    },
    { count: () => undefined },
  );
  return { reader: new GrpcMessageReader(decoder), events };
}

interface Sample {
  readonly bytes: Buffer;
  readonly events: readonly string[];
}

const sample: fc.Arbitrary<Sample> = fc.oneof(
  fc.constant({ bytes: grpcMessage(DRAIN_MESSAGE), events: ["control 6"] }),
  fc.constant({ bytes: grpcMessage(Buffer.alloc(0)), events: ["control 0"] }),
  fc.uint8Array({ maxLength: 300 }).map((payload) => ({
    bytes: grpcMessage(dataMessage(payload)),
    events: payload.length === 0 ? [] : [`data 1 ${Buffer.from(payload).toString("hex")}`],
  })),
);

describe("GrpcMessageReader", () => {
  it("reads messages however they are cut, and knows when it is between two", () => {
    fc.assert(
      fc.property(
        fc.array(sample, { maxLength: 10 }),
        fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
        (samples, sizes) => {
          const { reader, events } = open();
          const bytes = Buffer.concat(samples.map((message) => message.bytes));
          const ends = new Set([0]);
          for (const message of samples) ends.add([...ends].at(-1)! + message.bytes.length);
          assert.equal(reader.atBoundary, true);
          for (let at = 0, turn = 0; at < bytes.length; turn++) {
            const end = Math.min(bytes.length, at + sizes[turn % sizes.length]!);
            // What is pushed may be overwritten afterwards.
            const piece = Buffer.from(bytes.subarray(at, end));
            reader.push(piece);
            piece.fill(0xee);
            at = end;
            assert.equal(reader.atBoundary, ends.has(at));
          }
          assert.deepEqual(
            events,
            samples.flatMap((message) => message.events),
          );
        },
      ),
    );
  });

  it("hands a payload on while its message is still arriving", () => {
    const { reader, events } = open();
    const bytes = grpcMessage(dataMessage(Buffer.alloc(100_000, 1)));
    reader.push(bytes.subarray(0, 50));
    assert.equal(events.length, 1);
  });

  it("refuses a length beyond the limit by the prefix alone", () => {
    const { reader } = open();
    reader.push(Buffer.from([0, 0, 0x40, 0]));
    assert.throws(
      () => {
        reader.push(Buffer.from([1]));
      },
      new GrpcError(8, "grpc: received message larger than max (4194305 vs. 4194304)"),
    );
  });

  it("hands nothing on after stop(), not even of the chunk being read", () => {
    const events: string[] = [];
    const decoder = new PacketDecoder(
      {
        control: (packet) => {
          events.push(`control ${packet.type}`);
          reader.stop();
        },
        data: () => events.push("data"),
      },
      { count: () => undefined },
    );
    const reader = new GrpcMessageReader(decoder);
    const drain = grpcMessage(DRAIN_MESSAGE);
    reader.push(Buffer.concat([drain, grpcMessage(dataMessage(Buffer.from("x"))), drain]));
    reader.push(drain);
    assert.deepEqual(events, ["control 6"]);
  });
});
