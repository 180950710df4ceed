import assert from "node:assert/strict";
import { SocketAddress, BlockList } from "node:net";
import { describe, it } from "node:test";
import { SeededRandom } from "@reachback/common/testing";
import { parseIpAddress, parseIpPrefix, wholePrefix } from "../../src/backend/ip-address.ts";
import { PrefixTable } from "../../src/backend/prefix-table.ts";

const random = new SeededRandom(17);
const upTo = (limit: number) => Math.floor(random.fraction() * limit);

/** Few bits differ, so that prefixes contain addresses by more than chance. */
function anyAddress(): { text: string; family: "ipv4" | "ipv6" } {
  if (upTo(2) === 0) return { text: `10.${upTo(3)}.${upTo(4) * 64}.${upTo(256)}`, family: "ipv4" };
  const groups = Array.from({ length: 8 }, (_, index) =>
    index === 0 ? "fd00" : upTo(3) === 0 ? (upTo(2) * 0x8000).toString(16) : "0",
  );
  return { text: groups.join(":"), family: "ipv6" };
}

describe("a prefix table", () => {
  it("finds the longest prefix of each address, as node:net's own check says", () => {
    for (let round = 0; round < 100; round++) {
      const table = new PrefixTable<string>();
      const rules = Array.from({ length: 20 }, () => {
        const { text, family } = anyAddress();
        const length = upTo((family === "ipv4" ? 32 : 128) + 1);
        const prefix = parseIpPrefix(`${text}/${length}`);
        assert.ok(prefix);
        const list = new BlockList();
        list.addSubnet(text, length, family);
        table.set(prefix, `${family}/${length}`);
        return { list, length, family };
      });
      for (let i = 0; i < 20; i++) {
        const { text, family } = anyAddress();
        const address = parseIpAddress(text);
        assert.ok(address);
        const lengths = rules
          .filter((rule) => rule.family === family && rule.list.check(text, family))
          .map(({ length }) => length);
        const expected = [...new Set(lengths)].sort((one, other) => other - one);
        assert.deepEqual(
          [...table.matches(address)],
          expected.map((length) => `${family}/${length}`),
          text,
        );
      }
    }
  });

  it("is empty when all that was put in is taken out", () => {
    const table = new PrefixTable<number>();
    const prefixes = ["10.0.0.0/8", "10.9.9.9/8", "10.0.0.0/16", "fd00::/8", "::/0"].map((text) => {
      const prefix = parseIpPrefix(text);
      assert.ok(prefix);
      table.set(prefix, 1);
      return prefix;
    });
    assert.equal(table.size, 4);
    for (const prefix of prefixes) table.delete(prefix);
    assert.equal(table.size, 0);
    assert.equal(table.get(wholePrefix({ family: 4, value: 1n })), undefined);
  });
});

describe("an address", () => {
  it("is the same however it is written", () => {
    for (let i = 0; i < 1_000; i++) {
      const { text, family } = anyAddress();
      const canonical = new SocketAddress({ address: text, family }).address;
      assert.deepEqual(parseIpAddress(canonical), parseIpAddress(text), text);
    }
    const forms: readonly [one: string, other: string][] = [
      ["::", "0:0:0:0:0:0:0:0"],
      ["::1", "0::0.0.0.1"],
      ["1::", "1:0:0:0:0:0:0:0"],
      ["::ffff:10.1.2.3", "10.1.2.3"],
      ["::ffff:0a01:0203", "10.1.2.3"],
      ["64:ff9b::10.1.2.3", "64:ff9b::a01:203"],
    ];
    for (const [one, other] of forms) {
      assert.deepEqual(parseIpAddress(one), parseIpAddress(other), one);
    }
  });

  it("is none if it is anything else", () => {
    for (const text of [
      "",
      "a",
      "10.0.0",
      "010.0.0.1",
      "10.0.0.1 ",
      "fe80::1%eth0",
      "::1::",
      "1:2",
    ]) {
      assert.equal(parseIpAddress(text), undefined, text);
    }
    for (const text of [
      "10.0.0.0/33",
      "::/129",
      "10.0.0.0/08",
      "10.0.0.0/",
      "::ffff:10.0.0.0/95",
    ]) {
      assert.equal(parseIpPrefix(text), undefined, text);
    }
    assert.deepEqual(parseIpPrefix("::ffff:10.0.0.0/104"), parseIpPrefix("10.0.0.0/8"));
  });
});
