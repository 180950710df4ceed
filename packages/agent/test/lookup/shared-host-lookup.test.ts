import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { HostLookup } from "../../src/lookup/host-lookup.ts";
import { SharedHostLookup } from "../../src/lookup/shared-host-lookup.ts";

/** Look-ups that end when a test says so. */
class HeldLookup implements HostLookup {
  readonly asked: string[] = [];
  readonly aborted: string[] = [];
  readonly #open = new Map<
    string,
    { resolve: (found: string[]) => void; reject: (e: Error) => void }
  >();

  lookup(name: string, signal: AbortSignal): Promise<readonly string[]> {
    this.asked.push(name);
    return new Promise((resolve, reject) => {
      this.#open.set(name, { resolve, reject });
      signal.addEventListener("abort", () => {
        this.aborted.push(name);
        reject(signal.reason as Error);
      });
    });
  }

  answer(name: string, outcome: string | Error): Promise<void> {
    const held = this.#open.get(name);
    if (outcome instanceof Error) held?.reject(outcome);
    else held?.resolve([outcome]);
    return nextTurn();
  }
}

function setup(maxConcurrent = 2) {
  const inner = new HeldLookup();
  const shared = new SharedHostLookup(inner, maxConcurrent);
  const ask = (name: string) => {
    const controller = new AbortController();
    const found = shared.lookup(name, controller.signal);
    found.catch(() => undefined);
    return {
      found,
      leave: (reason = new Error("left")) => {
        controller.abort(reason);
        return nextTurn();
      },
    };
  };
  return { inner, shared, ask };
}

describe("SharedHostLookup", () => {
  it("asks once for a name that several wait for", async () => {
    const { inner, ask } = setup();
    const waiting = [ask("a"), ask("a"), ask("a")];
    await nextTurn();
    assert.deepEqual(inner.asked, ["a"]);
    await inner.answer("a", "192.0.2.1");
    for (const { found } of waiting) assert.deepEqual(await found, ["192.0.2.1"]);
  });

  it("tells all of them why it failed, and asks again for the next", async () => {
    const { inner, ask } = setup();
    const waiting = [ask("a"), ask("a")];
    await nextTurn();
    const failure = new Error("no such host");
    await inner.answer("a", failure);
    for (const { found } of waiting) await assert.rejects(found, failure);
    ask("a");
    await nextTurn();
    assert.deepEqual(inner.asked, ["a", "a"]);
  });

  it("looks up so many names at a time, the others in order", async () => {
    const { inner, ask } = setup(2);
    const waiting = ["a", "b", "c", "d"].map(ask);
    await nextTurn();
    assert.deepEqual(inner.asked, ["a", "b"]);
    await inner.answer("b", "192.0.2.2");
    assert.deepEqual(inner.asked, ["a", "b", "c"]);
    await inner.answer("c", new Error("no such host"));
    assert.deepEqual(inner.asked, ["a", "b", "c", "d"]);
    await inner.answer("d", "192.0.2.4");
    await inner.answer("a", "192.0.2.1");
    assert.deepEqual(await waiting[3]!.found, ["192.0.2.4"]);
    assert.deepEqual(await waiting[0]!.found, ["192.0.2.1"]);
  });

  it("gives a look-up up when the last who waits for it leaves", async () => {
    const { inner, ask } = setup(1);
    const first = ask("a");
    const second = ask("a");
    const other = ask("b");
    const reason = new Error("left");
    await first.leave(reason);
    await assert.rejects(first.found, reason);
    assert.deepEqual(inner.aborted, []);
    await second.leave();
    assert.deepEqual(inner.aborted, ["a"]);
    assert.deepEqual(inner.asked, ["a", "b"]);
    await inner.answer("b", "192.0.2.2");
    assert.deepEqual(await other.found, ["192.0.2.2"]);
  });

  it("does not begin what nobody waits for any more", async () => {
    const { inner, ask } = setup(1);
    ask("a");
    const left = ask("b");
    ask("c");
    await left.leave();
    await inner.answer("a", "192.0.2.1");
    assert.deepEqual(inner.asked, ["a", "c"]);
  });

  it("asks anew for whoever comes behind one that was given up", async () => {
    const { inner, ask } = setup(2);
    const left = ask("a");
    await nextTurn();
    await left.leave();
    const next = ask("a");
    await nextTurn();
    assert.deepEqual(inner.asked, ["a", "a"]);
    await inner.answer("a", "192.0.2.1");
    assert.deepEqual(await next.found, ["192.0.2.1"]);
  });

  it("refuses whoever has left before", async () => {
    const { inner, shared } = setup();
    const reason = new Error("gone");
    await assert.rejects(shared.lookup("a", AbortSignal.abort(reason)), reason);
    assert.deepEqual(inner.asked, []);
  });
});
