import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { pipeline } from "node:stream/promises";
import { Readable } from "node:stream";
import { ManualClock } from "@reachback/common/testing";
import { ClientError } from "../src/client-error.ts";
import { ConnectionStream } from "../src/connection-stream.ts";
import type { StreamCarrier, StreamOptions } from "../src/connection-stream.ts";
import { streamError } from "./stream-error.ts";

const KIB = 1024;

/** Keeps what it is given, and has room for as many pieces as it is told. */
class FakeCarrier implements StreamCarrier {
  readonly log: string[] = [];
  readonly sent: Buffer[] = [];
  room = Number.POSITIVE_INFINITY;
  hasHalfClose = false;

  sendData(piece: Buffer): boolean {
    this.sent.push(piece);
    return --this.room > 0;
  }

  sendEnd(): void {
    this.log.push("close");
  }

  pauseReading(): void {
    if (this.log.at(-1) !== "pause") this.log.push("pause");
  }

  resumeReading(): void {
    if (this.log.at(-1) === "pause") this.log.push("resume");
  }

  release(error: Error | undefined): void {
    this.log.push(error === undefined ? "release" : `release: ${error.message}`);
  }
}

function setup({
  hasHalfClose = false,
  allowHalfOpen = false,
  onRead = undefined as StreamOptions["onRead"],
} = {}) {
  const carrier = new FakeCarrier();
  carrier.hasHalfClose = hasHalfClose;
  const clock = new ManualClock();
  return {
    carrier,
    clock,
    stream: new ConnectionStream(carrier, { allowHalfOpen, onRead }, clock),
  };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("writing to a ConnectionStream", () => {
  it("sends pieces of 31.5 KiB at most, in order", async () => {
    const { carrier, stream } = setup();
    const bytes = Buffer.from(Uint8Array.from({ length: 100_000 }, (_, i) => i % 251));
    await new Promise((resolve) => stream.write(bytes, resolve));
    assert.deepEqual(
      carrier.sent.map((piece) => piece.length),
      [32_256, 32_256, 32_256, 100_000 - 3 * 32_256],
    );
    assert.ok(Buffer.concat(carrier.sent).equals(bytes));
  });

  it("sends nothing for no bytes: upstream's client takes an empty DATA for the end", async () => {
    const { carrier, stream } = setup();
    await new Promise((resolve) => stream.write(Buffer.alloc(0), resolve));
    assert.deepEqual(carrier.sent, []);
  });

  it("stops within one large write when there is no room, and goes on where it stopped", () => {
    const { carrier, stream } = setup();
    carrier.room = 3;
    let isDone = false;
    stream.write(Buffer.alloc(5 * 1024 * KIB, 1), () => (isDone = true));
    assert.equal(carrier.sent.length, 3);
    carrier.room = 50;
    stream.roomAgain();
    assert.equal(carrier.sent.length, 53);
    assert.equal(isDone, false);
    carrier.room = Number.POSITIVE_INFINITY;
    stream.roomAgain();
    assert.equal(Buffer.concat(carrier.sent).length, 5 * 1024 * KIB);
    assert.equal(isDone, true);
  });

  it("waits for room behind the last piece too", async () => {
    const { carrier, stream } = setup();
    carrier.room = 1;
    let doneCount = 0;
    stream.write("a", () => doneCount++);
    stream.write("b", () => doneCount++);
    await turn();
    assert.deepEqual([carrier.sent.length, doneCount], [1, 0]);
    carrier.room = 2;
    stream.roomAgain();
    await turn();
    assert.deepEqual([carrier.sent.length, doneCount], [2, 2]);
  });

  it("leaves the writer's buffer to the writer once the write is done", async () => {
    const { carrier, stream } = setup();
    const buffer = Buffer.alloc(40 * KIB, "a");
    await new Promise((resolve) => stream.write(buffer, resolve));
    buffer.fill("b");
    assert.ok(Buffer.concat(carrier.sent).equals(Buffer.alloc(40 * KIB, "a")));
  });

  it("closes behind what was written; finish waits until the other side has confirmed it", async () => {
    const { carrier, stream } = setup();
    let isFinished = false;
    stream.on("finish", () => (isFinished = true));
    carrier.room = 1;
    stream.end("last words");
    await turn();
    assert.deepEqual(carrier.log, []);
    stream.roomAgain();
    await turn();
    assert.deepEqual(carrier.log, ["close"]);
    assert.equal(isFinished, false);
    stream.remoteClosed(undefined);
    await turn();
    assert.equal(isFinished, true);
    stream.resume();
    await once(stream, "close");
    assert.deepEqual(carrier.log, ["close", "release"]);
  });

  it("fails what waits for finish if the connection is lost meanwhile", async () => {
    const { carrier, stream } = setup();
    const piped = pipeline(Readable.from([Buffer.from("all")]), stream);
    await turn();
    assert.deepEqual(carrier.log, ["close"]);
    stream.remoteClosed(new ClientError("ERR_CONNECTION_LOST", "gone"));
    await assert.rejects(piped, { code: "ERR_CONNECTION_LOST" });
  });

  it("drops what is written after the other side has closed, and sends no close of its own", async () => {
    const { carrier, stream } = setup();
    carrier.room = 1;
    let doneCount = 0;
    stream.write("a", () => doneCount++);
    stream.write(Buffer.alloc(100 * KIB), () => doneCount++);
    stream.remoteClosed(undefined);
    await turn();
    assert.equal(doneCount, 2);
    stream.end("more");
    stream.resume();
    await once(stream, "close");
    assert.deepEqual([carrier.sent.length, carrier.log], [1, ["release"]]);
  });
});

describe("reading from a ConnectionStream", () => {
  it("pauses the call when the reader is behind, and lets it go on when it is not", () => {
    const { carrier, stream } = setup();
    stream.receive(Buffer.alloc(1));
    assert.deepEqual(carrier.log, []);
    stream.receive(Buffer.alloc(64 * KIB));
    assert.deepEqual(carrier.log, ["pause"]);
    stream.read();
    assert.deepEqual(carrier.log, ["pause", "resume"]);
  });

  it("ends behind everything received, and with it the other direction", async () => {
    const { stream } = setup();
    const seen: string[] = [];
    stream.receive(Buffer.from("first "));
    stream.receive(Buffer.from("second"));
    stream.remoteClosed(undefined);
    stream.on("data", (chunk: Buffer) => seen.push(String(chunk)));
    stream.on("end", () => seen.push("end"));
    await once(stream, "close");
    assert.deepEqual(seen, ["first ", "second", "end"]);
    assert.equal(stream.writableFinished, true);
  });

  it("with TLS on top waits for its end: TLS may hold bytes that nobody has read yet", async () => {
    for (const hasHalfClose of [true, false]) {
      const { carrier, stream } = setup({ hasHalfClose });
      let isClosed = false;
      stream.once("close", () => {
        isClosed = true;
      });
      stream.write(Buffer.from("160301", "hex"));
      stream.resume();
      stream.remoteFinished();
      await once(stream, "end");
      stream.remoteClosed(undefined);
      for (let turns = 0; turns < 20; turns++) await turn();
      assert.equal(isClosed, false);
      // Its good-bye is no mistake, and of no use any more.
      stream.end("good-bye");
      await once(stream, "close");
      assert.equal(carrier.sent.length, 1);
    }
  });

  it("fails for whoever listens after having been given it, not before", async () => {
    const { stream } = setup();
    stream.remoteClosed(new ClientError("ERR_CONNECTION_LOST", "read tcp: reset"));
    // What a dial does: the stream changes hands by way of a promise.
    const error = await Promise.resolve(stream).then((handed) => streamError(handed));
    assert.equal(error.code, "ERR_CONNECTION_LOST");
    assert.equal(stream.readableEnded, false);
  });
});

describe("a ConnectionStream with onRead", () => {
  /** A stream that says "what came: `text`", and what of that was in the memory it came in. */
  function readingSetup() {
    const seen: string[] = [];
    let lent: Buffer | undefined;
    const { carrier, stream } = setup({
      onRead: (bytes) => seen.push(`${bytes === lent ? "lent" : "copied"}: ${String(bytes)}`),
    });
    stream.on("end", () => seen.push("end"));
    const receive = (text: string) => {
      lent = Buffer.from(text);
      stream.receive(lent);
      // As whoever reads next will do.
      lent.fill("x");
      lent = undefined;
    };
    return { carrier, stream, seen, receive };
  }

  it("hands out bytes as they come, where they came", async () => {
    const { carrier, stream, seen, receive } = readingSetup();
    await turn();
    for (let count = 0; count < 3; count++) receive("a".repeat(40 * KIB));
    assert.deepEqual(seen, Array(3).fill(`lent: ${"a".repeat(40 * KIB)}`));
    assert.deepEqual(carrier.log, []);
    stream.remoteClosed(undefined);
    await once(stream, "close");
    assert.equal(seen.at(-1), "end");
  });

  it("hands out nothing before whoever dials can have it", async () => {
    const { stream, seen, receive } = readingSetup();
    receive("banner");
    stream.remoteClosed(undefined);
    // What a dial does: the stream changes hands by way of promises.
    for (let count = 0; count < 20; count++) await Promise.resolve();
    assert.deepEqual(seen, []);
    await once(stream, "close");
    assert.deepEqual(seen, ["copied: banner", "end"]);
  });

  it("keeps what comes while it is paused, has the other side wait, and goes on in order", async () => {
    const { carrier, stream, seen, receive } = readingSetup();
    await turn();
    receive("one");
    stream.pause();
    receive("two");
    receive("3".repeat(20 * KIB));
    assert.deepEqual(seen, ["lent: one"]);
    assert.deepEqual(carrier.log, ["pause"]);
    stream.resume();
    receive("four");
    await turn();
    assert.deepEqual(carrier.log, ["pause", "resume"]);
    receive("five");
    assert.deepEqual(seen, [
      "lent: one",
      "copied: two",
      `copied: ${"3".repeat(20 * KIB)}`,
      "copied: four",
      "lent: five",
    ]);
  });
});

describe("a ConnectionStream with half-close", () => {
  it("has finished as soon as that is sent, and still reads", async () => {
    const { carrier, stream } = setup({ hasHalfClose: true });
    const seen: string[] = [];
    stream.on("data", (chunk: Buffer) => seen.push(String(chunk)));
    stream.on("end", () => seen.push("end"));
    stream.on("close", () => seen.push("close"));
    stream.end("request");
    await once(stream, "finish");
    assert.deepEqual(carrier.log, ["close"]);
    stream.receive(Buffer.from("response"));
    stream.remoteFinished();
    await turn();
    assert.deepEqual(seen, ["response", "end"]);
    stream.remoteClosed(undefined);
    await once(stream, "close");
    assert.deepEqual(seen, ["response", "end", "close"]);
    assert.deepEqual(carrier.log, ["close", "release"]);
  });

  it("ends itself when the endpoint has finished", async () => {
    const { carrier, stream } = setup({ hasHalfClose: true });
    stream.resume();
    stream.remoteFinished();
    await once(stream, "finish");
    assert.deepEqual(carrier.log, ["close"]);
  });

  it("leaves that to its owner who has asked for it", async () => {
    const { carrier, stream } = setup({ hasHalfClose: true, allowHalfOpen: true });
    stream.resume();
    stream.remoteFinished();
    await once(stream, "end");
    await turn();
    stream.write("more");
    assert.equal(String(carrier.sent[0]), "more");
    assert.deepEqual(carrier.log, []);
    stream.end();
    await once(stream, "finish");
    stream.remoteClosed(undefined);
    await once(stream, "close");
  });

  it("is closed when the connection is, whether its owner has ended it or not", async () => {
    const { carrier, stream } = setup({ hasHalfClose: true, allowHalfOpen: true });
    stream.resume();
    stream.remoteFinished();
    stream.remoteClosed(undefined);
    await once(stream, "close");
    assert.deepEqual(carrier.log, ["release"]);
  });

  it("fails when the connection is lost after its end", async () => {
    const { stream } = setup({ hasHalfClose: true });
    stream.end();
    await once(stream, "finish");
    stream.remoteClosed(new ClientError("ERR_CONNECTION_LOST", "half-close timeout"));
    assert.equal((await streamError(stream)).code, "ERR_CONNECTION_LOST");
  });
});

describe("destroying a ConnectionStream", () => {
  it("releases the call once, and fails the writes that wait", async () => {
    const { carrier, stream } = setup();
    carrier.room = 1;
    const errors: unknown[] = [];
    stream.write("a", (error) => errors.push(error));
    stream.write("b", (error) => errors.push(error));
    stream.destroy();
    stream.destroy();
    await once(stream, "close");
    await turn();
    assert.deepEqual(
      errors.map((error) => error instanceof Error),
      [true, true],
    );
    assert.deepEqual(carrier.log, ["release"]);
    stream.roomAgain();
    assert.equal(carrier.sent.length, 1);
  });

  it("tells the call if it is for an error", async () => {
    const { carrier, stream } = setup();
    stream.on("error", () => undefined);
    stream.destroy(new Error("enough"));
    await turn();
    assert.deepEqual(carrier.log, ["release: enough"]);
  });

  it("while waiting for the end to be confirmed, leaves it unconfirmed", async () => {
    const { carrier, stream } = setup();
    stream.end();
    await turn();
    stream.destroy();
    await once(stream, "close");
    assert.deepEqual(carrier.log, ["close", "release"]);
    assert.equal(stream.writableFinished, false);
  });
});

describe("a ConnectionStream as a socket", () => {
  it("emits timeout after a time without a byte either way", () => {
    const { clock, stream } = setup();
    let timeoutCount = 0;
    assert.equal(stream.timeout, 0);
    stream.setTimeout(1_000, () => timeoutCount++);
    assert.equal(stream.timeout, 1_000);
    clock.advance(900);
    stream.write("a");
    clock.advance(900);
    stream.receive(Buffer.from("b"));
    clock.advance(999);
    assert.equal(timeoutCount, 0);
    clock.advance(1);
    assert.equal(timeoutCount, 1);
  });

  it("takes the listener back with a timeout of 0", () => {
    const { clock, stream } = setup();
    const onTimeout = () => assert.fail("timed out");
    stream.setTimeout(1_000, onTimeout);
    stream.setTimeout(0, onTimeout);
    assert.equal(stream.listenerCount("timeout"), 0);
    clock.advance(5_000);
  });

  it("has no timer left when it is destroyed", async () => {
    const { clock, stream } = setup();
    stream.setTimeout(1_000);
    stream.destroy();
    await turn();
    assert.equal(clock.pendingTimers, 0);
  });

  it("has the other methods that HTTP clients call on one", () => {
    const { stream } = setup();
    assert.equal(stream.setKeepAlive().setNoDelay().ref().unref(), stream);
  });
});
