import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ByteSource } from "../../src/endpoint/byte-source.ts";
import {
  ACK_EVERY_BYTES,
  REQUEST_BYTES,
  acknowledgedBytes,
  decodeRequest,
  encodeRequest,
} from "../../src/endpoint/endpoint-request.ts";

describe("endpoint request", () => {
  for (const service of ["ping", "source", "sink", "echo", "exchange", "stall"] as const) {
    it(`comes back as it was: ${service}`, () => {
      const bytes = encodeRequest({ service, byteCount: 2 ** 50 });
      assert.equal(bytes.length, REQUEST_BYTES);
      assert.deepEqual(decodeRequest(bytes), { service, byteCount: 2 ** 50 });
    });
  }

  it("refuses bytes that are something else", () => {
    assert.throws(() => decodeRequest(Buffer.from("GET / HTTP/1.1\r\n")), /not a request/);
  });
});

describe("acknowledgedBytes", () => {
  it("counts the last answer for what remains", () => {
    const byteCount = 2 * ACK_EVERY_BYTES + 5;
    assert.equal(acknowledgedBytes(2, byteCount), 2 * ACK_EVERY_BYTES);
    assert.equal(acknowledgedBytes(3, byteCount), byteCount);
  });
});

describe("ByteSource", () => {
  it("sends exactly as much as it was told, and stops when nothing is taken", () => {
    const wanted = 1_000_000;
    let sentBytes = 0;
    let pieces = 0;
    const source = new ByteSource(wanted, (bytes) => {
      sentBytes += bytes.length;
      return ++pieces % 2 === 0;
    });
    source.pump();
    assert.equal(pieces, 1);
    while (sentBytes < wanted) source.pump();
    source.pump();
    assert.equal(sentBytes, wanted);
  });
});
