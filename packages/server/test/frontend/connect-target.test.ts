import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { describe, it } from "node:test";
import { connectTarget } from "../../src/frontend/connect-target.ts";

interface Head {
  readonly version?: string;
  readonly headers?: Record<string, string[]>;
}

/** What becomes of a CONNECT to `url`: the address, or the status of the refusal. */
function outcome(url: string, { version = "1.1", headers = { host: ["x:1"] } }: Head = {}): string {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const request: Partial<IncomingMessage> = {
    url,
    httpVersionMajor: major,
    httpVersionMinor: minor,
    headers: { host: headers["host"]?.[0] },
    headersDistinct: headers,
    rawHeaders: Object.entries(headers).flatMap(([name, values]) =>
      values.flatMap((value) => [name, value]),
    ),
  };
  const target = connectTarget(request as IncomingMessage);
  if ("address" in target) return target.address;
  return /^HTTP\/1.1 ([^\r]*)/.exec(target.refusal)?.[1] ?? "";
}

describe("the target of a CONNECT", () => {
  const targets: readonly [url: string, expected: string][] = [
    ["10.0.0.1:80", "10.0.0.1:80"],
    ["host.example:80", "host.example:80"],
    ["[fd00::1]:80", "[fd00::1]:80"],
    ["host", "host"],
    ["host:", "host:"],
    [":80", ":80"],
    ["user:secret@host:80", "host:80"],
    ["user@odd@host:80", "host:80"],
    ["host:80/path", "host:80"],
    ["host:80?query", "host:80"],
    ["host:80#fragment", "host:80"],
    ["http://host:80/", "http:"],
    // Nothing in it: the Host header.
    ["/path", "x:1"],
    ["?query", "x:1"],
    ["host:name", "400 Bad Request"],
    ["::1:80", "400 Bad Request"],
    ["[::1", "400 Bad Request"],
    ["[::1]80", "400 Bad Request"],
    ["ho[st:80", "400 Bad Request"],
    ["host:80:80", "400 Bad Request"],
    ["ho\\st:80", "400 Bad Request"],
    ["host^:80", "400 Bad Request"],
  ];
  for (const [url, expected] of targets) {
    it(`${url} is ${expected}`, () => {
      assert.equal(outcome(url), expected);
    });
  }

  const heads: readonly [what: string, url: string, head: Head, expected: string][] = [
    ["no Host header", "host:80", { headers: {} }, "host:80"],
    ["neither target nor Host header", "/", { headers: {} }, ""],
    ["two Host headers", "host:80", { headers: { host: ["a", "b"] } }, "400 Bad Request"],
    [
      "an impossible Host header",
      "host:80",
      { headers: { host: ["a b"] } },
      "400 Bad Request: malformed Host header",
    ],
    ["a tab in a header", "host:80", { headers: { host: ["x"], "x-a": ["a\tb"] } }, "host:80"],
    [
      "a control character in a header",
      "host:80",
      { headers: { host: ["x"], "x-a": ["a\x01b"] } },
      "400 Bad Request",
    ],
    [
      "a transfer encoding that nobody knows",
      "host:80",
      { headers: { host: ["x"], "transfer-encoding": ["foo"] } },
      "501 Not Implemented",
    ],
    [
      "the one that is known",
      "host:80",
      { headers: { host: ["x"], "transfer-encoding": ["Chunked"] } },
      "host:80",
    ],
    ["HTTP/1.0", "host:80", { version: "1.0" }, "host:80"],
    ["a later HTTP/1", "host:80", { version: "1.2" }, "host:80"],
    [
      "HTTP/2.0",
      "host:80",
      { version: "2.0" },
      "505 HTTP Version Not Supported: unsupported protocol version",
    ],
    ["an empty target, as Node reads it", "HTTP/1.1", { version: "0.9" }, "x:1"],
    ["no version", "host:80", { version: "0.9" }, "400 Bad Request"],
  ];
  for (const [what, url, head, expected] of heads) {
    it(`with ${what} is "${expected}"`, () => {
      assert.equal(outcome(url, head), expected);
    });
  }
});
