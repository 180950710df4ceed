import { encodeRequest } from "../endpoint/endpoint-request.ts";
import { IDLE_HANDLER } from "./load-connection.ts";
import type { LoadConnection } from "./load-connection.ts";
import { openConnection } from "./open-connection.ts";
import type { Route } from "./route.ts";

/** For one connection, up to the endpoint's first byte. */
const OPEN_TIMEOUT_MS = 10_000;

/** Dials under way at once: enough to be quick, too few to overrun anyone's backlog. */
const MAX_PARALLEL_DIALS = 64;

const PING = encodeRequest({ service: "ping", byteCount: 0 });

/**
 * Open `count` connections, all the way: the endpoint has answered on each, so that no handshake and
 * nothing that is made on first use is left for later. If one fails, all are closed.
 */
export async function openConnections(route: Route, count: number): Promise<LoadConnection[]> {
  const connections: LoadConnection[] = [];
  let toDial = count;
  const dialSome = async () => {
    while (toDial > 0) {
      toDial--;
      const connection = await openConnection(route, OPEN_TIMEOUT_MS);
      connections.push(connection);
      await ping(connection);
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.min(count, MAX_PARALLEL_DIALS) }, dialSome));
  } catch (error) {
    toDial = 0;
    for (const connection of connections) connection.destroy();
    throw error;
  }
  return connections;
}

function ping(connection: LoadConnection): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (problem?: string) => {
      clearTimeout(timer);
      connection.handler = IDLE_HANDLER;
      if (problem === undefined) resolve();
      else reject(new Error(problem));
    };
    const timer = setTimeout(() => {
      settle(`no answer after ${OPEN_TIMEOUT_MS} ms`);
    }, OPEN_TIMEOUT_MS);
    connection.handler = {
      received: () => {
        settle();
      },
      closed: (reason) => {
        settle(`lost before the first answer: ${reason}`);
      },
    };
    connection.send(PING);
  });
}
