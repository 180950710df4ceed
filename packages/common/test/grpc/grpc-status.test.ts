import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { status } from "@grpc/grpc-js";
import fc from "fast-check";
import { isGrpcContentType } from "../../src/grpc/grpc-content-type.ts";
import {
  GrpcCode,
  GrpcError,
  decodeGrpcMessage,
  encodeGrpcMessage,
  goCodeName,
} from "../../src/grpc/grpc-status.ts";

describe("grpc-message", () => {
  it("comes back as it was, and travels in printable ASCII", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), (message) => {
        const encoded = encodeGrpcMessage(message);
        assert.match(encoded, /^[ -~]*$/);
        // A lone surrogate has no UTF-8; it travels as the replacement character.
        assert.equal(decodeGrpcMessage(encoded), Buffer.from(message, "utf8").toString("utf8"));
      }),
    );
  });

  const table: readonly (readonly [string, string])[] = [
    ["plain words: a=1 ~", "plain words: a=1 ~"],
    ["100 %", "100 %25"],
    ["a\r\n", "a%0D%0A"],
    ["ä✓", "%C3%A4%E2%9C%93"],
    ["\u007f", "%7F"],
    ["", ""],
  ];
  for (const [message, encoded] of table) {
    it(`of ${JSON.stringify(message)} is ${JSON.stringify(encoded)}`, () => {
      assert.equal(encodeGrpcMessage(message), encoded);
      assert.equal(decodeGrpcMessage(encoded), message);
    });
  }

  it("that is badly encoded is kept as far as it can be", () => {
    assert.equal(decodeGrpcMessage("50% off"), "50% off");
    assert.equal(decodeGrpcMessage("%"), "%");
    assert.equal(decodeGrpcMessage("%4"), "%4");
    assert.equal(decodeGrpcMessage("%zz%41"), "%zzA");
    assert.equal(decodeGrpcMessage("%e4"), "\ufffd");
  });
});

describe("status codes", () => {
  it("are those of grpc-js", () => {
    for (const [name, code] of Object.entries(GrpcCode)) {
      assert.equal(status[name as keyof typeof status], code);
    }
    assert.equal(Object.keys(GrpcCode).length, 17);
  });

  it("have Go's names", () => {
    assert.equal(goCodeName(GrpcCode.OK), "OK");
    assert.equal(goCodeName(GrpcCode.CANCELLED), "Canceled");
    assert.equal(goCodeName(GrpcCode.UNAUTHENTICATED), "Unauthenticated");
    assert.equal(goCodeName(17), "Code(17)");
  });

  it("of an error go with its message", () => {
    const error = new GrpcError(GrpcCode.INTERNAL, "why");
    assert.deepEqual(error.status, { code: 13, message: "why" });
    assert.equal(error.name, "GrpcError");
  });
});

describe("isGrpcContentType", () => {
  const table: readonly (readonly [string | undefined, boolean])[] = [
    ["application/grpc", true],
    ["application/grpc+proto", true],
    ["application/grpc;a=b", true],
    ["APPLICATION/GRPC", true],
    ["application/grpc-web", false],
    ["application/grpcx", false],
    [" application/grpc", false],
    ["text/plain", false],
    ["", false],
    [undefined, false],
  ];
  for (const [contentType, expected] of table) {
    it(`says ${expected} to ${contentType ?? "none"}`, () => {
      assert.equal(isGrpcContentType(contentType), expected);
    });
  }
});
