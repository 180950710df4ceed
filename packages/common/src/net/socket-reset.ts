import { readSync, writeSync } from "node:fs";
import type { Socket } from "node:net";
import { isTcp } from "./is-tcp.ts";

/** The TCP socket under a TLS socket, for those made by this folder: TLS sockets cannot be reset. */
const carriers = new WeakMap<Socket, Socket>();

/** Remember which TCP socket carries a TLS socket. */
export function rememberCarrier(tlsSocket: Socket, tcpSocket: Socket): void {
  carriers.set(tlsSocket, tcpSocket);
}

/**
 * Destroy a socket so that its peer sees a reset and cannot take it for an orderly end. What has
 * not left yet is dropped.
 *
 * A Unix socket knows no reset: there the peer sees an end (LIMITS.md). So it does if the end of the
 * socket is under way already.
 */
export function resetSocket(socket: Socket): void {
  const tcpSocket = carriers.get(socket) ?? socket;
  // Until an end has left, libuv refuses to reset, and Node 20 then never closes the socket.
  const isEnding = socket.writableEnded && !socket.writableFinished;
  if (!isEnding && !tcpSocket.destroyed && isTcp(tcpSocket)) {
    tcpSocket.resetAndDestroy();
  }
  socket.destroy();
}

/** What of a socket's handle is used here: libuv's, which Node does not document. */
interface SocketHandle {
  readonly fd?: number;
  /** 0, or the negated error number. */
  getpeername?(out: object): number;
}

/** Where {@link endedByReset} has its byte put, which there never is. */
const NO_BYTE = Buffer.alloc(1);

const NOTHING = Buffer.alloc(0);

/**
 * Whether an `end` event that a TCP socket is emitting was in truth a reset; to be asked from within
 * that event.
 *
 * libuv turns a reset that arrives together with data into an end (uv__stream_io takes POLLHUP
 * after a partial read for end of file). The kernel still knows: the next read fails with
 * ECONNRESET, where behind an end it gives nothing; unless a write has been told before, as it
 * happens to those that TLS makes by itself. Then the socket has no peer any more, which it has
 * behind an end for as long as it has not finished itself.
 */
export function endedByReset(socket: Socket): boolean {
  const tcpSocket = carriers.get(socket) ?? socket;
  if (!isTcp(tcpSocket)) return false;
  const fd = fileDescriptorOf(tcpSocket);
  if (fd !== undefined) {
    try {
      readSync(fd, NO_BYTE, 0, 1, null);
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ECONNRESET";
    }
  }
  return !socket.writableEnded && !hasPeer(tcpSocket);
}

/** Asks the kernel, where `remoteAddress` may remember. */
function hasPeer(socket: Socket): boolean {
  const handle = handleOf(socket);
  if (handle?.getpeername === undefined) return socket.remoteAddress !== undefined;
  return handle.getpeername({}) === 0;
}

/**
 * Whether the peer of a Unix socket that is emitting `end` has closed it, and not just finished
 * sending. To a TCP socket the two look the same; false for those.
 */
export function peerHasGone(socket: Socket): boolean {
  if (carriers.has(socket) || isTcp(socket)) return false;
  const fd = fileDescriptorOf(socket);
  if (fd === undefined) return false;
  try {
    // Nothing is written, but the kernel looks whether it could be.
    writeSync(fd, NOTHING);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPIPE";
  }
}

/** What libuv uses for a socket, if it can be known. */
function fileDescriptorOf(socket: Socket): number | undefined {
  const fd = handleOf(socket)?.fd ?? -1;
  return fd < 0 ? undefined : fd;
}

function handleOf(socket: Socket): SocketHandle | null | undefined {
  return (socket as unknown as { _handle?: SocketHandle | null })._handle;
}
