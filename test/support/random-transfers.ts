import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TestContext } from "node:test";
import { resetSocket } from "@reachback/common";
import type { FlowOptions } from "@reachback/common";
import { SeededRandom } from "@reachback/common/testing";
import { TEST_FLOW, clientsOf, startCluster, startEndpoint } from "./cluster.ts";
import type { ClusterOverrides } from "./cluster.ts";
import { assertNothingLeft } from "./gauges.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** Small windows, so that credit runs out all the time. Both ends know the first size. */
const SMALL_WINDOWS: FlowOptions = {
  ...TEST_FLOW,
  limits: { ...TEST_FLOW.limits, initialBytes: 16 * KIB, maxBytes: 64 * KIB },
  halfCloseTimeoutMs: 2_000,
};

const FRONTENDS = ["grpcUnix", "connectUnix", "grpcTls", "connectTls"] as const;

/** Who ends a transfer too early, and after how many bytes that it has sent. */
interface Abort {
  readonly by: "client" | "endpoint";
  readonly afterBytes: number;
}

/** One transfer: so much each way, with pauses, ended by both or aborted by one. */
interface Plan {
  readonly id: number;
  readonly frontend: (typeof FRONTENDS)[number];
  readonly upBytes: number;
  readonly downBytes: number;
  /** Whether the client has `onRead` called instead of listening for `data`. */
  readonly readsDirectly: boolean;
  /** Whether the endpoint sends only when the client has finished. */
  readonly answersAtTheEnd: boolean;
  readonly abort: Abort | undefined;
}

function planOf(id: number, random: SeededRandom): Plan {
  const upTo = (limit: number) => Math.floor(random.fraction() * limit);
  const size = () => [0, 1, upTo(2 * KIB), upTo(200 * KIB), upTo(2 * MIB), upTo(8 * MIB)][upTo(6)]!;
  const plan = {
    id,
    frontend: FRONTENDS[upTo(FRONTENDS.length)]!,
    upBytes: size(),
    downBytes: size(),
    readsDirectly: upTo(2) === 0,
    answersAtTheEnd: upTo(2) === 0,
  };
  if (upTo(3) > 0) return { ...plan, abort: undefined };
  const by = upTo(2) === 0 ? "client" : "endpoint";
  return {
    ...plan,
    abort: { by, afterBytes: upTo(by === "client" ? plan.upBytes : plan.downBytes) },
  };
}

/** Byte `at` of what one side of transfer `id` sends. */
function payload(id: number, side: "client" | "endpoint", from: number, bytes: number): Buffer {
  const piece = Buffer.allocUnsafe(bytes);
  const seed = id * 2 + (side === "client" ? 1 : 0);
  for (let at = 0; at < bytes; at++)
    piece[at] = ((from + at) * 31 + ((from + at) >> 8) + seed) & 0xff;
  return piece;
}

/** Of the first bytes that one side of transfer `id` sends. */
function digestOf(id: number, side: "client" | "endpoint", bytes: number): string {
  const hash = createHash("sha256");
  for (let at = 0; at < bytes; at += MIB)
    hash.update(payload(id, side, at, Math.min(MIB, bytes - at)));
  return hash.digest("hex");
}

/** What one side has seen of the other. */
interface Sight {
  bytes: number;
  readonly digest: () => string;
  end: "open" | "ended" | "failed";
  /** Whether this side has ended in an orderly way, behind all it had to send. */
  hasFinished: boolean;
  readonly whenOver: Promise<void>;
}

/** Drive one side: read with pauses what `listen` is told, send in pieces with pauses, end or abort. */
function drive(
  stream: Duplex,
  listen: (received: (piece: Buffer) => void) => void,
  side: "client" | "endpoint",
  plan: Plan,
  random: SeededRandom,
  startSending: Promise<void>,
  abort: () => void,
): Sight {
  const hash = createHash("sha256");
  let over: () => void = () => undefined;
  const sight: Sight = {
    bytes: 0,
    digest: () => hash.digest("hex"),
    end: "open",
    hasFinished: false,
    whenOver: new Promise((resolve) => (over = resolve)),
  };
  listen((piece) => {
    sight.bytes += piece.length;
    hash.update(piece);
    // Whoever lends it may use it again, and so may whoever owns it.
    piece.fill(0xee);
    if (random.fraction() > 0.1) return;
    stream.pause();
    let turns = Math.floor(random.fraction() * 20);
    const wait = () => {
      if (turns-- > 0) setImmediate(wait);
      else stream.resume();
    };
    wait();
  });
  stream.on("end", () => {
    if (sight.end === "open") sight.end = "ended";
  });
  stream.on("error", () => {
    sight.end = "failed";
  });
  stream.on("close", () => {
    if (sight.end === "open") sight.end = "failed";
    over();
  });
  const total = side === "client" ? plan.upBytes : plan.downBytes;
  const abortAt = plan.abort?.by === side ? plan.abort.afterBytes : Infinity;
  void startSending.then(async () => {
    for (let at = 0; at < total && !stream.destroyed;) {
      if (at >= abortAt) break;
      const bytes = Math.min(
        total - at,
        abortAt - at,
        1 + Math.floor(random.fraction() * 96 * KIB),
      );
      const hasRoom = stream.write(payload(plan.id, side, at, bytes));
      at += bytes;
      if (!hasRoom) {
        await Promise.race([
          new Promise((resolve) => stream.once("drain", resolve)),
          sight.whenOver,
        ]);
      } else if (random.fraction() < 0.3) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    if (abortAt !== Infinity) {
      abort();
    } else if (!stream.destroyed) {
      sight.hasFinished = true;
      stream.end();
    }
  });
  return sight;
}

/**
 * A direction is complete, or whoever reads it has been told that it is not. What came is what was
 * sent, however it ended.
 */
function assertHonest(
  { id, frontend, abort, ...plan }: Plan,
  reader: "client" | "endpoint",
  sight: Sight,
  senderFinished: boolean,
): void {
  const sender = reader === "client" ? "endpoint" : "client";
  const total = sender === "client" ? plan.upBytes : plan.downBytes;
  const what = `transfer ${id} over ${frontend}, as the ${reader} sees it (${JSON.stringify({ ...plan, abort })})`;
  // A Unix socket knows no reset: whoever closes one looks as if it had finished. And TLS that is
  // saying good-bye hides one that comes in the same instant (LIMITS.md).
  const mayLookComplete =
    abort !== undefined &&
    (frontend === "connectUnix" || (frontend === "connectTls" && abort.by === "client"));
  if (sight.end === "ended" && !mayLookComplete) {
    assert.ok(senderFinished, `${what}: an end that nobody sent, after ${sight.bytes} bytes`);
    assert.equal(sight.bytes, total, what);
  }
  assert.ok(sight.bytes <= total, `${what}: ${sight.bytes} bytes came`);
  assert.equal(sight.digest(), digestOf(id, sender, sight.bytes), `${what}: ${sight.bytes} bytes`);
  if (abort === undefined) assert.equal(sight.end, "ended", what);
}

/**
 * Transfers of random sizes, with random pauses, half-closes and aborts, through a server and an
 * agent with small windows. Each must be complete to the byte, or end as what it is: a failure.
 */
export async function runRandomTransfers(
  t: TestContext,
  seed: number,
  count: number,
  atATime: number,
  overrides: ClusterOverrides = {},
): Promise<void> {
  const cluster = await startCluster(t, {
    server: { flow: SMALL_WINDOWS, ...overrides.server },
    agent: { flow: SMALL_WINDOWS, ...overrides.agent },
  });
  const clients = clientsOf(cluster);
  const random = new SeededRandom(seed);
  const plans = new Map<number, { plan: Plan; arrived: (socket: Socket) => void }>();
  const endpoint = await startEndpoint(t, (socket) => {
    // The client says which transfer it is, in the first four bytes.
    socket.once("readable", function readId() {
      const head = socket.read(4) as Buffer | null;
      if (head === null) {
        if (!socket.readableEnded && !socket.destroyed) socket.once("readable", readId);
        return;
      }
      plans.get(head.readUInt32BE())?.arrived(socket);
    });
  });

  const transfer = async (id: number) => {
    const plan = planOf(id, random);
    const ownRandom = new SeededRandom(seed * 100_003 + id);
    const arrived = new Promise<Socket>((resolve) => plans.set(id, { plan, arrived: resolve }));
    let received: (piece: Buffer) => void = () => assert.fail("sent before it was asked for");
    const onRead = (piece: Buffer) => {
      received(piece);
    };
    const stream = await clients[plan.frontend].dial(endpoint, {
      allowHalfOpen: true,
      ...(plan.readsDirectly && { onRead }),
    });
    const listen = (listener: typeof received) => {
      if (plan.readsDirectly) received = listener;
      else stream.on("data", listener);
    };
    const head = Buffer.alloc(4);
    head.writeUInt32BE(id);
    stream.write(head);
    // Nobody aborts before both are there.
    const socket = await arrived;
    const client = drive(stream, listen, "client", plan, ownRandom, Promise.resolve(), () => {
      if (plan.frontend.startsWith("grpc")) stream.destroy(new Error("aborted"));
      else if (stream instanceof Socket) resetSocket(stream);
    });
    const mayStart = plan.answersAtTheEnd
      ? new Promise<void>((resolve) => {
          socket.once("end", resolve);
          socket.once("close", resolve);
        })
      : Promise.resolve();
    const listenFar = (listener: typeof received) => void socket.on("data", listener);
    const far = drive(socket, listenFar, "endpoint", plan, ownRandom, mayStart, () => {
      resetSocket(socket);
    });
    await Promise.all([client.whenOver, far.whenOver]);
    plans.delete(id);
    assertHonest(plan, "client", client, far.hasFinished);
    assertHonest(plan, "endpoint", far, client.hasFinished);
  };

  let next = 0;
  await Promise.all(
    Array.from({ length: atATime }, async () => {
      while (next < count) await transfer(next++);
    }),
  );
  for (const client of Object.values(clients)) client.close();
  await assertNothingLeft(cluster);
}
