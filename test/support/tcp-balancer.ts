import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import type { TestContext } from "node:test";

/** A TCP load balancer in user space, which passes each connection on as it is. */
export class TcpBalancer {
  /** Ports to pass connections on to; may change at any time. None: connections are closed. */
  targets: readonly number[];
  /** How many connections came. */
  connectionCount = 0;
  readonly #choose: (count: number) => number;
  readonly #sockets = new Set<Socket>();

  /** @param choose - Picks one of so many targets; by default each in turn. */
  constructor(targets: readonly number[], choose?: (count: number) => number) {
    this.targets = targets;
    let turn = 0;
    this.#choose = choose ?? ((count) => turn++ % count);
  }

  /** Pass nothing on any more, over any connection there is, and close none. */
  freeze(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.pause();
    }
  }

  /** Start to listen on loopback; returns the port. */
  async listen(t: TestContext): Promise<number> {
    const sockets = this.#sockets;
    const server = createServer({ allowHalfOpen: true }, (near) => {
      this.connectionCount++;
      const port = this.targets[this.#choose(this.targets.length)];
      if (port === undefined) {
        near.destroy();
        return;
      }
      const far = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from);
        from.setNoDelay(true);
        from.pipe(to);
        from.on("error", () => to.destroy());
        from.once("close", () => {
          sockets.delete(from);
          if (!from.readableEnded) to.destroy();
        });
      }
    });
    t.after(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  }
}
