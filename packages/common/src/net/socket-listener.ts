import { umask } from "node:process";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { TLSSocket, createServer as createTlsServer } from "node:tls";
import type { TlsOptions } from "node:tls";
import { systemErrorText } from "../system-error-text.ts";
import { alpnProblem, describeTlsError } from "../tls/describe-tls-error.ts";
import { joinHostPort } from "./host-port.ts";
import { rememberCarrier } from "./socket-reset.ts";
import { UnixSocketFile } from "./unix-socket-file.ts";

/** Where to listen. An empty host means all interfaces; port 0 any free port. */
export type ListenAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | {
      readonly kind: "unix";
      readonly path: string;
      /** Permissions of the socket, e.g. 0o770. */
      readonly mode: number;
      /** Whether the socket of a process that is gone may be replaced. */
      readonly replaceStale: boolean;
    };

export interface SocketListenerOptions {
  readonly address: ListenAddress;
  /** TLS of a TCP listener; without it sockets are plain. */
  readonly tls?: TlsOptions;
  /** The protocol that clients must have negotiated; without it they need none. */
  readonly requiredAlpn?: string;
  /**
   * Whether a client that offers these protocols is turned away at its first words, with the alert of
   * RFC 7301 for "none of these"; nobody is told. With {@link requiredAlpn}, the only one spoken then.
   */
  readonly turnsAway?: (offeredAlpn: readonly string[]) => boolean;
  /** How long a TLS handshake may take, in milliseconds. */
  readonly handshakeTimeoutMs: number;
  /**
   * Sockets are accepted for another process: they are plain, nothing is read of them here, and the
   * handler alone has them. @defaultValue false
   */
  readonly isForAnother?: boolean;
}

export interface SocketListenerHandler {
  /** A peer has connected, and its TLS handshake is done. The socket is the handler's. */
  accepted(socket: Socket): void;
  /** A peer was turned away before that; `reason` is a sentence for the log. */
  rejected(reason: string, peer: PeerAddress | undefined): void;
}

/** Where a peer connected from; sockets on a Unix path have no such thing. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

/** Go's default would be 4096 too (net.core.somaxconn caps it); Node's is 511. */
const BACKLOG = 4096;

const TCP_KEEPALIVE_MS = 15_000;

const OWNER_ONLY_UMASK = 0o177;

/** Listening failed. The message is Go's, `listen tcp 127.0.0.1:80: bind: permission denied`. */
export class ListenError extends Error {
  override readonly name = "ListenError";
}

/** A listening socket, and all the sockets accepted on it. */
export class SocketListener {
  readonly #server: Server;
  readonly #file: UnixSocketFile | undefined;
  readonly #sockets: Set<Socket>;
  readonly #address: ListenAddress;

  private constructor(
    server: Server,
    sockets: Set<Socket>,
    address: ListenAddress,
    file: UnixSocketFile | undefined,
  ) {
    this.#server = server;
    this.#sockets = sockets;
    this.#address = address;
    this.#file = file;
  }

  /** @throws {ListenError} */
  static async open(
    options: SocketListenerOptions,
    handler: SocketListenerHandler,
  ): Promise<SocketListener> {
    const { address } = options;
    const sockets = new Set<Socket>();
    const server = makeServer(options, handler, sockets);
    const file = address.kind === "unix" ? new UnixSocketFile(address.path) : undefined;
    try {
      if (address.kind === "unix") await file?.claim(address.replaceStale);
      await listen(server, address, file, (error) => {
        handler.rejected(`accept: ${systemErrorText(error)}`, undefined);
      });
    } catch (error) {
      throw new ListenError(listenErrorText(address, error as NodeJS.ErrnoException), {
        cause: error,
      });
    }
    return new SocketListener(server, sockets, address, file);
  }

  /** A listener that does not listen: another process does, and its sockets come by {@link feed}. */
  static unbound(options: SocketListenerOptions, handler: SocketListenerHandler): SocketListener {
    const sockets = new Set<Socket>();
    const server = makeServer(options, handler, sockets);
    return new SocketListener(server, sockets, options.address, undefined);
  }

  /** Take over a socket that another process has accepted. */
  feed(socket: Socket): void {
    socket.allowHalfOpen = true;
    this.#server.emit("connection", socket);
  }

  /** `host:port` with the port really bound, or the path. */
  get name(): string {
    if (this.#address.kind === "unix") return this.#address.path;
    return joinHostPort(this.#address.host, this.port);
  }

  /** The TCP port bound; 0 for a Unix socket. */
  get port(): number {
    const bound = this.#server.address();
    return typeof bound === "object" && bound !== null ? bound.port : 0;
  }

  /** Stop accepting; sockets that are open live on. A Unix socket's file goes now. Idempotent. */
  close(): void {
    this.#file?.remove();
    if (this.#server.listening) this.#server.close();
  }

  /** Resolves once every accepted socket is gone. */
  async whenEmpty(): Promise<void> {
    // A Set's iterator also comes to what is added on the way.
    for (const socket of this.#sockets) {
      await new Promise<void>((resolve) => {
        socket.once("close", () => {
          resolve();
        });
      });
    }
  }

  /** {@link close}, and destroy every socket. */
  destroy(): void {
    this.close();
    for (const socket of [...this.#sockets]) socket.destroy();
  }
}

function makeServer(
  options: SocketListenerOptions,
  handler: SocketListenerHandler,
  sockets: Set<Socket>,
): Server {
  const socketOptions = {
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEPALIVE_MS,
  };
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  };

  if (options.isForAnother === true) {
    return createServer({ ...socketOptions, pauseOnConnect: true }, (socket) => {
      handler.accepted(socket);
    });
  }
  if (options.tls === undefined) {
    return createServer(socketOptions, (socket) => {
      track(socket);
      handler.accepted(socket);
    });
  }

  // tls.Server hides the TCP socket under a TLS one; a reset needs it (see socket-reset.ts). The two
  // addresses tell which belongs to which.
  const handshaking = new Map<string, Socket>();
  const keyOf = (socket: Socket) =>
    `${socket.localAddress} ${socket.remoteAddress} ${socket.remotePort}`;
  const turnedAway = new WeakSet<TLSSocket>();
  const server = createTlsServer({
    ...tlsWithTurningAway(options, turnedAway),
    ...socketOptions,
    handshakeTimeout: options.handshakeTimeoutMs,
  });
  server.prependListener("connection", (tcpSocket: Socket) => {
    const key = keyOf(tcpSocket);
    handshaking.set(key, tcpSocket);
    track(tcpSocket);
    // Half of a connection is no use to a handshake: one that its client gives up ends here and now.
    tcpSocket.allowHalfOpen = false;
    tcpSocket.once("close", () => {
      if (handshaking.get(key) === tcpSocket) handshaking.delete(key);
    });
  });
  server.on("secureConnection", (tlsSocket: TLSSocket) => {
    const key = keyOf(tlsSocket);
    const tcpSocket = handshaking.get(key);
    handshaking.delete(key);
    tlsSocket.allowHalfOpen = true;
    if (tcpSocket !== undefined) rememberCarrier(tlsSocket, tcpSocket);
    const problem =
      options.requiredAlpn === undefined
        ? undefined
        : alpnProblem(tlsSocket.alpnProtocol, [options.requiredAlpn], "client");
    if (problem === undefined) {
      handler.accepted(tlsSocket);
    } else {
      handler.rejected(problem, peerAddress(tlsSocket));
      tlsSocket.destroy();
    }
  });
  server.on("tlsClientError", (error: Error, tlsSocket: TLSSocket) => {
    // Whoever left without a word was only looking, or has found elsewhere what it was after.
    if (!turnedAway.has(tlsSocket) && !leftWithoutWord(error, tlsSocket)) {
      handler.rejected(describeTlsError(error, "client", tlsSocket), rejectedPeer(tlsSocket));
    }
    // After a timeout Node would leave it open.
    tlsSocket.destroy();
  });
  return server;
}

function tlsWithTurningAway(
  { tls, requiredAlpn, turnsAway }: SocketListenerOptions,
  turnedAway: WeakSet<TLSSocket>,
): TlsOptions {
  if (requiredAlpn === undefined || turnsAway === undefined) return { ...tls };
  return {
    ...tls,
    // Node takes either.
    ALPNProtocols: undefined,
    // Node calls it as a method of the socket, but does not say so.
    ALPNCallback(this: unknown, { protocols }) {
      if (!turnsAway(protocols)) {
        return protocols.includes(requiredAlpn) ? requiredAlpn : undefined;
      }
      if (this instanceof TLSSocket) turnedAway.add(this);
      return undefined;
    },
  };
}

/**
 * The peer of a TLS socket whose handshake failed. Most of them are disconnected by now and know it no
 * longer; the TCP socket below was asked when it came, and Node remembers that.
 */
function rejectedPeer(tlsSocket: TLSSocket): PeerAddress | undefined {
  return peerAddress(carrierOf(tlsSocket) ?? tlsSocket);
}

function leftWithoutWord(error: NodeJS.ErrnoException, tlsSocket: TLSSocket): boolean {
  return error.code === "ECONNRESET" && carrierOf(tlsSocket)?.bytesRead === 0;
}

/** The TCP socket below. */
function carrierOf(tlsSocket: TLSSocket): Socket | undefined {
  // Node has no public name for it.
  return (tlsSocket as { readonly _parent?: Socket })._parent;
}

function listen(
  server: Server,
  address: ListenAddress,
  file: UnixSocketFile | undefined,
  onAcceptError: (error: NodeJS.ErrnoException) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.once("listening", () => {
      server.off("error", reject);
      server.on("error", (error) => {
        onAcceptError(error);
      });
      try {
        if (address.kind === "unix") file?.publish(address.mode);
        resolve();
      } catch (error) {
        server.close();
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
    if (address.kind === "tcp") {
      const host = address.host === "" ? {} : { host: address.host };
      server.listen({ ...host, port: address.port, backlog: BACKLOG });
    } else {
      // The bind happens within this call; the mode that is wanted comes later, with the name.
      const before = umask(OWNER_ONLY_UMASK);
      try {
        server.listen({ path: file?.temporaryPath ?? address.path, backlog: BACKLOG });
      } finally {
        umask(before);
      }
    }
  });
}

function listenErrorText(address: ListenAddress, error: NodeJS.ErrnoException): string {
  // Our own refusals already say it in Go's words, and more.
  const reason = error.errno === undefined ? error.message : systemErrorText(error);
  if (address.kind === "unix") return `listen unix ${address.path}: bind: ${reason}`;
  if (error.syscall === "getaddrinfo") return `listen tcp: lookup ${address.host}: no such host`;
  return `listen tcp ${joinHostPort(address.host, address.port)}: bind: ${reason}`;
}

/** `host:port` of a socket's peer; empty for a Unix socket. */
export function peerName(socket: Socket): string {
  const peer = peerAddress(socket);
  return peer === undefined ? "" : joinHostPort(peer.host, peer.port);
}

function peerAddress({ remoteAddress, remotePort }: Socket): PeerAddress | undefined {
  return remoteAddress === undefined || remotePort === undefined
    ? undefined
    : { host: remoteAddress, port: remotePort };
}
