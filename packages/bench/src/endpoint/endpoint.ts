import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { readBorrowed, systemClock } from "@reachback/common";
import { ByteSource } from "./byte-source.ts";
import { ACK_EVERY_BYTES, REQUEST_BYTES, decodeRequest } from "./endpoint-request.ts";
import type { EndpointRequest } from "./endpoint-request.ts";

/** Bytes given to a socket ahead of what the kernel takes. */
const WRITE_AHEAD_BYTES = 1024 * 1024;

const BACKLOG = 4096;

/** The far end of every connection; it does what a connection's first bytes ask for. */
export async function startEndpoint(): Promise<{ port: number }> {
  const options = { noDelay: true, highWaterMark: WRITE_AHEAD_BYTES };
  const server = createServer(options, serve);
  server.listen(0, "127.0.0.1", BACKLOG);
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port };
}

const ONE_BYTE = Buffer.alloc(1);

function serve(socket: Socket): void {
  // A client that leaves in the middle is how time-limited runs end.
  socket.on("error", () => undefined);
  readRequest(socket, Buffer.alloc(0));
}

/** `head` is what has come of the request so far. */
function readRequest(socket: Socket, head: Buffer): void {
  socket.once("data", (chunk: Buffer) => {
    const bytes = head.length === 0 ? chunk : Buffer.concat([head, chunk]);
    if (bytes.length < REQUEST_BYTES) readRequest(socket, bytes);
    else begin(socket, decodeRequest(bytes), bytes.length - REQUEST_BYTES);
  });
}

/** `extraBytes` have come behind the request already. */
function begin(socket: Socket, request: EndpointRequest, extraBytes: number): void {
  switch (request.service) {
    case "ping":
      socket.write(ONE_BYTE);
      readRequest(socket, Buffer.alloc(0));
      return;
    case "source": {
      const source = new ByteSource(request.byteCount, (bytes) => socket.write(bytes));
      socket.on("drain", () => {
        source.pump();
      });
      socket.resume();
      source.pump();
      return;
    }
    case "sink":
      sink(socket, request.byteCount, extraBytes);
      return;
    case "echo":
      if (extraBytes > 0) socket.write(Buffer.alloc(extraBytes));
      socket.on("data", (chunk: Buffer) => socket.write(chunk));
      return;
    case "exchange":
      exchange(socket, request.byteCount, extraBytes + REQUEST_BYTES);
      return;
    case "stall":
      socket.pause();
  }
}

function sink(socket: Socket, byteCount: number, extraBytes: number): void {
  let receivedBytes = extraBytes;
  let nextAckAt = Math.min(ACK_EVERY_BYTES, byteCount);
  const acknowledge = () => {
    while (receivedBytes >= nextAckAt) {
      socket.write(ONE_BYTE);
      nextAckAt =
        nextAckAt === byteCount ? Infinity : Math.min(nextAckAt + ACK_EVERY_BYTES, byteCount);
    }
  };
  readBorrowed(socket, systemClock, (bytes) => {
    receivedBytes += bytes.length;
    acknowledge();
  });
  acknowledge();
}

function exchange(socket: Socket, byteCount: number, alreadyBytes: number): void {
  let missingBytes = byteCount - alreadyBytes;
  const answer = () => {
    if (missingBytes <= 0) socket.write(Buffer.alloc(byteCount));
  };
  socket.on("data", (chunk: Buffer) => {
    missingBytes -= chunk.length;
    answer();
  });
  answer();
}
