import type { Socket } from "node:net";
import { endedByReset, readBorrowed, resetSocket } from "@reachback/common";
import type { CancelTimer, Clock } from "@reachback/common";
import { ClientError, dialErrorFrom } from "./client-error.ts";
import type { ClientOptions } from "./client-options.ts";
import type { DialAttempt } from "./dial-attempt.ts";
import type { Dialer } from "./dialer.ts";
import { connectToServer, serverLost, serverName } from "./server-socket.ts";

/** Largest answer to a CONNECT that is read, head and error text together. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** How long a refusal waits for its text and the end behind it. */
const REFUSAL_TIMEOUT_MS = 1_000;

const HEAD_END = "\r\n\r\n";

/**
 * Dials through an HTTP CONNECT frontend. Each dial has a socket to the server of its own, which
 * becomes the connection: it is returned as it is.
 */
export class ConnectDialer implements Dialer {
  readonly #options: ClientOptions;
  readonly #clock: Clock;

  constructor(options: ClientOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  async dial(attempt: DialAttempt): Promise<Socket> {
    const { endpoint, signal } = attempt;
    attempt.step = `connecting to server ${serverName(this.#options)}`;
    const socket = await connectToServer(this.#options, this.#clock, signal);
    attempt.step = "waiting for the server's answer";
    socket.write(`CONNECT ${endpoint} HTTP/1.1\r\nHost: ${endpoint}\r\n\r\n`);
    try {
      await this.#established(socket, signal);
    } catch (error) {
      // An abandoned dial must not look like a request that came to its end.
      resetSocket(socket);
      throw error;
    }
    socket.allowHalfOpen = attempt.allowHalfOpen;
    refuseHiddenReset(socket);
    if (attempt.onRead !== undefined) this.#readSoon(socket, attempt.onRead);
    return socket;
  }

  close(): void {
    // Connections share nothing.
  }

  /** Begin to read once whoever dials has the socket. */
  #readSoon(socket: Socket, onRead: (bytes: Buffer) => void): void {
    setImmediate(() => {
      if (!socket.destroyed) readBorrowed(socket, this.#clock, onRead);
    });
  }

  /** Resolves when the server has answered 200; what came behind that is left in the socket. */
  #established(socket: Socket, signal: AbortSignal): Promise<void> {
    const options = this.#options;
    return new Promise((resolve, reject) => {
      let answer = Buffer.alloc(0);
      let cancelTimer: CancelTimer | undefined;
      const settle = (error?: Error) => {
        cancelTimer?.();
        signal.removeEventListener("abort", onAbort);
        for (const [event, listener] of listeners) socket.off(event, listener);
        if (error === undefined) resolve();
        else reject(error);
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
            settle();
            return;
          }
          if (answer.length > MAX_ANSWER_BYTES) {
            settle(new ClientError("ERR_SERVER_PROTOCOL", "the server's answer is too long"));
            return;
          }
          // Its text ends with the connection, which not every server closes at once.
          if (headEnd >= 0) cancelTimer ??= this.#clock.schedule(REFUSAL_TIMEOUT_MS, onEnd);
        }
      };
      const onEnd = () => {
        settle(
          answer.length === 0
            ? serverLost(options, "answer", new Error("closed without one"))
            : refusalFrom(answer.toString("utf8")),
        );
      };
      const onError = (error: Error) => {
        // A server that refuses our certificate says so only after the handshake.
        settle(serverLost(options, options.tls === undefined ? "answer" : "tls", error));
      };
      const onAbort = () => {
        settle(signal.reason as Error);
      };
      const listeners = [
        ["readable", onReadable],
        ["end", onEnd],
        ["close", onEnd],
        ["error", onError],
      ] as const;
      for (const [event, listener] of listeners) socket.on(event, listener);
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) onAbort();
      else if (socket.destroyed) onEnd();
    });
  }
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
    return new ClientError("ERR_SERVER_PROTOCOL", "the server's answer is not HTTP/1");
  }
  if (text === "" || !/^50[0234] /.test(status)) {
    return new ClientError("ERR_SERVER_PROTOCOL", `the server refused the request: ${status}`);
  }
  return dialErrorFrom(text);
}

/**
 * Let a socket whose peer has reset it fail, where libuv would call that an end: it does if the
 * reset is found together with data, as a reader who is behind finds it.
 */
function refuseHiddenReset(socket: Socket): void {
  const push = socket.push.bind(socket);
  socket.push = (chunk: unknown, encoding?: BufferEncoding) => {
    if (chunk === null && endedByReset(socket)) {
      socket.destroy(new ClientError("ERR_CONNECTION_LOST", "the server reset the connection"));
      return false;
    }
    return push(chunk, encoding);
  };
}
