import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { systemClock } from "../../src/clock.ts";
import { connectSocket } from "../../src/net/connect-socket.ts";
import { SocketEnd } from "../../src/net/socket-end.ts";
import { resetSocket } from "../../src/net/socket-reset.ts";
import { pairMaker, read } from "./socket-pair.ts";

const LIMITS = { closeStallMs: 10_000 };

const ROUNDS = 200;

describe("a reset", () => {
  for (const payloadBytes of [0, 1, 1_000, 70_000]) {
    it(`in one go with ${payloadBytes} bytes is never taken for an end`, async (t) => {
      const { make } = await pairMaker(t);
      for (let round = 0; round < ROUNDS; round++) {
        const { near, far } = await make();
        const events: string[] = [];
        const closed = new Promise<void>((resolve) => {
          const end = new SocketEnd(near, LIMITS, systemClock, {
            data: () => undefined,
            ended: () => {
              events.push("ended");
              end.close();
            },
            taken: () => undefined,
            closed: (error) => {
              events.push(`closed ${(error as NodeJS.ErrnoException | undefined)?.code ?? ""}`);
              resolve();
            },
          });
        });
        if (payloadBytes > 0) far.write(Buffer.alloc(payloadBytes));
        far.resetAndDestroy();
        await closed;
        assert.deepEqual(events, ["closed ECONNRESET"], `round ${round}`);
      }
    });

    it(`is not seen where ${payloadBytes} bytes and an end come in one go`, async (t) => {
      const { make } = await pairMaker(t);
      for (let round = 0; round < ROUNDS; round++) {
        const { near, far } = await make();
        const events: string[] = [];
        let received = 0;
        const closed = new Promise<void>((resolve) => {
          const end = new SocketEnd(near, LIMITS, systemClock, {
            data: (piece) => {
              received += piece.length;
            },
            ended: () => {
              events.push("ended");
              end.close();
            },
            taken: () => undefined,
            closed: (error) => {
              events.push(`closed ${(error as NodeJS.ErrnoException | undefined)?.code ?? ""}`);
              resolve();
            },
          });
        });
        far.resume();
        far.end(Buffer.alloc(payloadBytes));
        await closed;
        assert.deepEqual(events, ["ended", "closed "], `round ${round}`);
        assert.equal(received, payloadBytes);
      }
    });
  }

  it("is told from an end on a socket that we have connected", async (t) => {
    const { make } = await pairMaker(t);
    for (let round = 0; round < 50; round++) {
      // Whatever connecting does with a socket, Node must not have remembered its peer's address.
      const { near, far } = await make((port) =>
        connectSocket({
          address: { kind: "tcp", host: "localhost", port },
          timeoutMs: 5_000,
          clock: systemClock,
          lookup: (_name, _options, callback) => {
            setImmediate(() => {
              callback(null, [{ address: "127.0.0.1", family: 4 }]);
            });
          },
        }),
      );
      const outcome = new Promise<string>((resolve) => {
        const end = new SocketEnd(near, LIMITS, systemClock, {
          data: () => undefined,
          ended: () => {
            resolve("ended");
            end.reset();
          },
          taken: () => undefined,
          closed: (error) => {
            resolve((error as NodeJS.ErrnoException | undefined)?.code ?? "closed");
          },
        });
      });
      far.write("x");
      far.resetAndDestroy();
      assert.equal(await outcome, "ECONNRESET", `round ${round}`);
    }
  });
});

describe("resetSocket()", () => {
  it("is seen as a reset also behind data that has just been written", async (t) => {
    const { make } = await pairMaker(t);
    for (let round = 0; round < 50; round++) {
      const { near, far } = await make();
      const reading = read(far);
      near.on("error", () => undefined);
      near.write("x");
      resetSocket(near);
      await reading.whenClosed;
      assert.deepEqual(reading.ends, ["ECONNRESET"]);
    }
  });

  it("closes a socket whose end is under way", async (t) => {
    const { make } = await pairMaker(t);
    const { near, far } = await make();
    const reading = read(far);
    near.end("x");
    resetSocket(near);
    await once(near, "close");
    far.end();
    await reading.whenClosed;
  });

  it("does nothing more to a socket that is gone", async (t) => {
    const { make } = await pairMaker(t);
    const { near } = await make();
    near.destroy();
    await once(near, "close");
    resetSocket(near);
    resetSocket(near);
  });
});
