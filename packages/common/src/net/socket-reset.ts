import type { Socket } from "node:net";

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

function isTcp(socket: Socket): boolean {
  // A Unix socket has no local address; a TCP one keeps its own even when the peer is gone.
  return socket.localAddress !== undefined;
}

/**
 * Whether an `end` event that a TCP socket has just emitted was in truth a reset.
 *
 * libuv turns a reset that arrives together with data into an end (uv__stream_io takes POLLHUP
 * after a partial read for end of file). But the kernel has closed such a socket, so it has lost
 * its peer's address. Only true to the facts if this end has not finished sending, and if nobody
 * asked the socket for its remote address before: Node caches the answer.
 */
export function endedByReset(socket: Socket): boolean {
  return isTcp(socket) && socket.remoteAddress === undefined;
}
