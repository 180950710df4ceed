import { connect as connectTcp, isIP } from "node:net";
import type { LookupFunction, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions, TLSSocket } from "node:tls";
import type { Clock } from "../clock.ts";
import { rememberCarrier } from "./socket-reset.ts";

/** What to connect to. A name is looked up, and all its addresses are tried. */
export type ConnectAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** The step that an attempt was in when it failed: one number for all of them tells nobody why. */
export type ConnectPhase = "lookup" | "connect" | "tls";

/** Connecting failed; `cause` is the system's or TLS's own error, if there is one. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
  readonly phase: ConnectPhase;
  readonly timedOut: boolean;

  constructor(phase: ConnectPhase, message: string, timedOut: boolean, cause?: unknown) {
    super(message, { cause });
    this.phase = phase;
    this.timedOut = timedOut;
  }
}

export interface ConnectOptions {
  readonly address: ConnectAddress;
  /** TLS on top of TCP: what goes to `tls.connect`, without the socket. */
  readonly tls?: ConnectionOptions;
  /** ALPN protocols in place of those of `tls`; asked for when the TLS handshake begins. */
  readonly alpnProtocols?: () => readonly string[];
  /** Called when the socket is connected; the TLS handshake begins when it resolves. */
  readonly beforeTls?: () => Promise<void>;
  /** For everything together: look-up, connection and TLS handshake. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  readonly lookup?: LookupFunction;
}

const TCP_KEEPALIVE_MS = 15_000;

/**
 * Connect a socket, ready to use: with `tls` after a verified handshake. Half-open, without Nagle's
 * delay, with TCP keepalive (design: every socket of ours).
 *
 * The socket may have failed again before its new owner gets to listen: its `closed` and `errored`
 * tell, and nothing is thrown.
 *
 * @throws {ConnectError} naming the phase; when `signal` aborts, its reason.
 */
export function connectSocket(options: ConnectOptions): Promise<Socket> {
  const { address, clock, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error);
      return;
    }
    let phase: ConnectPhase =
      address.kind === "tcp" && isIP(address.host) === 0 ? "lookup" : "connect";
    const tcpSocket =
      address.kind === "unix"
        ? connectTcp({ path: address.path, allowHalfOpen: true })
        : connectTcp({
            host: address.host,
            port: address.port,
            allowHalfOpen: true,
            noDelay: true,
            keepAlive: true,
            keepAliveInitialDelay: TCP_KEEPALIVE_MS,
            autoSelectFamily: true,
            ...(options.lookup === undefined ? {} : { lookup: options.lookup }),
          });
    let settled = false;
    let tlsSocket: TLSSocket | undefined;

    /** False if the outcome is known already. */
    const settle = (): boolean => {
      if (settled) return false;
      settled = true;
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      return true;
    };
    const succeed = (socket: Socket) => {
      if (!settle()) return;
      socket.on("error", ignoreError);
      socket.off("error", onError);
      socket.off("close", onClose);
      resolve(socket);
    };
    const fail = (reason: Error) => {
      if (!settle()) return;
      tlsSocket?.destroy();
      tcpSocket.destroy();
      reject(reason);
    };
    const onAbort = () => {
      fail(signal?.reason as Error);
    };
    const onError = (error: Error) => {
      const cause = firstError(error);
      fail(new ConnectError(phase, cause.message, false, cause));
    };
    const onClose = () => {
      fail(new ConnectError(phase, "the connection was closed", false));
    };
    const cancelTimer = clock.schedule(options.timeoutMs, () => {
      fail(new ConnectError(phase, `${phase} timed out`, true));
    });
    signal?.addEventListener("abort", onAbort);
    tcpSocket.on("error", onError);
    tcpSocket.on("close", onClose);
    tcpSocket.on("lookup", (error: Error | null) => {
      if (error === null) phase = "connect";
    });
    const secure = () => {
      if (settled) return;
      tcpSocket.off("end", onClose);
      phase = "tls";
      const alpnProtocols = options.alpnProtocols?.();
      let secured: TLSSocket;
      try {
        secured = connectTls({
          ...options.tls,
          ...(alpnProtocols === undefined ? {} : { ALPNProtocols: [...alpnProtocols] }),
          socket: tcpSocket,
        });
      } catch (error) {
        // A certificate or a key that OpenSSL refuses.
        onError(error as Error);
        return;
      }
      tlsSocket = secured;
      rememberCarrier(secured, tcpSocket);
      secured.on("error", onError);
      secured.on("close", onClose);
      secured.on("secureConnect", () => {
        succeed(secured);
      });
    };
    tcpSocket.on("connect", () => {
      if (options.tls === undefined) succeed(tcpSocket);
      else if (options.beforeTls === undefined) secure();
      else {
        // Half of a connection is still one, but TLS would wait on it for ever.
        tcpSocket.on("end", onClose);
        void options.beforeTls().then(secure);
      }
    });
  });
}

function ignoreError(): void {
  // Between two owners nobody listens, and an error that nobody listens to ends the process.
}

/** With several addresses tried, Node reports all failures in one error that says nothing itself. */
function firstError(error: Error): Error {
  if (!(error instanceof AggregateError)) return error;
  const [first] = error.errors as unknown[];
  return first instanceof Error ? first : error;
}
