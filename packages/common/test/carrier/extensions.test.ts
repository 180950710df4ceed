import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  FRONTEND_EXTENSIONS,
  TUNNEL_EXTENSIONS,
  agreedExtensions,
  namedExtensions,
  offeredExtensions,
} from "../../src/carrier/extensions.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";

const KEY = "reachback-extensions";

describe("extensions", () => {
  it("are offered in one list", () => {
    assert.deepEqual(offeredExtensions(TUNNEL_EXTENSIONS), [
      [KEY, "flow-control,half-close,server-drain,turn-away"],
    ]);
    assert.deepEqual(offeredExtensions(FRONTEND_EXTENSIONS), [[KEY, "half-close"]]);
  });

  it("are read in any order, once or often, with spaces, and without what is unknown", () => {
    const read = (...values: string[]) => [
      ...namedExtensions(
        values.map((value) => [KEY, value]),
        TUNNEL_EXTENSIONS,
      ),
    ];
    assert.deepEqual(read(), []);
    assert.deepEqual(read(""), []);
    assert.deepEqual(read("half-close"), ["half-close"]);
    assert.deepEqual(read("half-close , flow-control"), ["flow-control", "half-close"]);
    assert.deepEqual(read("half-close", "teleport,flow-control", "half-close"), [
      "flow-control",
      "half-close",
    ]);
    assert.deepEqual(read("Flow-Control", "half"), []);
  });

  it("are only those that the call has", () => {
    const offered = offeredExtensions(TUNNEL_EXTENSIONS);
    assert.deepEqual([...namedExtensions(offered, FRONTEND_EXTENSIONS)], ["half-close"]);
  });

  it("are answered with the revision and those that both have", () => {
    const request: HeaderList = [[KEY, "half-close,teleport"]];
    assert.deepEqual(agreedExtensions(request, namedExtensions(request, TUNNEL_EXTENSIONS)), [
      ["reachback-revision", "1"],
      [KEY, "half-close"],
    ]);
  });

  it("are answered with none when nothing is shared", () => {
    const request: HeaderList = [[KEY, "teleport"]];
    assert.deepEqual(agreedExtensions(request, namedExtensions(request, TUNNEL_EXTENSIONS)), [
      ["reachback-revision", "1"],
      [KEY, ""],
    ]);
  });

  it("are not answered to a client that has not asked", () => {
    const request: HeaderList = [["agentid", "a"]];
    assert.deepEqual(agreedExtensions(request, new Set(TUNNEL_EXTENSIONS)), []);
  });
});
