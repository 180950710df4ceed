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

    const settle = (outcome: Socket | Error) => {
      if (settled) return;
      settled = true;
      cancelTimer();
      signal?.removeEventListener("abort", onAbort);
      if (outcome instanceof Error) {
        tlsSocket?.destroy();
        tcpSocket.destroy();
        reject(outcome);
        return;
      }
      outcome.off("error", onError);
      outcome.off("close", onClose);
      resolve(outcome);
    };
    const onAbort = () => {
      settle(signal?.reason as Error);
    };
    const onError = (error: Error) => {
      const cause = firstError(error);
      settle(new ConnectError(phase, cause.message, false, cause));
    };
    const onClose = () => {
      settle(new ConnectError(phase, "the connection was closed", false));
    };
    const cancelTimer = clock.schedule(options.timeoutMs, () => {
      settle(new ConnectError(phase, `${phase} timed out`, true));
    });
    signal?.addEventListener("abort", onAbort);
    tcpSocket.on("error", onError);
    tcpSocket.on("close", onClose);
    tcpSocket.on("lookup", () => {
      phase = "connect";
    });
    tcpSocket.on("connect", () => {
      if (options.tls === undefined) {
        settle(tcpSocket);
        return;
      }
      phase = "tls";
      const secured = connectTls({ ...options.tls, socket: tcpSocket });
      tlsSocket = secured;
      rememberCarrier(secured, tcpSocket);
      tlsSocket.on("error", onError);
      tlsSocket.on("close", onClose);
      tlsSocket.on("secureConnect", () => {
        settle(secured);
      });
    });
  });
}

/** With several addresses tried, Node reports all failures in one error that says nothing itself. */
function firstError(error: Error): Error {
  if (!(error instanceof AggregateError)) return error;
  const [first] = error.errors as unknown[];
  return first instanceof Error ? first : error;
}
