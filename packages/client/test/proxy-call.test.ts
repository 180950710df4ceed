import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { GrpcCode, OK_STATUS, PacketType } from "@reachback/common";
import type { Carrier, ConnectionId, ControlPacket, DialId, GrpcStatus } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import type { ConnectionStream } from "../src/connection-stream.ts";
import { ProxyCall } from "../src/proxy-call.ts";
import { streamError } from "./stream-error.ts";

const DIAL_ID = 42 as DialId;
const CONNECTION_ID = 7 as ConnectionId;

/** A call whose server is the test. */
class ScriptedCall implements Carrier {
  queuedBytes = 0;
  readonly clock = new ManualClock();
  /** What was sent, and what the owner was told, in one line each. */
  readonly log: string[] = [];
  readonly call: ProxyCall;
  stream: ConnectionStream | undefined;
  isPaused = false;
  joinedBytes: number | undefined;
  isClosed = false;

  constructor(extensions = "") {
    this.call = new ProxyCall(DIAL_ID, { allowHalfOpen: false, onRead: undefined }, this.clock, {
      dialed: (stream) => {
        this.log.push("dialed");
        this.stream = stream;
      },
      dialFailed: (error) => {
        this.log.push(`failed: ${error.code}: ${error.message}`);
      },
      over: () => {
        this.log.push("over");
      },
    });
    this.call.dial(this, "endpoint:80");
    this.call.opened([["reachback-extensions", extensions]]);
    this.log.length = 0;
  }

  // The server's side

  dialResponse(
    fields: { dialId?: DialId; connectionId?: ConnectionId; error?: string } = {},
  ): this {
    const { dialId = DIAL_ID, connectionId = CONNECTION_ID, error = "" } = fields;
    this.call.control({ type: PacketType.DIAL_RSP, dialId, connectionId, error });
    return this;
  }

  closeResponse(error = "", connectionId = CONNECTION_ID): void {
    this.call.control({ type: PacketType.CLOSE_RSP, connectionId, error });
  }

  end(): void {
    this.log.push("end");
  }

  close(status: GrpcStatus = OK_STATUS): void {
    this.isClosed = true;
    this.call.closed(status);
  }

  // Carrier

  send(packet: ControlPacket): void {
    const name = Object.entries(PacketType).find(([, type]) => type === packet.type)?.[0] ?? "";
    this.log.push(name);
  }

  sendData(connectionId: ConnectionId, payload: Buffer): boolean {
    this.log.push(`DATA ${connectionId} ${String(payload)}`);
    return true;
  }

  growWindow(): void {
    // There is none.
  }

  joinUpTo(bytes: number): void {
    this.joinedBytes = bytes;
  }

  pauseReading(): void {
    this.isPaused = true;
  }

  resumeReading(): void {
    this.isPaused = false;
  }

  abort(status: GrpcStatus): void {
    if (this.isClosed) return;
    this.log.push(`abort: ${status.message}`);
    this.close(status);
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe("a connection over gRPC to a server that knows half-close", () => {
  const open = () => new ScriptedCall("half-close").dialResponse();
  const finish = (script: ScriptedCall) => {
    script.call.control({ type: PacketType.FINISH, connectionId: CONNECTION_ID });
  };

  it("joins what waits into packets of 126 KiB", () => {
    assert.equal(open().joinedBytes, 126 * 1024);
  });

  it("finishes on each side alone, and is left when it is closed", async () => {
    const script = open();
    script.stream?.end("request");
    await turn();
    assert.deepEqual(script.log, ["dialed", "DATA 7 request", "FINISH"]);
    script.call.data(CONNECTION_ID, Buffer.from("response"));
    finish(script);
    assert.equal(String(script.stream?.read()), "response");
    script.stream?.resume();
    script.closeResponse();
    script.close();
    assert.deepEqual(script.log.slice(3), ["end", "over"]);
    await once(script.stream ?? assert.fail(), "close");
    assert.equal(script.clock.pendingTimers, 0);
  });

  it("is reset when it is destroyed for an error", async () => {
    const script = open();
    script.stream?.on("error", () => undefined);
    script.stream?.destroy(new Error("enough"));
    await turn();
    assert.deepEqual(script.log, ["dialed", "RESET", "end"]);
    script.close();
  });

  it("ignores what is for another connection", async () => {
    const script = open();
    script.call.control({ type: PacketType.FINISH, connectionId: 8 as ConnectionId });
    script.stream?.resume();
    await turn();
    assert.equal(script.stream?.readableEnded, false);
    script.stream.destroy();
    script.close();
  });
});

describe("a dial over gRPC", () => {
  it("becomes a connection, which is left when it is closed", async () => {
    const script = new ScriptedCall().dialResponse();
    script.stream?.write("request");
    script.call.data(CONNECTION_ID, Buffer.from("response"));
    script.stream?.end();
    await turn();
    script.closeResponse();
    script.close();
    assert.deepEqual(script.log, ["dialed", "DATA 7 request", "CLOSE_REQ", "end", "over"]);
    assert.equal(String(script.stream?.read()), "response");
    assert.equal(script.clock.pendingTimers, 0);
  });

  it("is not answered by the answer to another", () => {
    const script = new ScriptedCall().dialResponse({ dialId: 43 as DialId });
    assert.deepEqual(script.log, []);
    script.dialResponse();
    assert.deepEqual(script.log, ["dialed"]);
  });

  it("fails with the server's words, and is left", () => {
    const script = new ScriptedCall().dialResponse({ error: "No agent available" });
    script.close();
    assert.deepEqual(script.log, ["end", "failed: ERR_NO_AGENT: No agent available", "over"]);
  });

  it("fails when the agent drops it", () => {
    const script = new ScriptedCall();
    script.call.control({ type: PacketType.DIAL_CLS, dialId: DIAL_ID });
    script.close();
    assert.deepEqual(script.log, [
      "end",
      "failed: ERR_DIAL_FAILED: the agent dropped the dial",
      "over",
    ]);
  });

  it("fails when the call ends without an answer", () => {
    const unavailable = new ScriptedCall();
    unavailable.close({ code: GrpcCode.UNAVAILABLE, message: "the connection was closed" });
    assert.deepEqual(unavailable.log, [
      "failed: ERR_SERVER_UNREACHABLE: the server ended the call: Unavailable: the connection was closed",
      "over",
    ]);
    const wrong = new ScriptedCall();
    wrong.close({ code: GrpcCode.UNIMPLEMENTED, message: "unknown service ProxyService" });
    assert.deepEqual(wrong.log, [
      "failed: ERR_SERVER_PROTOCOL: the server ended the call: Unimplemented: unknown service ProxyService",
      "over",
    ]);
  });

  it("that is cancelled says so, and hears nothing of a late success", async () => {
    const script = new ScriptedCall();
    script.call.cancel();
    script.call.cancel();
    script.dialResponse();
    script.call.data(CONNECTION_ID, Buffer.from("banner"));
    script.closeResponse("reset");
    script.close({ code: GrpcCode.CANCELLED, message: "context canceled" });
    await turn();
    assert.deepEqual(script.log, ["DIAL_CLS", "end", "over"]);
    assert.equal(script.stream, undefined);
    assert.equal(script.clock.pendingTimers, 0);
  });

  it("cannot be cancelled once it has succeeded", () => {
    const script = new ScriptedCall().dialResponse();
    script.call.cancel();
    assert.deepEqual(script.log, ["dialed"]);
  });

  it("succeeds once, whatever a server repeats", () => {
    const script = new ScriptedCall().dialResponse().dialResponse({ error: "changed my mind" });
    script.call.control({ type: PacketType.DIAL_CLS, dialId: DIAL_ID });
    assert.deepEqual(script.log, ["dialed"]);
  });
});

describe("a connection over gRPC", () => {
  it("leaves packets as small as upstream servers know them", () => {
    assert.equal(new ScriptedCall().joinedBytes, undefined);
  });

  it("takes no notice of the packets of others, or of none", () => {
    const script = new ScriptedCall().dialResponse();
    script.call.data(8 as ConnectionId, Buffer.from("not mine"));
    script.closeResponse("", 8 as ConnectionId);
    script.call.control({ type: PacketType.DRAIN });
    script.call.control({ type: PacketType.CLOSE_REQ, connectionId: CONNECTION_ID });
    assert.deepEqual(script.log, ["dialed"]);
    assert.equal(script.stream?.read(), null);
  });

  it("is lost when CLOSE_RSP has an error", async () => {
    const script = new ScriptedCall().dialResponse();
    script.closeResponse("read tcp 10.0.0.1:80: read: connection reset by peer");
    const error = await streamError(script.stream!);
    assert.deepEqual(
      [error.code, error.message],
      ["ERR_CONNECTION_LOST", "read tcp 10.0.0.1:80: read: connection reset by peer"],
    );
    assert.deepEqual(script.log, ["dialed", "end"]);
  });

  it("is lost when the call ends without CLOSE_RSP, be it in order", async () => {
    for (const status of [OK_STATUS, { code: GrpcCode.UNAVAILABLE, message: "gone" }]) {
      const script = new ScriptedCall().dialResponse();
      script.close(status);
      const error = await streamError(script.stream!);
      assert.equal(error.code, "ERR_CONNECTION_LOST");
      assert.match(error.message, /^the server ended the call: (OK: |Unavailable: gone)$/);
      assert.deepEqual(script.log, ["dialed", "over"]);
    }
  });

  it("is not lost when the call ends in any way behind CLOSE_RSP", async () => {
    const script = new ScriptedCall().dialResponse();
    script.closeResponse();
    script.closeResponse("again");
    script.call.data(CONNECTION_ID, Buffer.from("afterwards"));
    script.close({ code: GrpcCode.UNAVAILABLE, message: "gone" });
    const stream = script.stream!;
    stream.resume();
    await once(stream, "close");
    assert.equal(stream.errored, null);
    assert.equal(stream.readableEnded, true);
  });

  it("that is destroyed leaves the call behind what was written", async () => {
    const script = new ScriptedCall().dialResponse();
    script.stream?.write("last words");
    script.stream?.destroy();
    await turn();
    assert.deepEqual(script.log, ["dialed", "DATA 7 last words", "end"]);
    script.close();
    assert.equal(script.log.at(-1), "over");
  });

  it("that is destroyed for an error ends the call at once", async () => {
    const script = new ScriptedCall().dialResponse();
    script.stream?.on("error", () => undefined);
    script.stream?.destroy(new Error("enough"));
    await turn();
    assert.deepEqual(script.log, ["dialed", "end", "abort: enough", "over"]);
    assert.equal(script.clock.pendingTimers, 0);
  });

  it("that is destroyed while its reader is behind lets the server get rid of the rest", async () => {
    const script = new ScriptedCall().dialResponse();
    script.call.data(CONNECTION_ID, Buffer.alloc(100_000));
    assert.equal(script.isPaused, true);
    script.stream?.destroy();
    await turn();
    assert.equal(script.isPaused, false);
    assert.deepEqual(script.log, ["dialed", "end"]);
  });
});

describe("a call that is left", () => {
  it("is cut when the server does not end it within ten seconds", async () => {
    for (const leave of [
      (script: ScriptedCall) => {
        script.call.cancel();
      },
      (script: ScriptedCall) => {
        script.dialResponse({ error: "dial tcp: refused" });
      },
      (script: ScriptedCall) => {
        script.dialResponse().closeResponse();
      },
      (script: ScriptedCall) => {
        script.dialResponse().stream?.destroy();
      },
    ]) {
      const script = new ScriptedCall();
      leave(script);
      await turn();
      script.clock.advance(9_999);
      assert.equal(script.log.at(-1) === "over", false);
      script.clock.advance(1);
      assert.deepEqual(script.log.slice(-2), ["abort: the server did not end the call", "over"]);
      assert.equal(script.clock.pendingTimers, 0);
    }
  });
});
