import { request as httpRequest, Agent as HttpAgent } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { CancelTimer, Clock } from "../clock.ts";
import { systemErrorText } from "../system-error-text.ts";
import { describeTlsError } from "../tls/describe-tls-error.ts";
import type { ApiAccess } from "./api-access.ts";
import { ApiCredentials } from "./api-credentials.ts";
import type { RequestIdentity, TlsIdentity } from "./api-credentials.ts";
import { ApiError, answeredError } from "./api-error.ts";

export interface ApiRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** From the API's root, with its query if any: `/apis/...`. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** From here to the whole answer, in milliseconds. */
  readonly timeoutMs: number;
  /** Give up; the error is the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface WatchRequest {
  readonly path: string;
  /** The watch fails when so long nothing was heard, in milliseconds. */
  readonly silenceMs: number;
  readonly signal: AbortSignal;
  /** The apiserver has accepted the watch. */
  readonly started: () => void;
  /** One line of the answer, parsed. */
  readonly event: (event: unknown) => void;
}

export interface KubernetesClientPorts {
  readonly clock: Clock;
  /** What exec plugins run in. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userAgent: string;
}

/** The answer to a list of leases of a large cluster is far below. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

/** Idle connections that are kept, for as many requests as come together, and how long. */
const KEPT = { keepAlive: true, maxFreeSockets: 64, timeout: 60_000 };

/**
 * Requests to an apiserver, as JSON over HTTP/1.1 with connections kept alive. Credentials in files
 * are followed; those that the apiserver refuses are fetched anew once.
 */
export class KubernetesClient {
  readonly #access: ApiAccess;
  readonly #ports: KubernetesClientPorts;
  readonly #credentials: ApiCredentials;
  #connections: { readonly tls: TlsIdentity; readonly agent: HttpAgent } | undefined;

  constructor(access: ApiAccess, ports: KubernetesClientPorts) {
    this.#access = access;
    this.#ports = ports;
    this.#credentials = new ApiCredentials(access, ports.clock, ports.env);
  }

  /** URL of the apiserver, for logs. */
  get server(): string {
    return this.#access.server;
  }

  /**
   * One request.
   *
   * @returns The parsed body of a 2xx answer.
   * @throws {ApiError} for any other answer and for none; the signal's reason when it aborts.
   */
  async request(request: ApiRequest): Promise<unknown> {
    const signal = request.signal ?? new AbortController().signal;
    const timeout = new AbortController();
    const onAbort = () => {
      timeout.abort(signal.reason);
    };
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) onAbort();
    const cancelTimer = this.#ports.clock.schedule(request.timeoutMs, () => {
      timeout.abort(this.#unreachable(request, `no answer within ${request.timeoutMs / 1000} s`));
    });
    try {
      return await this.#requestTwice(request, timeout.signal);
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }

  /**
   * Watch until the apiserver ends it, which it does now and then.
   *
   * @throws {ApiError} if it is refused, breaks off or falls silent; the signal's reason when it
   * aborts.
   */
  async watch({ path, silenceMs, signal, started, event }: WatchRequest): Promise<void> {
    const request = { method: "GET", path } as const;
    const silence = new AbortController();
    const onAbort = () => {
      silence.abort(signal.reason);
    };
    signal.addEventListener("abort", onAbort);
    if (signal.aborted) onAbort();
    let cancelTimer: CancelTimer = () => undefined;
    const heard = () => {
      cancelTimer();
      cancelTimer = this.#ports.clock.schedule(silenceMs, () => {
        silence.abort(this.#unreachable(request, `nothing heard for ${silenceMs / 1000} s`));
      });
    };
    heard();
    try {
      const answer = await this.#send(request, await this.#identity(request), silence.signal);
      await this.#requireSuccess(request, answer);
      started();
      let rest = "";
      for await (const piece of answer as AsyncIterable<string>) {
        heard();
        const lines = (rest + piece).split("\n");
        rest = lines.pop() ?? "";
        if (rest.length > MAX_ANSWER_BYTES) throw new Error("a line is too long");
        for (const line of lines) if (line !== "") event(JSON.parse(line));
      }
    } catch (error) {
      throw this.#failure(request, error, silence.signal);
    } finally {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Close connections that are kept; requests under way are to be aborted by their owners. */
  close(): void {
    this.#connections?.agent.destroy();
    this.#connections = undefined;
  }

  async #requestTwice(request: ApiRequest, signal: AbortSignal): Promise<unknown> {
    const identity = await this.#identity(request);
    try {
      return await this.#requestOnce(request, identity, signal);
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status === 401;
      const isStale = error instanceof StaleConnectionError;
      if (!isRefused && !isStale) throw error;
      // A token may have been replaced since, a connection closed in the moment it was taken.
      if (isRefused) this.#credentials.refuse(identity);
      return this.#requestOnce(request, await this.#identity(request), signal);
    }
  }

  async #requestOnce(
    request: ApiRequest,
    identity: RequestIdentity,
    signal: AbortSignal,
  ): Promise<unknown> {
    try {
      const answer = await this.#send(request, identity, signal);
      await this.#requireSuccess(request, answer);
      const text = await textFrom(answer);
      return text === "" ? undefined : JSON.parse(text);
    } catch (error) {
      throw this.#failure(request, error, signal);
    }
  }

  async #identity(request: Pick<ApiRequest, "method" | "path">): Promise<RequestIdentity> {
    try {
      return await this.#credentials.identity();
    } catch (error) {
      throw this.#unreachable(
        request,
        error instanceof Error ? error.message : String(error),
        error,
      );
    }
  }

  #send(
    { method, path, body }: Pick<ApiRequest, "method" | "path" | "body">,
    identity: RequestIdentity,
    signal: AbortSignal,
  ): Promise<IncomingMessage> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers: string[] = ["accept", "application/json", "user-agent", this.#ports.userAgent];
    for (const header of identity.headers) headers.push(...header);
    if (text !== undefined) {
      headers.push("content-type", "application/json");
      headers.push("content-length", String(Buffer.byteLength(text)));
    }
    const url = new URL(this.#access.server + path);
    const isHttps = url.protocol === "https:";
    headers.push("host", url.host);
    return new Promise((resolve, reject) => {
      const options = { method, headers, agent: this.#agentFor(identity.tls, isHttps), signal };
      const outgoing: ClientRequest = (isHttps ? httpsRequest : httpRequest)(
        url,
        options,
        (answer) => {
          answer.setEncoding("utf8");
          resolve(answer);
        },
      );
      outgoing.on("error", (error: NodeJS.ErrnoException) => {
        const isStale = outgoing.reusedSocket && error.code === "ECONNRESET";
        reject(isStale ? new StaleConnectionError("closed", { cause: error }) : error);
      });
      outgoing.end(text);
    });
  }

  async #requireSuccess(
    request: Pick<ApiRequest, "method" | "path">,
    answer: IncomingMessage,
  ): Promise<void> {
    const status = answer.statusCode ?? 0;
    if (status >= 200 && status < 300) return;
    const body = await textFrom(answer);
    throw answeredError(this.#name(request), status, body, answer.headers["retry-after"]);
  }

  /** Connections belong to what they were opened with. */
  #agentFor(tls: TlsIdentity, isHttps: boolean): HttpAgent {
    const kept = this.#connections;
    const isSame =
      kept?.tls.ca === tls.ca && kept?.tls.cert === tls.cert && kept?.tls.key === tls.key;
    if (kept !== undefined && isSame) return kept.agent;
    // Its requests go on; what is idle, or becomes so, is closed.
    if (kept !== undefined) kept.agent.maxFreeSockets = 0;
    for (const sockets of Object.values(kept?.agent.freeSockets ?? {})) {
      for (const socket of sockets ?? []) socket.destroy();
    }
    const agent = isHttps ? this.#httpsAgent(tls) : new HttpAgent(KEPT);
    this.#connections = { tls, agent };
    return agent;
  }

  #httpsAgent({ ca, cert, key }: TlsIdentity): HttpAgent {
    const { skipsTlsVerification, tlsServerName } = this.#access;
    return new HttpsAgent({
      ...KEPT,
      minVersion: "TLSv1.2",
      rejectUnauthorized: !skipsTlsVerification,
      ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert, key }),
    });
  }

  #name({ method, path }: Pick<ApiRequest, "method" | "path">): string {
    return `${method} ${this.#access.server}${path.replace(/\?.*$/, "")}`;
  }

  #unreachable(
    request: Pick<ApiRequest, "method" | "path">,
    why: string,
    cause?: unknown,
  ): ApiError {
    return new ApiError(`${this.#name(request)}: ${why}`, 0, "Unreachable", { cause });
  }

  #failure(
    request: Pick<ApiRequest, "method" | "path">,
    error: unknown,
    signal: AbortSignal,
  ): unknown {
    if (signal.aborted) return signal.reason;
    if (error instanceof ApiError || error instanceof StaleConnectionError) return error;
    if (error instanceof SyntaxError)
      return this.#unreachable(request, "its answer is not JSON", error);
    return this.#unreachable(request, connectionProblem(error), error);
  }
}

/** A kept connection was closed by the apiserver just as it was used again. */
class StaleConnectionError extends Error {}

function connectionProblem(error: unknown): string {
  const failure = error instanceof StaleConnectionError ? error.cause : error;
  if (!(failure instanceof Error)) return String(failure);
  const { syscall, code = "" } = failure as NodeJS.ErrnoException;
  if (syscall === "getaddrinfo") return `look-up: ${code}`;
  const isTls = /^(ERR_(SSL|TLS)_|CERT_|UNABLE_|SELF_|DEPTH_|INVALID_PURPOSE)/.test(code);
  return isTls ? describeTlsError(failure, "server") : systemErrorText(failure);
}

async function textFrom(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of answer as AsyncIterable<string>) {
    text += piece;
    if (text.length > MAX_ANSWER_BYTES) throw new Error("its answer is too long");
  }
  return text;
}
