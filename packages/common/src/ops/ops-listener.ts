import { ServerResponse, createServer } from "node:http";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { Readable } from "node:stream";
import type { Clock } from "../clock.ts";
import type { Logger } from "../log/logger.ts";
import { joinHostPort } from "../net/host-port.ts";
import { writeAnswer } from "./answer-writer.ts";
import { ConnectionSlots } from "./connection-slots.ts";
import { errorAnswer } from "./go-answers.ts";
import { listenError } from "./listen-error.ts";
import type { OpsResponse, OpsRoute } from "./ops-route.ts";
import { OpsRouter } from "./ops-router.ts";
import { BAD_REQUEST, HEAD_TOO_LARGE, headProblem, refuse, refuseRequest } from "./refusal.ts";
import { parseTarget } from "./request-target.ts";

export interface OpsListenerOptions {
  /** What it is for, in errors and logs: `health server`, `admin server`. */
  readonly name: string;

  /** `""` for all interfaces. */
  readonly host: string;

  /** 0 for any free one. */
  readonly port: number;
  readonly routes: readonly OpsRoute[];
  readonly limits?: Partial<OpsListenerLimits>;
}

export interface OpsListenerLimits {
  /**
   * Open connections at a time; beyond it the one idle for longest is closed.
   *
   * @defaultValue 64
   */
  readonly maxConnections: number;

  /**
   * From a connection's first moment, or a later request's first byte, to its complete head.
   *
   * @defaultValue 60 000
   */
  readonly headTimeoutMs: number;

  /**
   * Between two requests on one connection. Above the interval of whoever scrapes.
   *
   * @defaultValue 180 000
   */
  readonly idleTimeoutMs: number;

  /**
   * From a complete answer until the client has taken it.
   *
   * @defaultValue 60 000
   */
  readonly sendTimeoutMs: number;
}

const DEFAULT_LIMITS: OpsListenerLimits = {
  maxConnections: 64,
  headTimeoutMs: 60_000,
  idleTimeoutMs: 180_000,
  sendTimeoutMs: 60_000,
};

const MAX_HEAD_BYTES = 1 << 20;
const TCP_KEEPALIVE_MS = 15_000;
const CLOSE_GRACE_MS = 2_000;

/** How many times per head timeout Node looks for heads that are late. */
const HEAD_CHECKS = 12;

/** What Go's HTTP server answers by itself, in its order of headers. */
const EXPECTATION_FAILED: OpsResponse = {
  status: 417,
  body: "",
  headers: { Connection: "close" },
};
const GENERAL_OPTIONS: OpsResponse = { status: 200, body: "", headers: { "Content-Length": "0" } };

export interface OpsListenerPorts {
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * A plain HTTP listener for health, readiness, metrics and profiles.
 *
 * It answers, byte for byte where that is observable, as the HTTP server of Go does under
 * upstream's programs. Who connects is not asked, so everything that a client may hold has a bound.
 */
export class OpsListener {
  readonly #name: string;
  readonly #limits: OpsListenerLimits;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #router: OpsRouter;
  readonly #slots: ConnectionSlots;
  readonly #server: Server;
  readonly #underWay = new Set<AbortController>();
  readonly #refused = new WeakSet<Socket>();
  #closed: Promise<void> | undefined;

  private constructor(options: OpsListenerOptions, ports: OpsListenerPorts) {
    this.#name = options.name;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#clock = ports.clock;
    this.#logger = ports.logger;
    this.#router = new OpsRouter(options.routes);
    this.#slots = new ConnectionSlots(this.#limits.maxConnections);
    this.#server = this.#createServer();
  }

  /**
   * Open the listener.
   *
   * @throws in upstream's words if it cannot be opened; the program must not start then, as nobody
   * would notice later that its health cannot be asked.
   */
  static async open(options: OpsListenerOptions, ports: OpsListenerPorts): Promise<OpsListener> {
    const listener = new OpsListener(options, ports);
    await listener.#listen(options.host, options.port);
    ports.logger.info("listener.opened", {
      listener: options.name,
      address: joinHostPort(options.host, listener.port),
    });
    return listener;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * Close the listener and every idle connection at once; those with a request under way get two
   * seconds to take their answer. Idempotent.
   *
   * @returns when all connections are gone.
   */
  close(): Promise<void> {
    this.#closed ??= new Promise((resolve) => {
      const cancel = this.#clock.schedule(CLOSE_GRACE_MS, () => {
        this.#slots.destroyAll();
      });
      this.#server.close(() => {
        cancel();
        resolve();
      });
      for (const request of this.#underWay) request.abort();
      this.#slots.destroyIdle();
    });
    return this.#closed;
  }

  #createServer(): Server {
    const server: Server & { httpAllowHalfOpen?: boolean } = createServer({
      maxHeaderSize: MAX_HEAD_BYTES,
      headersTimeout: this.#limits.headTimeoutMs,
      requestTimeout: this.#limits.headTimeoutMs,
      connectionsCheckingInterval: this.#limits.headTimeoutMs / HEAD_CHECKS,
      keepAliveTimeout: this.#limits.idleTimeoutMs,
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEPALIVE_MS,
      noDelay: true,
      // Node's own refusal of a request without one has no text.
      requireHostHeader: false,
    });
    // A client may finish sending behind its request and still wait for the answer, as `nc -N` does.
    server.httpAllowHalfOpen = true;
    server.on("connection", (socket: Socket) => {
      this.#slots.add(socket);
    });
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      void this.#serve(request, response);
    });
    server.on("checkExpectation", (request: IncomingMessage, response: ServerResponse) => {
      response.shouldKeepAlive = false;
      void this.#serve(request, response, EXPECTATION_FAILED);
    });
    server.on("connect", (request: IncomingMessage, socket: Socket) => {
      const response = new ServerResponse(request);
      response.shouldKeepAlive = false;
      response.assignSocket(socket);
      response.once("finish", () => {
        socket.destroySoon();
      });
      // Node has let go of the socket, so nobody else would hear of a reset.
      socket.on("error", () => {
        socket.destroy();
      });
      socket.resume();
      void this.#serve(request, response, errorAnswer(404, "404 page not found"));
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
      this.#refuseUnreadable(error, socket);
    });
    return server;
  }

  async #listen(host: string, port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) => {
        reject(listenError(this.#name, joinHostPort(host, port), error));
      });
      this.#server.listen({ port, ...(host === "" ? {} : { host }) }, resolve);
    });
    this.#server.removeAllListeners("error");
    // A connection that cannot be accepted, for want of descriptors, must not end the process.
    this.#server.on("error", (error) => {
      this.#logger.error("listener.failed", error, { listener: this.#name });
    });
  }

  async #serve(
    request: IncomingMessage,
    response: ServerResponse,
    given?: OpsResponse,
  ): Promise<void> {
    const { socket } = request;
    const left = new AbortController();
    const onLeft = () => {
      left.abort();
    };
    this.#slots.requestStarted(socket);
    this.#underWay.add(left);
    socket.once("end", onLeft);
    response.once("close", () => {
      onLeft();
      socket.off("end", onLeft);
      this.#underWay.delete(left);
      this.#slots.requestEnded(socket);
      const isLast = this.#closed !== undefined || socket.readableEnded;
      if (isLast && !this.#slots.isBusy(socket)) socket.destroySoon();
    });
    try {
      const answer = given ?? (await this.#answer(request, response, left.signal));
      if (answer === undefined) return;
      if (response.closed) {
        if (answer.body instanceof Readable) answer.body.destroy();
        return;
      }
      if (this.#closed !== undefined) response.shouldKeepAlive = false;
      // Counts from the last byte that the client took; Node sets another when the answer is out.
      socket.setTimeout(this.#limits.sendTimeoutMs);
      await writeAnswer(request, response, answer, this.#clock.wallTimeMs());
    } catch {
      // A stream failed behind the head, or the client left in the middle: only closing is left.
      socket.destroy();
    }
  }

  /** @returns nothing if the request has been refused. */
  async #answer(
    request: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<OpsResponse | undefined> {
    const { method = "", url = "" } = request;
    if (method === "OPTIONS" && url === "*") return GENERAL_OPTIONS;
    const target = parseTarget(url);
    const problem = headProblem(request);
    if (target === undefined || problem !== undefined) {
      refuseRequest(response, problem ?? BAD_REQUEST);
      return undefined;
    }
    try {
      return await this.#router.answer({
        method,
        path: target.path,
        rawQuery: target.rawQuery,
        query: new URLSearchParams(target.rawQuery),
        host: target.host ?? request.headers.host ?? "",
        acceptEncoding: request.headers["accept-encoding"]?.toString() ?? "",
        signal,
      });
    } catch (error) {
      this.#logger.error("ops.failed", error, { listener: this.#name, path: target.path });
      return errorAnswer(500, "internal error");
    }
  }

  #refuseUnreadable(error: NodeJS.ErrnoException, socket: Socket): void {
    // Bytes behind the first bad one are errors of their own to the parser.
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    if (error.code?.startsWith("HPE_") !== true) {
      // The head took too long, or the connection broke.
      socket.destroy();
    } else if (this.#slots.isBusy(socket)) {
      // An answer to a request before this one is on its way: nothing may get in between.
      socket.destroySoon();
    } else {
      const isTooLong = error.code === "HPE_HEADER_OVERFLOW";
      refuse(socket, this.#clock, isTooLong ? HEAD_TOO_LARGE : BAD_REQUEST);
    }
  }
}
