import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { joinHostPort, splitHostPort } from "../../src/net/host-port.ts";

/** What Go's `net.SplitHostPort` says. */
const TABLE: readonly (readonly [string, readonly [host: string, port: string] | string])[] = [
  ["localhost:80", ["localhost", "80"]],
  ["127.0.0.1:http", ["127.0.0.1", "http"]],
  ["[::1]:80", ["::1", "80"]],
  ["[fe80::1%eth0]:80", ["fe80::1%eth0", "80"]],
  ["[localhost]:80", ["localhost", "80"]],
  [":80", ["", "80"]],
  ["[]:80", ["", "80"]],
  ["host:", ["host", ""]],
  [":", ["", ""]],
  ["[::1]:", ["::1", ""]],
  ["golang.org:65536", ["golang.org", "65536"]],
  ["", "missing port in address"],
  ["golang.org", "missing port in address"],
  ["127.0.0.1", "missing port in address"],
  ["[::1]", "missing port in address"],
  ["[localhost]", "missing port in address"],
  ["[]", "missing port in address"],
  ["[::1", "missing ']' in address"],
  ["[:", "missing ']' in address"],
  ["[", "missing port in address"],
  ["[::1]x:80", "missing port in address"],
  ["[foo]bar:baz", "missing port in address"],
  ["[a]b", "missing port in address"],
  ["::1", "too many colons in address"],
  ["a:b:80", "too many colons in address"],
  ["[::1]::80", "too many colons in address"],
  ["[::1]:a:80", "too many colons in address"],
  ["[foo]:[bar]:baz", "too many colons in address"],
  ["[foo]:[bar]baz", "unexpected '[' in address"],
  ["foo[bar]:baz", "unexpected '[' in address"],
  ["foo]bar:baz", "unexpected ']' in address"],
  ["[foo[bar]:baz", "unexpected '[' in address"],
  ["[foo]:ba]z", "unexpected ']' in address"],
  ["foo:b[az", "unexpected '[' in address"],
  ["ä:80", ["ä", "80"]],
];

describe("splitHostPort", () => {
  for (const [address, expected] of TABLE) {
    it(`of ${JSON.stringify(address)} is what Go says: ${JSON.stringify(expected)}`, () => {
      const result = splitHostPort(address);
      assert.deepEqual(typeof result === "string" ? result : [result.host, result.port], expected);
    });
  }
});

describe("joinHostPort", () => {
  const table: readonly (readonly [string, number | string, string])[] = [
    ["localhost", 80, "localhost:80"],
    ["127.0.0.1", "80", "127.0.0.1:80"],
    ["::1", 80, "[::1]:80"],
    ["fe80::1%eth0", 80, "[fe80::1%eth0]:80"],
    ["", 0, ":0"],
    ["host", "", "host:"],
  ];
  for (const [host, port, expected] of table) {
    it(`of ${JSON.stringify(host)} and ${JSON.stringify(port)} is ${expected}`, () => {
      assert.equal(joinHostPort(host, port), expected);
      const split = splitHostPort(expected);
      assert.deepEqual(split, { host, port: String(port) });
    });
  }
});
