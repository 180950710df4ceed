import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { HpackEncoder } from "../../src/hpack/hpack-encoder.ts";
import { indexingPolicyOf } from "../../src/hpack/indexing-policy.ts";
import { blockOf, decodedHeaders, dynamicTableOf } from "./decoder-probe.ts";

const REQUEST: HeaderList = [
  [":method", "POST"],
  [":scheme", "https"],
  [":path", "/AgentService/Connect"],
  [":authority", "proxy.example:8091"],
  ["content-type", "application/grpc"],
  ["user-agent", "grpc-go/1.83.0"],
  ["te", "trailers"],
  ["grpc-accept-encoding", "identity,deflate,gzip"],
  ["accept-encoding", "identity"],
];

/** The size updates at the start of a block, in bytes; all of them below 31 + 2^14. */
function sizeUpdatesOf(block: Buffer): number[] {
  const updates: number[] = [];
  for (let at = 0; (block[at]! & 0xe0) === 0x20;) {
    const prefix = block[at++]! & 0x1f;
    let bytes = prefix;
    for (let shift = 0, more = prefix === 0x1f; more; shift += 7) {
      const octet = block[at++]!;
      bytes += (octet & 0x7f) << shift;
      more = octet >= 0x80;
    }
    updates.push(bytes);
  }
  return updates;
}

function encodeNothing(encoder: HpackEncoder): number[] {
  return sizeUpdatesOf(Buffer.concat([encoder.encode([]), Buffer.from([0x82])]));
}

describe("HpackEncoder", () => {
  it("sends a repeated request as one octet per field", () => {
    const encoder = new HpackEncoder();
    const decoder = new HpackDecoder();
    assert.deepEqual(decodedHeaders(decoder, encoder.encode(REQUEST)), REQUEST);
    const again = encoder.encode(REQUEST);
    assert.equal(again.length, REQUEST.length);
    assert.deepEqual(decodedHeaders(decoder, again), REQUEST);
  });

  it("keeps order and duplicates", () => {
    const headers: HeaderList = [
      ["te", "trailers"],
      [":method", "GET"],
      ["x", "2"],
      ["x", "1"],
      ["te", "trailers"],
      ["x", "2"],
    ];
    assert.deepEqual(
      decodedHeaders(new HpackDecoder(), new HpackEncoder().encode(headers)),
      headers,
    );
  });

  it("encodes nothing to an empty block", () => {
    assert.equal(new HpackEncoder().encode([]).length, 0);
  });

  it("does not index names it does not know, because their values change", () => {
    const encoder = new HpackEncoder();
    const decoder = new HpackDecoder();
    const headers: HeaderList = [
      ["agentid", "4f6c"],
      ["date", "Mon, 21 Oct 2013 20:13:21 GMT"],
    ];
    const block = encoder.encode(headers);
    assert.deepEqual(encoder.encode(headers), block);
    assert.deepEqual(decodedHeaders(decoder, block), headers);
    assert.deepEqual(dynamicTableOf(decoder), []);
  });

  it("refers to the name of an entry whose value differs", () => {
    const encoder = new HpackEncoder();
    encoder.encode([["te", "trailers"]]);
    // Literal with indexing, name index 62, a plain string of two octets.
    assert.deepEqual(encoder.encode([["te", "~~"]]), blockOf("7e 02 7e7e"));
  });

  it("does not let one large field push out the others", () => {
    const encoder = new HpackEncoder();
    const decoder = new HpackDecoder();
    decoder.decode(encoder.encode(REQUEST));
    const table = dynamicTableOf(decoder);
    decoder.decode(encoder.encode([[":path", "/".repeat(3000)]]));
    assert.deepEqual(dynamicTableOf(decoder), table);
  });

  it("uses Huffman coding only where it is shorter", () => {
    const encoder = new HpackEncoder();
    const cases = [
      { value: "aaaa", string: "83 18c6 3f" },
      { value: "aaa", string: "82 18c7" },
      { value: "&&&&", string: "04 2626 2626" },
      { value: "\x01\x02", string: "02 0102" },
    ];
    for (const { value, string } of cases) {
      // Literal without indexing, name index 21.
      assert.deepEqual(encoder.encode([["age", value]]), blockOf(`0f06 ${string}`));
    }
  });

  it("hands out blocks that later ones do not overwrite", () => {
    const encoder = new HpackEncoder();
    const lists: HeaderList[] = [10, 100, 1_000, 10_000, 100_000, 10].map((length) => [
      ["x", "v".repeat(length)],
      ["y", "~".repeat(length)],
    ]);
    const blocks = lists.map((headers) => encoder.encode(headers));
    const decoder = new HpackDecoder({ maxListBytes: 1_000_000 });
    for (const [index, block] of blocks.entries()) {
      assert.deepEqual(decodedHeaders(decoder, block), lists[index]);
    }
  });
});

describe("HpackEncoder after a block that could not be encoded", () => {
  it("stays in step with the peer", () => {
    const encoder = new HpackEncoder();
    const decoder = new HpackDecoder();
    decoder.decode(encoder.encode(REQUEST));
    encoder.setMaxTableBytes(2048);
    assert.throws(
      () =>
        encoder.encode([
          ["te", "lost with this block"],
          ["x", "€"],
        ]),
      RangeError,
    );
    const headers: HeaderList = [["te", "lost with this block"], ...REQUEST];
    const block = encoder.encode(headers);
    assert.deepEqual(sizeUpdatesOf(block), [0, 2048]);
    assert.deepEqual(decodedHeaders(decoder, block), headers);
    assert.deepEqual(decodedHeaders(decoder, encoder.encode(headers)), headers);
  });

  it("announces a table of nothing again", () => {
    const encoder = new HpackEncoder();
    encoder.setMaxTableBytes(0);
    assert.throws(() => encoder.encode([["x", "€"]]), RangeError);
    assert.deepEqual(encodeNothing(encoder), [0]);
    assert.deepEqual(encodeNothing(encoder), []);
  });
});

describe("HpackEncoder and secrets", () => {
  const secret = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "sec-websocket-key",
    "www-authenticate",
    "aws-credentials",
    "csrf",
    "xsrf-id",
    "db-passwd",
    "private",
    "client-secret",
    "session-id",
    "x-hub-signature",
    "sso-ticket",
    "vault-token",
  ];
  for (const name of secret) {
    it(`marks ${name} as never indexed, also when it is sent again`, () => {
      const encoder = new HpackEncoder();
      const decoder = new HpackDecoder();
      for (const value of ["Bearer abc", "Bearer abc", ""]) {
        const block = encoder.encode([[name, value]]);
        assert.equal(block[0]! & 0xf0, 0x10);
        assert.deepEqual(decodedHeaders(decoder, block), [[name, value]]);
      }
      assert.deepEqual(dynamicTableOf(decoder), []);
    });
  }

  it("knows pseudo-headers and ordinary names from secrets", () => {
    assert.equal(indexingPolicyOf(":authority"), "index");
    assert.equal(indexingPolicyOf("content-type"), "index");
    assert.equal(indexingPolicyOf("agentidentifiers"), "literal");
    assert.equal(indexingPolicyOf("grpc-timeout"), "literal");
  });
});

describe("HpackEncoder's table size", () => {
  it("is not mentioned while it is the 4096 bytes that the peer expects", () => {
    const encoder = new HpackEncoder();
    assert.deepEqual(encodeNothing(encoder), []);
    encoder.setMaxTableBytes(4096);
    assert.deepEqual(encodeNothing(encoder), []);
  });

  it("is announced once, in the next block", () => {
    const encoder = new HpackEncoder();
    encoder.setMaxTableBytes(100);
    assert.deepEqual(encodeNothing(encoder), [100]);
    assert.deepEqual(encodeNothing(encoder), []);
  });

  const histories = [
    { name: "down and up", settings: [100, 4096], updates: [100, 4096] },
    { name: "down, up and down", settings: [200, 4096, 100], updates: [100] },
    { name: "down in steps and up a little", settings: [1000, 100, 0, 300], updates: [0, 300] },
    { name: "to nothing", settings: [0], updates: [0] },
    { name: "up beyond our own limit", settings: [65_536, 4_294_967_295], updates: [] },
    { name: "to nothing and beyond our own limit", settings: [0, 65_536], updates: [0, 4096] },
  ];
  for (const { name, settings, updates } of histories) {
    it(`is announced with its minimum when it went ${name}`, () => {
      const encoder = new HpackEncoder();
      encoder.encode(REQUEST);
      for (const bytes of settings) encoder.setMaxTableBytes(bytes);
      assert.deepEqual(encodeNothing(encoder), updates);
      assert.deepEqual(encodeNothing(encoder), []);
    });
  }

  it("is announced when our own limit is below the peer's", () => {
    const encoder = new HpackEncoder({ maxTableBytes: 1000 });
    encoder.setMaxTableBytes(2000);
    assert.deepEqual(encodeNothing(encoder), [1000]);
  });

  it("grows beyond 4096 only when the peer allows it", () => {
    const encoder = new HpackEncoder({ maxTableBytes: 8192 });
    assert.deepEqual(encodeNothing(encoder), []);
    encoder.setMaxTableBytes(6000);
    assert.deepEqual(encodeNothing(encoder), [6000]);
  });

  it("of nothing means that nothing is indexed", () => {
    const encoder = new HpackEncoder();
    const decoder = new HpackDecoder();
    encoder.setMaxTableBytes(0);
    decoder.decode(encoder.encode(REQUEST));
    assert.deepEqual(dynamicTableOf(decoder), []);
    assert.deepEqual(encoder.encode(REQUEST), encoder.encode(REQUEST));
  });
});
