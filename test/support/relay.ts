import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import type { TestContext } from "node:test";

/** A link that a test can break in the ways networks do. */
export interface Relay {
  /** Where to connect: a port on loopback. */
  readonly port: number;
  /** Both ends see a reset (on a Unix socket, an end). */
  cut(): void;
  /** Nothing is passed on any more, either way, of new connections either, and nobody is told. */
  freeze(): void;
  thaw(): void;
}

/** Relay connections to a port on loopback or a Unix socket. */
export async function startRelay(t: TestContext, target: number | string): Promise<Relay> {
  const sockets = new Set<Socket>();
  let frozen = false;
  const track = (socket: Socket, other: () => Socket) => {
    sockets.add(socket);
    socket.once("close", () => {
      sockets.delete(socket);
      other().destroy();
    });
    socket.on("error", () => undefined);
    socket.on("end", () => other().end());
    socket.on("data", (piece) => {
      if (!other().write(piece)) socket.pause();
    });
    other().on("drain", () => {
      if (!frozen) socket.resume();
    });
    if (frozen) socket.pause();
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far =
      typeof target === "string"
        ? connect({ path: target, allowHalfOpen: true })
        : connect({ port: target, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    track(near, () => far);
    track(far, () => near);
  });
  const relay: Relay = {
    port: 0,
    cut: () => {
      for (const socket of [...sockets]) {
        if (socket.localAddress === undefined) socket.destroy();
        else socket.resetAndDestroy();
      }
    },
    freeze: () => {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    thaw: () => {
      frozen = false;
      for (const socket of sockets) socket.resume();
    },
  };
  t.after(() => {
    server.close();
    for (const socket of [...sockets]) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { ...relay, port: (server.address() as AddressInfo).port };
}
