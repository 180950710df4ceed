import type { Socket } from "node:net";

/** Whether a socket, or what carries a TLS socket, is TCP; otherwise it is a Unix socket. */
export function isTcp(socket: Socket): boolean {
  // A Unix socket has no local address; a TCP one keeps its own even when the peer is gone.
  return socket.localAddress !== undefined;
}
