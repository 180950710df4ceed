import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { headerBlockProblem, headerValue, headerValues } from "../../src/http2/header-rules.ts";
import type { HeaderBlockKind } from "../../src/http2/header-rules.ts";

const METHOD = [":method", "GET"] as const;
const SCHEME = [":scheme", "https"] as const;
const PATH = [":path", "/"] as const;
const STATUS = [":status", "200"] as const;

const TABLE: readonly (readonly [HeaderBlockKind, HeaderList, string | undefined])[] = [
  ["request", [METHOD, SCHEME, PATH], undefined],
  ["request", [PATH, [":authority", "a"], SCHEME, METHOD, ["te", "trailers"]], undefined],
  ["request", [SCHEME, PATH], "no :method"],
  ["request", [METHOD, PATH], "no :scheme"],
  ["request", [METHOD, SCHEME], "no :path"],
  ["request", [METHOD, SCHEME, PATH, PATH], ":path twice"],
  ["request", [METHOD, SCHEME, PATH, STATUS], ":status in a request"],
  ["request", [METHOD, SCHEME, PATH, [":protocol", "websocket"]], ":protocol in a request"],
  ["request", [METHOD, SCHEME, ["a", "b"], PATH], ":path after a regular field"],
  ["response", [STATUS, ["a", ""]], undefined],
  ["response", [["a", "b"]], "no :status"],
  ["response", [STATUS, PATH], ":path in a response"],
  ["response", [STATUS, STATUS], ":status twice"],
  ["trailers", [["grpc-status", "0"]], undefined],
  ["trailers", [], undefined],
  ["trailers", [STATUS], ":status in a trailers"],
  ["trailers", [["Grpc-Status", "0"]], "bad character in a field name"],
  ["trailers", [["a b", "0"]], "bad character in a field name"],
  ["trailers", [["a:b", "0"]], "bad character in a field name"],
  ["trailers", [["ä", "0"]], "bad character in a field name"],
  ["trailers", [["", "0"]], "bad character in a field name"],
  ["trailers", [["a", "x\r\ny: z"]], "control character in the value of a"],
  ["trailers", [["a", "x\0"]], "control character in the value of a"],
  ["trailers", [["a", "é ~\t"]], undefined],
  ["trailers", [["connection", "close"]], "connection in HTTP/2"],
  ["trailers", [["transfer-encoding", "chunked"]], "transfer-encoding in HTTP/2"],
  ["trailers", [["upgrade", "h2c"]], "upgrade in HTTP/2"],
  ["trailers", [["keep-alive", "5"]], "keep-alive in HTTP/2"],
  ["trailers", [["proxy-connection", "close"]], "proxy-connection in HTTP/2"],
];

describe("headerBlockProblem", () => {
  for (const [kind, headers, problem] of TABLE) {
    it(`of a ${kind} ${JSON.stringify(headers)}: ${problem ?? "none"}`, () => {
      assert.equal(headerBlockProblem(headers, kind), problem);
    });
  }
});

describe("headerValue and headerValues", () => {
  const headers: HeaderList = [
    ["a", "1"],
    ["b", "2"],
    ["a", "3"],
  ];

  it("give the first value and all of them, in order", () => {
    assert.equal(headerValue(headers, "a"), "1");
    assert.deepEqual(headerValues(headers, "a"), ["1", "3"]);
  });

  it("know when there is none", () => {
    assert.equal(headerValue(headers, "c"), undefined);
    assert.deepEqual(headerValues(headers, "c"), []);
  });
});
