import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { it } from "node:test";
import { clientsOf, startCluster, startEndpoint } from "./cluster.ts";

const MIB = 1024 * 1024;

/** As many at a time, so that transfers overlap on one tunnel. */
const AT_A_TIME = 5;

const FRONTENDS = ["grpcUnix", "connectUnix", "grpcTls", "connectTls"] as const;

/** Bytes that differ from round to round and from place to place. */
function payloadOf(seed: number): Buffer {
  const payload = Buffer.allocUnsafe(10 * MIB);
  for (let at = 0; at < payload.length; at += 4) payload.writeUInt32LE((at * 31 + seed) >>> 0, at);
  return payload;
}

function sha256(payload: Buffer): string {
  return createHash("sha256").update(payload).digest("hex");
}

/** The digest of everything that arrives until an orderly end. @throws if it ends otherwise. */
async function digestOf(stream: Duplex): Promise<string> {
  const hash = createHash("sha256");
  for await (const piece of stream) hash.update(piece as Buffer);
  return hash.digest("hex");
}

async function repeat(rounds: number, work: (round: number) => Promise<void>): Promise<void> {
  for (let round = 0; round < rounds; round += AT_A_TIME) {
    await Promise.all(Array.from({ length: AT_A_TIME }, (_, index) => work(round + index)));
  }
}

/** @param rounds - Transfers each way over each frontend. */
export function testIntegrity(rounds: number): void {
  for (const frontend of FRONTENDS) {
    it(`arrive whole at the endpoint, from a client on ${frontend}`, async (t) => {
      const cluster = await startCluster(t);
      const digests: Promise<string>[] = [];
      let arrived: (() => void) | undefined;
      const endpoint = await startEndpoint(t, (socket) => {
        digests.push(digestOf(socket).finally(() => socket.end()));
        arrived?.();
      });
      const expected: string[] = [];
      await repeat(rounds, async (round) => {
        const payload = payloadOf(round);
        expected.push(sha256(payload));
        const connection = await clientsOf(cluster)[frontend].dial(endpoint);
        connection.resume();
        const closed = once(connection, "close");
        connection.end(payload);
        await closed;
      });
      while (digests.length < rounds) {
        await new Promise<void>((resolve) => (arrived = resolve));
      }
      assert.deepEqual((await Promise.all(digests)).sort(), expected.sort());
    });

    it(`arrive whole at a client on ${frontend}, from the endpoint`, async (t) => {
      const cluster = await startCluster(t);
      const payload = payloadOf(7);
      const expected = sha256(payload);
      const endpoint = await startEndpoint(t, (socket: Socket) => {
        socket.resume();
        socket.end(payload);
      });
      await repeat(rounds, async () => {
        const connection = await clientsOf(cluster)[frontend].dial(endpoint);
        const closed = once(connection, "close");
        assert.equal(await digestOf(connection), expected);
        await closed;
      });
    });
  }
}
