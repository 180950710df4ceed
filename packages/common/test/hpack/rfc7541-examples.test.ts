import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BlockReader } from "../../src/hpack/block-reader.ts";
import { BlockWriter } from "../../src/hpack/block-writer.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { HpackEncoder } from "../../src/hpack/hpack-encoder.ts";
import { blockOf, decodedHeaders, dynamicTableOf } from "./decoder-probe.ts";

describe("RFC 7541 appendix C.1: integers", () => {
  const examples = [
    { section: "C.1.1", value: 10, prefixBits: 5, bytes: "0a" },
    { section: "C.1.2", value: 1337, prefixBits: 5, bytes: "1f9a0a" },
    { section: "C.1.3", value: 42, prefixBits: 8, bytes: "2a" },
  ];
  for (const { section, value, prefixBits, bytes } of examples) {
    it(`${section}: reads and writes ${value} with a ${prefixBits}-bit prefix`, () => {
      const reader = new BlockReader(blockOf(bytes));
      assert.equal(reader.readInteger(reader.readOctet(), prefixBits), value);
      assert.ok(reader.atEnd);

      const writer = new BlockWriter();
      writer.writeInteger(0, prefixBits, value);
      assert.equal(writer.finish().toString("hex"), bytes);
    });
  }
});

describe("RFC 7541 appendix C.2: representations of a field", () => {
  const examples: readonly {
    section: string;
    bytes: string;
    headers: HeaderList;
    table: HeaderList;
  }[] = [
    {
      section: "C.2.1: literal with indexing",
      bytes: "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
      headers: [["custom-key", "custom-header"]],
      table: [["custom-key", "custom-header"]],
    },
    {
      section: "C.2.2: literal without indexing",
      bytes: "040c 2f73 616d 706c 652f 7061 7468",
      headers: [[":path", "/sample/path"]],
      table: [],
    },
    {
      section: "C.2.3: literal never indexed",
      bytes: "1008 7061 7373 776f 7264 0673 6563 7265 74",
      headers: [["password", "secret"]],
      table: [],
    },
    { section: "C.2.4: indexed", bytes: "82", headers: [[":method", "GET"]], table: [] },
  ];
  for (const { section, bytes, headers, table } of examples) {
    it(section, () => {
      const decoder = new HpackDecoder();
      assert.deepEqual(decodedHeaders(decoder, blockOf(bytes)), headers);
      assert.deepEqual(dynamicTableOf(decoder), table);
    });
  }
});

/** One message of a sequence on one connection, and the dynamic table behind it. */
interface Message {
  readonly plain: string;
  readonly huffman: string;
  readonly headers: HeaderList;
  readonly table: HeaderList;
}

const REQUESTS: readonly Message[] = [
  {
    plain: "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    huffman: "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    headers: [
      [":method", "GET"],
      [":scheme", "http"],
      [":path", "/"],
      [":authority", "www.example.com"],
    ],
    table: [[":authority", "www.example.com"]],
  },
  {
    plain: "8286 84be 5808 6e6f 2d63 6163 6865",
    huffman: "8286 84be 5886 a8eb 1064 9cbf",
    headers: [
      [":method", "GET"],
      [":scheme", "http"],
      [":path", "/"],
      [":authority", "www.example.com"],
      ["cache-control", "no-cache"],
    ],
    table: [
      ["cache-control", "no-cache"],
      [":authority", "www.example.com"],
    ],
  },
  {
    plain: "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    huffman: "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    headers: [
      [":method", "GET"],
      [":scheme", "https"],
      [":path", "/index.html"],
      [":authority", "www.example.com"],
      ["custom-key", "custom-value"],
    ],
    table: [
      ["custom-key", "custom-value"],
      ["cache-control", "no-cache"],
      [":authority", "www.example.com"],
    ],
  },
];

const FIRST_DATE = "Mon, 21 Oct 2013 20:13:21 GMT";
const SECOND_DATE = "Mon, 21 Oct 2013 20:13:22 GMT";
const COOKIE = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";

const RESPONSES: readonly Message[] = [
  {
    plain: `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
      2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
    huffman: `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
      2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`,
    headers: [
      [":status", "302"],
      ["cache-control", "private"],
      ["date", FIRST_DATE],
      ["location", "https://www.example.com"],
    ],
    table: [
      ["location", "https://www.example.com"],
      ["date", FIRST_DATE],
      ["cache-control", "private"],
      [":status", "302"],
    ],
  },
  {
    plain: "4803 3330 37c1 c0bf",
    huffman: "4883 640e ffc1 c0bf",
    headers: [
      [":status", "307"],
      ["cache-control", "private"],
      ["date", FIRST_DATE],
      ["location", "https://www.example.com"],
    ],
    table: [
      [":status", "307"],
      ["location", "https://www.example.com"],
      ["date", FIRST_DATE],
      ["cache-control", "private"],
    ],
  },
  {
    plain: `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
      54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745
      4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31`,
    huffman: `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
      77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0
      03ed 4ee5 b106 3d50 07`,
    headers: [
      [":status", "200"],
      ["cache-control", "private"],
      ["date", SECOND_DATE],
      ["location", "https://www.example.com"],
      ["content-encoding", "gzip"],
      ["set-cookie", COOKIE],
    ],
    table: [
      ["set-cookie", COOKIE],
      ["content-encoding", "gzip"],
      ["date", SECOND_DATE],
    ],
  },
];

describe("RFC 7541 appendix C.3 to C.6: messages on one connection", () => {
  const sequences = [
    { section: "C.3", coding: "plain", messages: REQUESTS },
    { section: "C.4", coding: "huffman", messages: REQUESTS },
    { section: "C.5", coding: "plain", messages: RESPONSES, tableBytes: 256 },
    { section: "C.6", coding: "huffman", messages: RESPONSES, tableBytes: 256 },
  ] as const;
  for (const { section, coding, messages, ...rest } of sequences) {
    it(`${section}: decodes each message and keeps the table`, () => {
      const decoder = new HpackDecoder();
      if ("tableBytes" in rest) {
        // The appendix sets 256 bytes by settings; on a connection that takes a size update.
        const update = new BlockWriter();
        update.writeInteger(0x20, 5, rest.tableBytes);
        assert.deepEqual(decodedHeaders(decoder, update.finish()), []);
      }
      for (const message of messages) {
        assert.deepEqual(decodedHeaders(decoder, blockOf(message[coding])), message.headers);
        assert.deepEqual(dynamicTableOf(decoder), message.table);
      }
    });
  }

  it("C.4.1 and C.4.2: encodes the first two requests to the same bytes", () => {
    const encoder = new HpackEncoder();
    for (const { headers, huffman } of REQUESTS.slice(0, 2)) {
      assert.deepEqual(encoder.encode(headers), blockOf(huffman));
    }
  });

  it("writes the strings of C.4 and C.6 to the same bytes", () => {
    const examples = [
      { text: "www.example.com", bytes: "8c f1e3 c2e5 f23a 6ba0 ab90 f4ff" },
      { text: "no-cache", bytes: "86 a8eb 1064 9cbf" },
      { text: "custom-key", bytes: "88 25a8 49e9 5ba9 7d7f" },
      { text: "private", bytes: "85 aec3 771a 4b" },
      { text: FIRST_DATE, bytes: "96 d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff" },
      { text: "gzip", bytes: "83 9bd9 ab" },
    ];
    for (const { text, bytes } of examples) {
      const writer = new BlockWriter();
      writer.writeString(text);
      assert.deepEqual(writer.finish(), blockOf(bytes));
    }
  });
});
