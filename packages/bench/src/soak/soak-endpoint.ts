import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";

/** First byte of a connection: what its endpoint is to do. */
export const Wish = {
  /** Send everything back. */
  echo: 0x65,
  /** Reset the connection. */
  reset: 0x72,
  /** Send {@link FLOOD_BYTES}, then finish. */
  flood: 0x66,
} as const;

export const FLOOD_BYTES = 1024 * 1024;

/** The far end of the soak's connections. */
export class SoakEndpoint {
  readonly #sockets = new Set<Socket>();
  #port = 0;

  static async start(): Promise<SoakEndpoint> {
    const endpoint = new SoakEndpoint();
    const server = createServer({ noDelay: true }, (socket) => {
      endpoint.#serve(socket);
    });
    server.listen(0, "127.0.0.1", 4_096);
    await once(server, "listening");
    endpoint.#port = (server.address() as AddressInfo).port;
    server.unref();
    return endpoint;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  get openCount(): number {
    return this.#sockets.size;
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    // Clients that leave in the middle are what this is about.
    socket.on("error", () => undefined);
    socket.once("data", (first: Buffer) => {
      switch (first[0]) {
        case Wish.reset:
          socket.resetAndDestroy();
          return;
        case Wish.flood:
          socket.resume();
          socket.end(Buffer.alloc(FLOOD_BYTES));
          return;
        case undefined:
        default:
          socket.write(first);
          socket.pipe(socket);
      }
    });
    // Without a wish, an end is an end.
    socket.on("end", () => socket.end());
  }
}
