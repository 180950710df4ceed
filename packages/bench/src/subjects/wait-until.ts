import { connect } from "node:net";
import type { NetConnectOpts } from "node:net";
import type { Child } from "../processes/child-processes.ts";
import { httpGet } from "../processes/http-get.ts";

const POLL_MS = 20;
const TIMEOUT_MS = 15_000;

/**
 * Wait until `isUp` says so, while `child` runs.
 *
 * @throws {Error} with the last words of `child` if it ends or takes too long.
 */
export async function waitUntil(
  what: string,
  child: Child,
  isUp: () => Promise<boolean>,
): Promise<void> {
  const deadlineMs = performance.now() + TIMEOUT_MS;
  while (!(await isUp())) {
    const exitText = child.exitText();
    if (exitText !== undefined) {
      throw new Error(`${what} ended with ${exitText}: ${child.stderrTail()}`);
    }
    if (performance.now() > deadlineMs) {
      throw new Error(`${what} is not up after ${TIMEOUT_MS} ms: ${child.stderrTail()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Whether a GET on a loopback port is answered with 200. */
export async function answersOk(port: number, path: string): Promise<boolean> {
  try {
    return (await httpGet(port, path)).status === 200;
  } catch {
    return false;
  }
}

/** Whether somebody listens there. */
export function listens(address: NetConnectOpts): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(address);
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => {
      resolve(false);
    });
  });
}
