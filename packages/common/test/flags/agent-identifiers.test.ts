import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkAgentIdentifiers, parseAgentIdentifiers } from "../../src/agent-identifiers.ts";
import { InvalidValueError } from "../../src/flags/invalid-value-error.ts";

const NONE = { ipv4: [], ipv6: [], host: [], cidr: [], zone: [], defaultRoute: false };

describe("agent identifiers", () => {
  const read: readonly (readonly [text: string, expected: object])[] = [
    ["", NONE],
    ["&&", NONE],
    ["host=a&host=b", { ...NONE, host: ["a", "b"] }],
    [
      "ipv4=1.2.3.4&ipv6=::1&cidr=10.0.0.0/8",
      {
        ...NONE,
        ipv4: ["1.2.3.4"],
        ipv6: ["::1"],
        cidr: ["10.0.0.0/8"],
      },
    ],
    ["zone=a&host=b", { ...NONE, zone: ["a"], host: ["b"] }],
    ["host", { ...NONE, host: [""] }],
    ["host=a=b", { ...NONE, host: ["a=b"] }],
    ["ho%73t=a%26b+c%2B", { ...NONE, host: ["a&b c+"] }],
    ["host=%C3%A9", { ...NONE, host: ["\u00e9"] }],
    ["host=%ff", { ...NONE, host: ["\ufffd"] }],
    ["ipv4=${HOST_IP}", { ...NONE, ipv4: ["${HOST_IP}"] }],
    ["uid=7&future=x", NONE],
    ["__proto__=x", NONE],
    ["default-route=true", { ...NONE, defaultRoute: true }],
    ["default-route=1", { ...NONE, defaultRoute: true }],
    ["default-route=True&default-route=false", { ...NONE, defaultRoute: true }],
    ["default-route=no&default-route=true", NONE],
    ["default-route", NONE],
  ];
  for (const [text, expected] of read) {
    it(`a server reads ${JSON.stringify(text)}`, () => {
      assert.deepEqual(parseAgentIdentifiers(text), expected);
    });
  }

  const refused: readonly (readonly [text: string, message: string])[] = [
    ["ipv4=1;ipv6=2", "invalid semicolon separator in query"],
    ["host=%zz&a;b", "invalid semicolon separator in query"],
    ["ipv4=%zz", 'invalid URL escape "%zz"'],
    ["ipv4=%zzz", 'invalid URL escape "%zz"'],
    ["ipv4=%2", 'invalid URL escape "%2"'],
    ["ipv4=%", 'invalid URL escape "%"'],
    ["%=1&host=%zz", 'invalid URL escape "%"'],
  ];
  for (const [text, message] of refused) {
    it(`neither side takes ${JSON.stringify(text)}`, () => {
      assert.throws(() => parseAgentIdentifiers(text), new InvalidValueError(message));
      assert.throws(() => {
        checkAgentIdentifiers(text);
      }, new InvalidValueError(message));
    });
  }

  it("an agent refuses a key that no server knows", () => {
    assert.throws(() => {
      checkAgentIdentifiers("host=a&foo=1");
    }, new InvalidValueError("unknown address type: foo"));
    assert.throws(() => {
      checkAgentIdentifiers("uid=1");
    }, new InvalidValueError("unknown address type: uid"));
  });

  it("an agent takes every known key, whatever its values", () => {
    checkAgentIdentifiers("ipv4=x&ipv6=:::::&host=&cidr=1&default-route=maybe");
  });
});
