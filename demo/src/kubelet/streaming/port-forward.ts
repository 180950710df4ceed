import { connect } from "node:net";
import { pipeline } from "node:stream/promises";
import type { SpdyStream } from "../../spdy/spdy-stream.ts";

/** The subprotocol of port-forward's streams, whatever carries them. */
export const PORT_FORWARD_PROTOCOL = "portforward.k8s.io";

/** SPDY/3.1 within a WebSocket: kubectl 1.31 and newer. */
export const TUNNELLED_PORT_FORWARD = `SPDY/3.1+${PORT_FORWARD_PROTOCOL}`;

/**
 * Port-forward over the streams of one SPDY connection: two for each forwarded connection, one for
 * its bytes and one for what goes wrong, which belong together by their `requestID`.
 */
export class PortForward {
  readonly #host: string;
  readonly #errorStreams = new Map<string, SpdyStream>();

  /** @param host - Where the pod's ports are. */
  constructor(host: string) {
    this.#host = host;
  }

  /** The client opened a stream; the one for errors comes first. */
  add(stream: SpdyStream): void {
    const { streamtype: type, requestid: id = "", port = "" } = stream.headers;
    if (type === "error") {
      stream.resume();
      this.#errorStreams.set(id, stream);
      stream.once("close", () => this.#errorStreams.delete(id));
      return;
    }
    const errorStream = this.#errorStreams.get(id);
    this.#errorStreams.delete(id);
    if (type !== "data" || errorStream === undefined) {
      stream.destroy(new Error("port-forward: a stream that belongs to no other"));
      return;
    }
    void this.#forward(Number(port), stream, errorStream);
  }

  async #forward(port: number, data: SpdyStream, errors: SpdyStream): Promise<void> {
    const socket = connect({ host: this.#host, port, allowHalfOpen: true, noDelay: true });
    let failure = "";
    socket.once("error", ({ message }) => {
      failure = `error forwarding port ${port} to pod at ${this.#host}: ${message}`;
    });
    // That the client leaves is no failure, but it ends the other direction as well.
    pipeline(data, socket).catch(() => undefined);
    await pipeline(socket, data).catch(() => undefined);
    // Not later: kubectl waits for this before it lets the connection go.
    errors.end(failure);
  }
}
