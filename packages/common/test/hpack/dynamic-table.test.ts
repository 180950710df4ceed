import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { DynamicTable } from "../../src/hpack/dynamic-table.ts";
import type { HeaderField } from "../../src/hpack/header-list.ts";
import { SearchableTable } from "../../src/hpack/searchable-table.ts";

/** A field that costs 34 bytes. */
function field(name: string): HeaderField {
  return [name, name];
}

function contents(table: DynamicTable): string {
  let names = "";
  for (let age = 0; age < table.count; age++) names += table.at(age)?.[0] ?? "?";
  return names;
}

describe("DynamicTable", () => {
  it("counts 32 bytes on top of each entry's text", () => {
    const table = new DynamicTable(4096);
    table.insert(["custom-key", "custom-header"]);
    assert.equal(table.bytes, 55);
    table.insert(["", ""]);
    assert.equal(table.bytes, 87);
  });

  it("lists the newest entry first and nothing beyond the oldest", () => {
    const table = new DynamicTable(4096);
    for (const name of "abc") table.insert(field(name));
    assert.equal(contents(table), "cba");
    assert.equal(table.at(3), undefined);
  });

  it("evicts the oldest entries, and no more of them than a new one needs", () => {
    const table = new DynamicTable(3 * 34);
    for (const name of "abcd") table.insert(field(name));
    assert.equal(contents(table), "dcb");
    table.insert(["e", "12"]);
    assert.equal(contents(table), "ed");
  });

  it("keeps an entry that fills it exactly", () => {
    const table = new DynamicTable(34);
    table.insert(field("a"));
    assert.equal(contents(table), "a");
  });

  it("is emptied by an entry larger than itself", () => {
    const table = new DynamicTable(2 * 34);
    for (const name of "ab") table.insert(field(name));
    table.insert(["c", "v".repeat(36)]);
    assert.equal(table.count, 0);
    assert.equal(table.bytes, 0);
  });

  it("evicts when it shrinks and keeps what is left when it grows again", () => {
    const evicted: string[] = [];
    const table = new DynamicTable(4096, ([name]) => evicted.push(name));
    for (const name of "abcd") table.insert(field(name));
    table.setCapacity(2 * 34 + 33);
    assert.deepEqual(evicted, ["a", "b"]);
    table.setCapacity(4096);
    assert.equal(contents(table), "dc");
    assert.equal(table.bytes, 2 * 34);
  });

  it("keeps its order while it wraps around and grows", () => {
    const table = new DynamicTable(1000 * 40);
    const names = Array.from({ length: 5000 }, (_, index) => String(index).padStart(4, "0"));
    for (const name of names) table.insert(field(name));
    const expected = names.slice(-1000).reverse();
    assert.deepEqual(
      expected.map((_, age) => table.at(age)?.[0]),
      expected,
    );
  });
});

describe("SearchableTable", () => {
  it("finds fields and names by the number of entries newer than them", () => {
    const table = new SearchableTable(4096);
    table.insert(["a", "1"]);
    table.insert(["b", "1"]);
    table.insert(["a", "2"]);
    assert.equal(table.ageOf("a", "1"), 2);
    assert.equal(table.ageOf("a", "2"), 0);
    assert.equal(table.ageOf("b", "2"), undefined);
    assert.equal(table.ageOfName("a"), 0);
    assert.equal(table.ageOfName("b"), 1);
    assert.equal(table.ageOfName("c"), undefined);
  });

  it("does not find what was evicted, and finds it when it is inserted again", () => {
    const table = new SearchableTable(2 * 34);
    table.insert(["a", "1"]);
    table.insert(["a", "2"]);
    table.insert(["b", "1"]);
    assert.equal(table.ageOf("a", "1"), undefined);
    assert.equal(table.ageOfName("a"), 1);
    table.insert(["b", "2"]);
    assert.equal(table.ageOfName("a"), undefined);
    table.insert(["a", "1"]);
    assert.equal(table.ageOf("a", "1"), 0);
    assert.equal(table.ageOf("b", "2"), 1);
    assert.equal(table.ageOf("b", "1"), undefined);
  });
});
