import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import type { TestContext } from "node:test";

/** Both ends of a TCP connection on loopback, as our own sockets are made: half-open. */
export interface SocketPair {
  readonly near: Socket;
  readonly far: Socket;
}

export interface PairMaker {
  /** A pair whose near end `connectTo` makes; a plain connection by default. */
  readonly make: (connectTo?: (port: number) => Promise<Socket>) => Promise<SocketPair>;
}

async function connectPlainly(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  await once(socket, "connect");
  return socket;
}

/** Makes pairs, one after the other. Everything is gone when the test ends. */
export async function pairMaker(t: TestContext): Promise<PairMaker> {
  const server: Server = createServer({ allowHalfOpen: true, noDelay: true });
  const sockets: Socket[] = [];
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    async make(connectTo = connectPlainly) {
      const accepted = once(server, "connection") as Promise<[Socket]>;
      const [[far], near] = await Promise.all([accepted, connectTo(port)]);
      sockets.push(near, far);
      far.on("error", () => undefined);
      return { near, far };
    },
  };
}

export async function socketPair(t: TestContext): Promise<SocketPair> {
  return (await pairMaker(t)).make();
}

/** What arrives at a socket until it is over, and how it ends: `end`, an error's code, or both. */
export interface Reading {
  bytes: number;
  readonly text: () => string;
  readonly ends: string[];
  readonly whenEnded: Promise<void>;
  readonly whenClosed: Promise<void>;
}

export function read(socket: Socket, keeps = false): Reading {
  const pieces: Buffer[] = [];
  const ends: string[] = [];
  const reading: Reading = {
    bytes: 0,
    text: () => Buffer.concat(pieces).toString(),
    ends,
    whenEnded: new Promise((resolve) => {
      socket.on("end", () => {
        // With data in front of it libuv calls a reset an end; the kernel has forgotten the peer.
        const isReset = !socket.writableEnded && socket.remoteAddress === undefined;
        ends.push(isReset ? "ECONNRESET" : "end");
        if (isReset) socket.destroy();
        else resolve();
      });
    }),
    whenClosed: new Promise((resolve) => {
      socket.on("close", () => {
        resolve();
      });
    }),
  };
  socket.on("data", (piece: Buffer) => {
    reading.bytes += piece.length;
    if (keeps) pieces.push(piece);
  });
  socket.on("error", (error: NodeJS.ErrnoException) => {
    ends.push(error.code ?? error.message);
  });
  return reading;
}

/** Wait for what other sockets and the system do, some turns of the event loop at a time. */
export async function eventually(condition: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadlineMs) throw new Error(`never became true: ${String(condition)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
