import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { CancelTimer, Clock, DialId, Random, SocketEndLimits } from "@reachback/common";
import type { DialBroker } from "../dial/dial-broker.ts";
import {
  BadRequestAnswer,
  CONNECT_ONLY,
  connectOnlyAnswer,
  connectOnlyHeaders,
  expectationFailedAnswer,
} from "./connect-answers.ts";
import { connectTarget, headerRefusal, versionRefusal } from "./connect-target.ts";
import { ConnectTunnel } from "./connect-tunnel.ts";

/** What Node says of a head that it cannot read: a code and, where that is ambiguous, a reason. */
interface HeadError extends Error {
  readonly code?: string;
  readonly reason?: string;
}

export interface ConnectFrontendOptions {
  /** From accept, or from the answer before, to a whole request head, in milliseconds. */
  readonly headTimeoutMs: number;
  /** Largest request head, in bytes; beyond: 431. */
  readonly maxHeadBytes: number;
  /** How long the last bytes of a refusal may take to leave, in milliseconds. */
  readonly lingerMs: number;
  readonly socketLimits: SocketEndLimits;
}

/**
 * The HTTP CONNECT frontend: one socket per connection. `node:http` reads the heads; from the
 * request on, the socket is a {@link ConnectTunnel}'s.
 */
export class ConnectFrontend {
  readonly #options: ConnectFrontendOptions;
  readonly #broker: DialBroker;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #server: Server;
  readonly #tunnels = new Set<ConnectTunnel>();
  /** Sockets that have not made their CONNECT yet, each with the timer that limits the wait. */
  readonly #waiting = new Map<Socket, CancelTimer>();

  constructor(options: ConnectFrontendOptions, broker: DialBroker, clock: Clock, random: Random) {
    this.#options = options;
    this.#broker = broker;
    this.#clock = clock;
    this.#random = random;
    this.#server = createServer({
      maxHeaderSize: options.maxHeadBytes,
      // Upstream tolerates CONNECT without it, and words the refusal of other methods itself.
      requireHostHeader: false,
      // Go's reads bare line feeds and folded lines too. No request is passed on, so there is nobody
      // who could read it another way; what Go refuses all the same is refused here.
      insecureHTTPParser: true,
      // Time limits are ours: Node's hang on a listening server, and this one only gets sockets.
      keepAliveTimeout: 0,
    });
    this.#server.on("connect", (request: IncomingMessage, socket: Socket, head: Buffer) => {
      this.#connect(request, socket, head);
    });
    this.#server.on("request", (request, response) => {
      this.#otherMethod(request, response);
    });
    this.#server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
      this.#otherMethod(request, response);
    });
    this.#server.on("checkExpectation", (request: IncomingMessage) => {
      this.#refuse(request.socket, expectationFailedAnswer(this.#clock.wallTimeMs()));
    });
    this.#server.on("clientError", (error: HeadError, socket: Socket) => {
      this.#malformed(error, socket);
    });
  }

  /** CONNECT requests in progress: dials and tunnels. */
  get requestCount(): number {
    return this.#tunnels.size;
  }

  /** Serve one connected socket; after a TLS handshake if there is one. */
  accept(socket: Socket): void {
    this.#awaitHead(socket);
    socket.once("close", () => {
      this.#stopWaiting(socket);
    });
    this.#server.emit("connection", socket);
  }

  /** Close the sockets that have not asked for anything; tunnels live on. */
  close(): void {
    for (const socket of [...this.#waiting.keys()]) socket.destroy();
  }

  /** {@link close}, and cut every tunnel. */
  destroy(): void {
    this.close();
    for (const tunnel of [...this.#tunnels]) tunnel.destroy();
  }

  #awaitHead(socket: Socket): void {
    this.#stopWaiting(socket);
    const cancel = this.#clock.schedule(this.#options.headTimeoutMs, () => {
      socket.destroy();
    });
    this.#waiting.set(socket, cancel);
  }

  #stopWaiting(socket: Socket): void {
    this.#waiting.get(socket)?.();
    this.#waiting.delete(socket);
  }

  #connect(request: IncomingMessage, socket: Socket, head: Buffer): void {
    this.#stopWaiting(socket);
    const target = connectTarget(request);
    if ("refusal" in target) {
      this.#refuse(socket, target.refusal);
      return;
    }
    const expect = request.headers.expect?.toLowerCase();
    if (expect !== undefined && expect !== "100-continue") {
      this.#refuse(socket, expectationFailedAnswer(this.#clock.wallTimeMs()));
      return;
    }
    const tunnel = new ConnectTunnel(socket, this.#options.socketLimits, this.#clock, () => {
      this.#tunnels.delete(tunnel);
    });
    this.#tunnels.add(tunnel);
    const dialId = this.#random.int63() as DialId;
    tunnel.dial({ dialId, protocol: "tcp", address: target.address }, head, this.#broker);
  }

  #otherMethod(request: IncomingMessage, response: ServerResponse): void {
    const { socket, method = "", httpVersion } = request;
    // The wait for the next head includes the time that this answer takes to leave.
    this.#awaitHead(socket);
    const isHostMissing = httpVersion === "1.1" && request.headers.host === undefined;
    const refusal =
      versionRefusal(request) ??
      headerRefusal(request) ??
      (isHostMissing ? BadRequestAnswer.missingHost : undefined);
    const nowMs = this.#clock.wallTimeMs();
    if (refusal !== undefined) {
      this.#refuse(socket, refusal);
      return;
    }
    if (httpVersion === "1.0") {
      this.#refuse(socket, connectOnlyAnswer(httpVersion, method, nowMs));
      return;
    }
    response.sendDate = false;
    // Upstream sends `Connection` only where it closes; removed, Node does not add it either.
    if (response.shouldKeepAlive) response.removeHeader("Connection");
    if (method === "OPTIONS" && request.url === "*") {
      response.writeHead(200, ["Content-Length", "0", "Date", new Date(nowMs).toUTCString()]);
      response.end();
      return;
    }
    response.writeHead(405, connectOnlyHeaders(nowMs));
    response.end(CONNECT_ONLY);
  }

  #malformed({ code = "", reason = "" }: HeadError, socket: Socket): void {
    switch (code) {
      case "HPE_HEADER_OVERFLOW":
        this.#refuse(socket, BadRequestAnswer.headTooLarge);
        return;
      case "HPE_INVALID_VERSION":
        // The code stands for a bare carriage return behind the version too.
        this.#refuse(
          socket,
          reason.startsWith("Invalid") ? BadRequestAnswer.version : BadRequestAnswer.malformed,
        );
        return;
      case "HPE_INVALID_TRANSFER_ENCODING":
        this.#refuse(socket, BadRequestAnswer.transferEncoding);
        return;
      case "HPE_PAUSED_H2_UPGRADE":
        // HTTP/2's preface, to Go a request with the method PRI.
        this.#refuse(socket, connectOnlyAnswer("1.1", "PRI", this.#clock.wallTimeMs()));
        return;
      case "ECONNRESET":
      case "EPIPE":
        socket.destroy();
        return;
      default:
        this.#refuse(socket, BadRequestAnswer.malformed);
    }
  }

  /** Answer and close, behind the answer. */
  #refuse(socket: Socket, answer: string): void {
    this.#stopWaiting(socket);
    if (socket.writableEnded || !socket.writable) return;
    socket.on("error", () => undefined);
    socket.end(answer);
    // What the client still sends is dropped: unread, it would turn the close into a reset.
    socket.resume();
    const cancel = this.#clock.schedule(this.#options.lingerMs, () => {
      socket.destroy();
    });
    socket.once("close", cancel);
  }
}
