import { once } from "node:events";
import { createServer } from "node:net";

// Below the range that the system hands out for outgoing connections, above everything registered
// that is likely to run here, and in the range that the server's flags take.
const FIRST_PORT = 20_000;
const PORT_COUNT = 10_000;

const given = new Set<number>();

/** A loopback port that nobody listens on now, and that was not given out before. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORT_COUNT);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
