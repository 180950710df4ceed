import { Socket } from "node:net";
import type { SocketConstructorOpts } from "node:net";
import { TLSSocket } from "node:tls";
import { getSystemErrorName } from "node:util";

/** What of a socket's handle is used here: libuv's, which Node does not document. */
interface WriteHandle {
  /** Both return 0, or the negated error number. */
  writeBuffer(request: WriteRequest, buffer: Buffer): number;
  writev(request: WriteRequest, buffers: readonly Buffer[], areAllBuffers: true): number;
  /** Which libuv's streams have; and TLS, which has to be told by its class. */
  readonly writeQueueSize: number;
}

/** Node's request for one write, and what is to be done once it is over. */
interface WriteRequest {
  /** {@link NOT_USED} where it has not been needed, because the system has taken all at once. */
  getAsyncId(): number;
  oncomplete?: (this: WriteRequest, status: number) => void;
  socket?: Socket | undefined;
  buffers?: readonly Buffer[] | undefined;
  written?: Written | undefined;
}

/** @param error - Why the socket is being destroyed, where it has failed. */
export type Written = (error?: Error | null) => void;

const NOT_USED = -1;

const makeRequest = findRequest();

/** One that has not been needed serves the next write. */
let spareRequest: WriteRequest | undefined;

/**
 * Hand buffers to the system past the socket's stream, which makes a request, closures and
 * `process.nextTick` of each write: a twentieth of the CPU of a bulk transfer in whoever writes to plain sockets.
 * What the stream writes later, an end above all, is behind them.
 *
 * @param buffers - Not to be touched until they are written, and not empty.
 * @param written - Called later, unless the system has taken all at once: when it has, or when it never
 * will and the socket is destroyed for it.
 * @returns whether all has been taken, or waits for room; `undefined`, and nothing is done, where the stream
 * has to write it: for TLS, where the stream has something waiting or no connection, and where Node has
 * nothing of the kind.
 */
export function writeDirectly(
  socket: Socket,
  buffers: readonly Buffer[],
  written: Written,
): "taken" | "waits" | undefined {
  const handle = directHandle(socket);
  const [first] = buffers;
  if (makeRequest === undefined || handle === undefined || first === undefined) return undefined;
  const request = spareRequest ?? new makeRequest();
  spareRequest = undefined;
  request.oncomplete = completed;
  request.socket = socket;
  request.buffers = buffers;
  request.written = written;
  const status =
    buffers.length === 1
      ? handle.writeBuffer(request, first)
      : handle.writev(request, buffers, true);
  if (status < 0) {
    queueMicrotask(() => {
      completed.call(request, status);
    });
    return "waits";
  }
  if (request.getAsyncId() !== NOT_USED) return "waits";
  request.socket = request.buffers = request.written = undefined;
  spareRequest = request;
  return "taken";
}

/** Bytes of what was {@link writeDirectly written directly} that wait for room; 0 also where that is not known. */
export function waitingBytes(socket: Socket): number {
  return directHandle(socket)?.writeQueueSize ?? 0;
}

function completed(this: WriteRequest, status: number): void {
  const error = status < 0 ? writeError(status) : undefined;
  if (error !== undefined && this.socket?.destroyed === false) this.socket.destroy(error);
  this.written?.(error);
}

function writeError(status: number): NodeJS.ErrnoException {
  const code = getSystemErrorName(status);
  return Object.assign(new Error(`write ${code}`), { errno: status, code, syscall: "write" });
}

function directHandle(socket: Socket): WriteHandle | undefined {
  if (socket.connecting || socket.writableLength > 0 || socket instanceof TLSSocket)
    return undefined;
  const handle = (socket as unknown as { _handle?: Partial<WriteHandle> | null })._handle;
  return typeof handle?.writeQueueSize === "number" ? (handle as WriteHandle) : undefined;
}

/**
 * Finds what Node makes requests with by what it hands to a handle that is ours; `undefined` where a version
 * of Node does not, or where its requests do not tell whether they are used.
 */
function findRequest(): (new () => WriteRequest) | undefined {
  let made: object | undefined;
  const handle = {
    writeBuffer(request: object) {
      made = request;
      return 0;
    },
    readStart: () => 0,
    close(closed: () => void) {
      closed();
    },
  };
  try {
    const options: SocketConstructorOpts & { handle: object } = { handle };
    const socket = new Socket(options);
    socket.on("error", () => undefined);
    socket.write(Buffer.alloc(1));
    socket.destroy();
    const make = made?.constructor as (new () => WriteRequest) | undefined;
    return make !== undefined && new make().getAsyncId() === NOT_USED ? make : undefined;
  } catch {
    return undefined;
  }
}
