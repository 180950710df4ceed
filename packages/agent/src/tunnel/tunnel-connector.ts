import { readFile } from "node:fs/promises";
import type { LookupFunction, Socket } from "node:net";
import { TLSSocket, createSecureContext } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import {
  ConnectError,
  GrpcClientCarrier,
  Http2Connection,
  Keepalive,
  OK_STATUS,
  TUNNEL_EXTENSIONS,
  clientTlsOptions,
  connectSocket,
  describeTlsError,
  describeTlsHangUp,
  exceptServerAlpn,
  goCodeName,
  headerValues,
  joinHostPort,
  offeredExtensions,
  systemErrorText,
  wasTurnedAway,
} from "@reachback/common";
import type {
  CaPool,
  CancelTimer,
  GrpcStatus,
  HeaderList,
  KeepaliveOptions,
  KeyPair,
} from "@reachback/common";
import type { ConnectionPorts } from "../endpoint/endpoint-connection.ts";
import {
  MAX_EXCEPTED_SERVERS,
  MIN_KEEPALIVE_MS,
  SERVER_ANSWER_TIMEOUT_MS,
  SERVER_CONNECT_TIMEOUT_MS,
  SERVER_HTTP2,
  TOKEN_ANSWER_TIMEOUT_MS,
  TUNNEL_LINGER_MS,
  UPSTREAM_MIN_KEEPALIVE_MS,
  UPSTREAM_MIN_KEEPALIVE_TIMEOUT_MS,
} from "../limits.ts";
import { LookupError } from "../lookup/host-lookup.ts";
import type { ServerAddress } from "../servers/server-address.ts";
import { serverIdentityFrom } from "./server-identity.ts";
import type { ServerIdentity } from "./server-identity.ts";
import { Tunnel } from "./tunnel.ts";

/** How to reach servers, and what to tell them. */
export interface ConnectorOptions {
  /** Finds the address of a server that is given by name. */
  readonly lookup: LookupFunction;
  readonly ca: CaPool;
  /** The agent's certificate; `undefined` where a token identifies it. */
  readonly keyPair: KeyPair | undefined;
  /** Offered before `h2`. */
  readonly alpnProtocols: readonly string[];
  readonly agentId: string;
  readonly agentIdentifiers: string;
  /** A file with a token, read anew for each attempt; empty for none. */
  readonly tokenPath: string;
  /** Silence after which a server is pinged, and how long it may take to answer. */
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly userAgent: string;
}

/** A tunnel that a server has accepted. */
export interface OpenTunnel extends ServerIdentity {
  readonly tunnel: Tunnel;
  /** End it in an orderly way if the server plays along, and anyhow before long. Idempotent. */
  end(): void;
}

/**
 * Who takes its leave: `goaway` the HTTP/2 connection, perhaps for one to the same server; `drain` the
 * server itself.
 */
export type LeaveReason = "goaway" | "drain";

/** What the owner of an open tunnel is told. */
export interface TunnelEvents {
  /** What is open lives on, but another tunnel is needed. */
  serverLeaving(reason: LeaveReason): void;
  /** The tunnel is over, its connections are cut. Called exactly once. */
  closed(status: GrpcStatus): void;
  /** A connection is gone; perhaps the last. */
  connectionGone(): void;
  /** The tunnel's socket is closed. Called exactly once, after `closed`. */
  gone(): void;
}

/** What an attempt needs from whoever makes it. */
export interface TunnelAttempt {
  readonly signal: AbortSignal;
  /** Called when the socket is connected, and waited for before TLS. */
  readonly handshakeTurn: () => Promise<void>;
  /**
   * The ids of servers that are known to turn away an attempt, and are not wanted; asked for when the
   * handshake begins. {@link MAX_EXCEPTED_SERVERS} of them are named.
   */
  readonly exceptServers: () => readonly string[];
  /** Called at once when the server accepts the tunnel; says who is told what becomes of it. */
  readonly accepted: (open: OpenTunnel) => TunnelEvents;
}

/** What a server made of an attempt: `turned away` by one of those that were not wanted. */
export type TunnelAnswer = "accepted" | "turned away";

/** An attempt to open a tunnel failed; the message says at which step and why. */
export class TunnelConnectError extends Error {
  override readonly name = "TunnelConnectError";
}

/** Opens tunnels. */
export class TunnelConnector {
  readonly #options: ConnectorOptions;
  readonly #ports: ConnectionPorts;
  /** By the name that a server must prove. */
  readonly #tlsOptions = new Map<string, ConnectionOptions>();

  constructor(options: ConnectorOptions, ports: ConnectionPorts) {
    this.#options = options;
    this.#ports = ports;
  }

  /**
   * One attempt to get a tunnel to whoever answers at `address`: look-up, TCP, TLS, `Connect`, each
   * within its time.
   *
   * @throws {TunnelConnectError}, or the reason of the attempt's signal when it aborts.
   */
  async connect(address: ServerAddress, attempt: TunnelAttempt): Promise<TunnelAnswer> {
    const token = await this.#readToken();
    const socket = await this.#connectSocket(address, attempt);
    if (socket === undefined) return "turned away";
    await this.#openTunnel(socket, address, token, attempt);
    return "accepted";
  }

  async #readToken(): Promise<string | undefined> {
    const { tokenPath } = this.#options;
    if (tokenPath === "") return undefined;
    let token: string;
    try {
      // A trailing newline is common in such files and illegal in a header.
      token = (await readFile(tokenPath, "utf8")).trim();
    } catch (error) {
      const reason = systemErrorText(error as NodeJS.ErrnoException);
      throw new TunnelConnectError(`cannot read the token file ${tokenPath}: ${reason}`, {
        cause: error,
      });
    }
    if (!/^[\x20-\x7e]+$/.test(token)) {
      const what = token === "" ? "is empty" : "holds what no header can";
      throw new TunnelConnectError(`the token file ${tokenPath} ${what}`);
    }
    return token;
  }

  async #connectSocket(
    { host, port, name }: ServerAddress,
    attempt: TunnelAttempt,
  ): Promise<Socket | undefined> {
    const { lookup } = this.#options;
    let excepted: readonly string[] = [];
    try {
      return await connectSocket({
        address: { kind: "tcp", host, port },
        tls: this.#tlsOptionsFor(name),
        alpnProtocols: () => {
          excepted = attempt.exceptServers().slice(0, MAX_EXCEPTED_SERVERS);
          return [...this.#alpnProtocols, ...excepted.map(exceptServerAlpn)];
        },
        beforeTls: () => attempt.handshakeTurn(),
        timeoutMs: SERVER_CONNECT_TIMEOUT_MS,
        clock: this.#ports.clock,
        signal: attempt.signal,
        lookup,
      });
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      if (excepted.length > 0 && wasTurnedAway(error.cause)) return undefined;
      throw new TunnelConnectError(`${error.phase}: ${reasonOf(error)}`, { cause: error });
    }
  }

  get #alpnProtocols(): readonly string[] {
    return [...this.#options.alpnProtocols, "h2"];
  }

  /** One context for all attempts: to read certificates and key each time took a quarter of their CPU. */
  #tlsOptionsFor(serverName: string): ConnectionOptions {
    let options = this.#tlsOptions.get(serverName);
    if (options === undefined) {
      const { ca, keyPair } = this.#options;
      const settings = { ca, keyPair, serverName, alpnProtocols: this.#alpnProtocols };
      options = clientTlsOptions(settings);
      options.secureContext = createSecureContext(options);
      this.#tlsOptions.set(serverName, options);
    }
    return options;
  }

  #openTunnel(
    socket: Socket,
    address: ServerAddress,
    token: string | undefined,
    { signal, accepted }: TunnelAttempt,
  ): Promise<void> {
    const { clock, metrics } = this.#ports;
    if (socket instanceof TLSSocket && typeof socket.alpnProtocol !== "string") {
      socket.destroy();
      const reason = "the server knows no ALPN, so it is no gRPC server";
      return Promise.reject(new TunnelConnectError(`tls: ${reason}`));
    }
    return new Promise((resolve, reject) => {
      /** Set once the server has accepted the tunnel. */
      let events: TunnelEvents | undefined;
      let isServerLeaving = false;
      let isEnding = false;
      let cancelLinger: CancelTimer | undefined;
      const linger = () => {
        cancelLinger ??= clock.schedule(TUNNEL_LINGER_MS, () => {
          socket.destroy();
        });
      };
      const connection = new Http2Connection(socket, "client", SERVER_HTTP2, clock, {
        request: () => {
          throw new Error("a server cannot open streams");
        },
        goaway: () => {
          isServerLeaving = true;
          events?.serverLeaving("goaway");
        },
        closed: () => {
          keepalive?.stop();
        },
      });
      // Behind the connection's own listener: `closed` comes before `gone`.
      socket.once("close", () => {
        cancelLinger?.();
        events?.gone();
      });
      /** Not before it is known whose server it is: until then the answer is overdue soon enough. */
      let keepalive: Keepalive | undefined;
      const keepAlive = (isOurServer: boolean) => {
        keepalive = new Keepalive(this.#keepaliveOptions(isOurServer), clock, {
          get lastHeardMs() {
            return connection.lastHeardMs;
          },
          sendPing: () => {
            connection.ping();
          },
          onDead: (silentForMs) => {
            const seconds = Math.round(silentForMs / 1000);
            connection.destroy(new Error(`nothing heard for ${seconds} s`));
          },
        });
        keepalive.start();
      };

      const settle = () => {
        cancelTimer();
        signal.removeEventListener("abort", onAbort);
      };
      const fail = (error: Error) => {
        settle();
        reject(error);
        connection.destroy();
      };
      const onAbort = () => {
        fail(signal.reason as Error);
      };
      const timeoutMs = token === undefined ? SERVER_ANSWER_TIMEOUT_MS : TOKEN_ANSWER_TIMEOUT_MS;
      const cancelTimer = clock.schedule(timeoutMs, () => {
        fail(new TunnelConnectError("answer: timed out"));
      });
      signal.addEventListener("abort", onAbort);

      const tunnel = new Tunnel(
        {
          tunnelOpened: (metadata) => {
            let identity: ServerIdentity;
            try {
              identity = serverIdentityFrom(metadata);
            } catch (error) {
              fail(new TunnelConnectError(`answer: ${(error as Error).message}`));
              return;
            }
            settle();
            keepAlive(headerValues(metadata, "reachback-revision").length > 0);
            const end = () => {
              isEnding = true;
              linger();
              tunnel.end();
            };
            events = accepted({ tunnel, ...identity, end });
            if (isServerLeaving) events.serverLeaving("goaway");
            resolve();
          },
          serverDraining: () => {
            events?.serverLeaving("drain");
          },
          tunnelClosed: (status) => {
            if (events === undefined) {
              // A server that has not begun to speak HTTP/2 may have refused our certificate: with
              // TLS 1.3 it does so when our handshake is over.
              const reason = connection.established
                ? `answer: ${statusText(status)}`
                : `tls: ${silenceText(socket.errored)}`;
              fail(new TunnelConnectError(reason));
              return;
            }
            if (status.code !== OK_STATUS.code && !isEnding) {
              metrics.serverConnectionFailed("from_server");
              metrics.streamFailed("to_agent", status.code);
            }
            linger();
            connection.close();
            events.closed(status);
          },
          connectionGone: () => {
            events?.connectionGone();
          },
        },
        this.#ports,
      );
      const carrier = new GrpcClientCarrier(
        connection,
        {
          path: "/AgentService/Connect",
          authority: this.#authority(address),
          scheme: "https",
          userAgent: this.#options.userAgent,
          metadata: this.#metadata(token),
        },
        { sent: metrics.packets.fromAgent, received: metrics.packets.toAgent },
        tunnel,
      );
      tunnel.attach(carrier);
    });
  }

  /** As Go's agent: the name that TLS verifies, with the port only if no certificate is sent. */
  #authority({ name, port }: ServerAddress): string {
    return this.#options.keyPair === undefined ? joinHostPort(name, port) : name;
  }

  #metadata(token: string | undefined): HeaderList {
    const { agentId, agentIdentifiers } = this.#options;
    return [
      ["agentid", agentId],
      ["agentidentifiers", agentIdentifiers],
      ...(token === undefined ? [] : [["authorization", `Bearer ${token}`] as const]),
      // Behind what upstream's agents send.
      ...offeredExtensions(TUNNEL_EXTENSIONS),
    ];
  }

  #keepaliveOptions(isOurServer: boolean): KeepaliveOptions {
    const { keepaliveTimeMs, keepaliveTimeoutMs } = this.#options;
    if (isOurServer) {
      const intervalMs = Math.max(keepaliveTimeMs, MIN_KEEPALIVE_MS);
      return { intervalMs, timeoutMs: keepaliveTimeoutMs };
    }
    return {
      intervalMs: Math.max(keepaliveTimeMs, UPSTREAM_MIN_KEEPALIVE_MS),
      timeoutMs: Math.max(keepaliveTimeoutMs, UPSTREAM_MIN_KEEPALIVE_TIMEOUT_MS),
    };
  }
}

function reasonOf(error: ConnectError): string {
  if (error.timedOut) return "timed out";
  if (error.cause instanceof LookupError) return error.cause.message;
  if (error.phase === "tls") return describeTlsError(error.cause ?? error, "server");
  return error.cause instanceof Error ? systemErrorText(error.cause) : error.message;
}

function silenceText(error: Error | null): string {
  return error === null ? describeTlsHangUp("server") : describeTlsError(error, "server");
}

function statusText({ code, message }: GrpcStatus): string {
  return message === "" ? goCodeName(code) : `${goCodeName(code)}: ${message}`;
}
