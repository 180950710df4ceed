import type { Socket } from "node:net";
import { resetSocket } from "@reachback/common";
import type { Clock } from "@reachback/common";
import { ClientError, dialErrorFrom } from "./client-error.ts";
import type { ClientOptions } from "./client-options.ts";
import { connectToServer } from "./server-socket.ts";

/** Largest answer to a CONNECT that is read, head and error text together. */
const MAX_ANSWER_BYTES = 64 * 1024;

const HEAD_END = "\r\n\r\n";

/**
 * Dial through an HTTP CONNECT frontend. The socket to the server becomes the connection: it is
 * returned as it is.
 *
 * @throws {ClientError}, or `signal`'s reason when it aborts.
 */
export async function dialByConnect(
  options: ClientOptions,
  endpoint: string,
  timeoutMs: number,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<Socket> {
  const startedAtMs = clock.now();
  const socket = await connectToServer(options, timeoutMs, clock, signal);
  socket.write(`CONNECT ${endpoint} HTTP/1.1\r\nHost: ${endpoint}\r\n\r\n`);
  const remainingMs = timeoutMs - (clock.now() - startedAtMs);
  return new Promise((resolve, reject) => {
    let answer = Buffer.alloc(0);
    const settle = (outcome: Socket | Error) => {
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      for (const [event, listener] of listeners) socket.off(event, listener);
      if (outcome instanceof Error) {
        // An abandoned dial must not look like a request that came to its end.
        socket.on("error", () => undefined);
        resetSocket(socket);
        reject(outcome);
      } else {
        resolve(outcome);
      }
    };
    // Read on "readable", not on "data": only so is the stream left as fresh as it came, neither
    // flowing nor paused, for whoever gets it.
    const onReadable = () => {
      for (let piece = read(socket); piece !== null; piece = read(socket)) {
        answer = Buffer.concat([answer, piece]);
        const headEnd = answer.indexOf(HEAD_END);
        if (headEnd >= 0 && isEstablished(answer)) {
          const rest = answer.subarray(headEnd + HEAD_END.length);
          if (rest.length > 0) socket.unshift(rest);
          settle(socket);
          return;
        }
        if (answer.length > MAX_ANSWER_BYTES) {
          settle(new ClientError("ERR_SERVER_PROTOCOL", "the server's answer is too long"));
          return;
        }
      }
    };
    const onEnd = () => {
      settle(refusalFrom(answer.toString("utf8")));
    };
    const onError = (error: Error) => {
      settle(new ClientError("ERR_SERVER_UNREACHABLE", `server: ${error.message}`, error));
    };
    const onAbort = () => {
      settle(signal?.reason as Error);
    };
    const cancelTimer = clock.schedule(remainingMs, () => {
      settle(new ClientError("ERR_DIAL_TIMEOUT", `no answer for ${endpoint} in ${timeoutMs} ms`));
    });
    const listeners = [
      ["readable", onReadable],
      ["end", onEnd],
      ["close", onEnd],
      ["error", onError],
    ] as const;
    for (const [event, listener] of listeners) socket.on(event, listener);
    signal?.addEventListener("abort", onAbort);
  });
}

function read(socket: Socket): Buffer | null {
  return socket.read() as Buffer | null;
}

function isEstablished(answer: Buffer): boolean {
  return /^HTTP\/1\.[01] 200 /.test(answer.toString("latin1", 0, 13));
}

/** The error for an answer that is not 200; its body says what is wrong, in the server's words. */
function refusalFrom(answer: string): ClientError {
  const [head = "", ...body] = answer.split(HEAD_END);
  const status = /^HTTP\/1\.[01] (\d{3} [^\r\n]*)/.exec(head)?.[1];
  const text = body.join(HEAD_END).trim();
  if (status === undefined) {
    return new ClientError("ERR_SERVER_PROTOCOL", "the server closed without an answer");
  }
  return /^(?:500|502|503|504) /.test(status) && text !== ""
    ? dialErrorFrom(text)
    : new ClientError("ERR_SERVER_PROTOCOL", `the server refused the request: ${status}`);
}
