import { Socket } from "node:net";
import type { OnReadOpts, SocketConstructorOpts } from "node:net";
import { TLSSocket } from "node:tls";

/** As much as libuv asks for, and as much as TLS hands out at once: the largest record's content. */
const READ_BYTES = 64 * 1024;
const TLS_READ_BYTES = 16 * 1024;

/**
 * Where all sockets of the process are read into. Nothing else is read between a read and the call
 * that hands its bytes out; but bytes of a TLS socket come out while its own socket is read.
 */
const readBuffer = Buffer.allocUnsafeSlow(READ_BYTES);
const tlsReadBuffer = Buffer.allocUnsafeSlow(TLS_READ_BYTES);

/** Full TLS records that are handed out together, in bytes. */
export const GATHER_BYTES = 288 * 1024;

/** Most sockets that gather at the same time, each in a buffer of its own: 2.25 MiB. */
export const MAX_GATHER_BUFFERS = 8;
const freeGatherBuffers: Buffer[] = [];
let gatherBufferCount = 0;

/** Where a socket keeps its `onread` option. */
interface OnreadKeys {
  readonly buffer: symbol;
  readonly callback: symbol;
}

/** The handle of a socket, as far as it is used here. */
interface ReadHandle {
  useUserBuffer?(buffer: Uint8Array): void;
}

const onreadKeys = findOnreadKeys();

/**
 * Hand out what `socket` receives, as `data` events would, but in memory that is the caller's
 * during the call only. Whatever `received` wants to keep it has to copy.
 *
 * Node has this for sockets that it connects (`onread` of `net.connect`), and neither for those that
 * a server accepts nor for TLS on top of a socket. There it is set up by hand, in the same place,
 * and where a version of Node has no such place, `data` events it is.
 */
export function readBorrowed(socket: Socket, received: (piece: Buffer) => void): void {
  const internals = socket as unknown as Record<symbol, unknown> & { _handle?: ReadHandle | null };
  const handle = internals._handle;
  if (onreadKeys !== undefined && typeof handle?.useUserBuffer === "function") {
    const isTls = socket instanceof TLSSocket;
    const buffer = isTls ? tlsReadBuffer : readBuffer;
    internals[onreadKeys.buffer] = buffer;
    internals[onreadKeys.callback] = isTls
      ? gatherRecords(socket, received)
      : (bytes: number) => {
          received(buffer.subarray(0, bytes));
          return true;
        };
    handle.useUserBuffer(buffer);
  }
  // What the socket had read before comes first, this way; and so the socket begins to flow.
  socket.on("data", received);
}

/**
 * TLS hands out record by record, full ones (16 KiB) as long as there is more to come. Those are
 * gathered until the last one comes, the buffer is full, or the turn of the event loop ends.
 */
function gatherRecords(socket: Socket, received: (piece: Buffer) => void) {
  let gathered: Buffer | undefined;
  let gatheredBytes = 0;
  const handOut = () => {
    if (gathered === undefined) return;
    const buffer = gathered;
    const bytes = gatheredBytes;
    gathered = undefined;
    gatheredBytes = 0;
    try {
      received(buffer.subarray(0, bytes));
    } finally {
      freeGatherBuffers.push(buffer);
    }
  };
  for (const event of ["end", "error", "close"]) socket.prependListener(event, handOut);
  return (bytes: number) => {
    if (gathered === undefined) {
      gathered = bytes < TLS_READ_BYTES ? undefined : gatherBuffer();
      if (gathered === undefined) {
        received(tlsReadBuffer.subarray(0, bytes));
        return true;
      }
      setImmediate(handOut);
    }
    tlsReadBuffer.copy(gathered, gatheredBytes, 0, bytes);
    gatheredBytes += bytes;
    if (bytes < TLS_READ_BYTES || gatheredBytes + TLS_READ_BYTES > GATHER_BYTES) handOut();
    return true;
  };
}

/** A buffer to gather in; `undefined` while all are in use. */
function gatherBuffer(): Buffer | undefined {
  const free = freeGatherBuffers.pop();
  if (free !== undefined || gatherBufferCount === MAX_GATHER_BUFFERS) return free;
  gatherBufferCount++;
  return Buffer.allocUnsafeSlow(GATHER_BYTES);
}

/** Finds them by what they lead to, in a socket that has the option. */
function findOnreadKeys(): OnreadKeys | undefined {
  const bufferOption = Buffer.alloc(1);
  const callbackOption = () => true;
  const options: SocketConstructorOpts & { onread: OnReadOpts } = {
    onread: { buffer: bufferOption, callback: callbackOption },
  };
  const socket = new Socket(options) as unknown as Record<symbol, unknown>;
  const keyOf = (value: unknown) =>
    Object.getOwnPropertySymbols(socket).find((key) => socket[key] === value);
  const buffer = keyOf(bufferOption);
  const callback = keyOf(callbackOption);
  return buffer === undefined || callback === undefined ? undefined : { buffer, callback };
}
