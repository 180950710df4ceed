import { once } from "node:events";
import { writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { TLSSocket } from "node:tls";
import { TokenBucket, systemClock } from "@reachback/common";
import { temporaryFolder } from "./cluster.ts";
import { LeaseStore } from "./lease-store.ts";
import { createTestPki } from "./pki.ts";
import type { ServerOptions } from "@reachback/server";

// A small apiserver on loopback: leases and token reviews over HTTPS, for who has a client
// certificate or a bearer token that it knows. It can be absent, fail, throttle, lag and fall silent.

/** Whom {@link TOKEN_AUTHENTICATION} lets in. */
export const AGENT_USERNAME = "system:serviceaccount:kube-system:konnectivity-agent";
export const AGENT_AUDIENCE = "system:konnectivity-server";

/** Reviews of agents' tokens, with room for all that a test may ask for. */
export const TOKEN_AUTHENTICATION: NonNullable<ServerOptions["tokenAuthentication"]> = {
  namespace: "kube-system",
  serviceAccount: "konnectivity-agent",
  audience: AGENT_AUDIENCE,
  maxWaiting: 100,
  timeoutMs: 30_000,
  perSecond: 1_000,
  burst: 1_000,
  cacheTtlMs: 300_000,
};

/** A question to the API, as it came. */
export interface ApiCall {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: unknown;
  /** Subject of the client certificate, if one was shown. */
  readonly commonName: string | undefined;
}

/** What a review says of a token: the fields of `TokenReviewStatus`. */
export type ReviewStatus = Readonly<Record<string, unknown>>;

/** The status of a service account's token. */
export function serviceAccountStatus(
  username: string,
  audiences?: readonly string[],
): ReviewStatus {
  return { authenticated: true, user: { username }, ...(audiences ? { audiences } : {}) };
}

/** What the API does with a call instead of answering it; `undefined` to answer after all. */
export type Fault = (
  call: ApiCall,
) => { readonly status: number; readonly headers?: Record<string, string> } | "hang" | undefined;

export class KubernetesApi {
  /** Every call, in order; those refused included. */
  readonly calls: ApiCall[] = [];
  readonly leases = new LeaseStore();
  /** Bearer tokens of callers, besides certificates of the kubelets' CA. */
  readonly callers = new Set<string>(["caller-token"]);
  /** What a review says of a token; by default, that it is not valid. */
  review: (token: string) => ReviewStatus = () => ({ authenticated: false });
  fault: Fault = () => undefined;
  /** Each answer takes so long. */
  lagMs = 0;
  port = 0;
  #host = "127.0.0.1";
  readonly #sockets = new Set<Socket>();
  #server: Server | undefined;
  #bucket: TokenBucket | undefined;

  get url(): string {
    return `https://${this.#host}:${this.port}`;
  }

  /** Reviews that were asked for, whatever came of them. */
  get reviewCount(): number {
    return this.calls.filter(({ path }) => path.endsWith("/tokenreviews")).length;
  }

  /** Answer so many calls per second, and others with 429 and Retry-After. */
  throttle(perSecond: number): void {
    this.#bucket = new TokenBucket(perSecond, perSecond, systemClock);
  }

  /**
   * Appear, at the same port as before if there was one.
   *
   * @param host - Address of this machine; its certificate is for that, and of the kubelets' CA.
   */
  async start(host = this.#host): Promise<void> {
    this.#host = host;
    const pki = createTestPki();
    const { kubeletCa } = pki;
    const sans = ["localhost", host];
    const { cert, key } = pki.issue({ ca: kubeletCa, sans, usage: "server" });
    this.#server = createServer(
      {
        cert,
        key,
        ca: kubeletCa.cert,
        requestCert: true,
        rejectUnauthorized: false,
      },
      (request, response) => {
        void this.#answer(request, response);
      },
    );
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.listen(this.port, host);
    await once(this.#server, "listening");
    this.port = (this.#server.address() as AddressInfo).port;
  }

  /** Be gone, with all connections. */
  stop(): void {
    this.#server?.close();
    for (const socket of this.#sockets) socket.destroy();
    this.leases.endWatches();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const piece of request.setEncoding("utf8") as AsyncIterable<string>) text += piece;
    const url = new URL(request.url ?? "", this.url);
    const call: ApiCall = {
      method: request.method ?? "",
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: text === "" ? undefined : JSON.parse(text),
      commonName: commonNameOf(request.socket),
    };
    this.calls.push(call);
    if (this.lagMs > 0) await new Promise((resolve) => setTimeout(resolve, this.lagMs));
    const fault = this.fault(call);
    if (fault === "hang") return;
    if (fault !== undefined) {
      refuse(response, fault.status, fault.headers);
    } else if (!this.#knows(call)) {
      refuse(response, 401);
    } else if ((this.#bucket?.take() ?? 0) > 0) {
      refuse(response, 429, { "retry-after": "1" });
    } else {
      this.#perform(call, response);
    }
  }

  #knows({ headers, commonName }: ApiCall): boolean {
    const [, token = ""] = /^Bearer (.*)$/.exec(headers.authorization ?? "") ?? [];
    return commonName !== undefined || this.callers.has(token);
  }

  #perform(call: ApiCall, response: ServerResponse): void {
    if (call.path === "/apis/authentication.k8s.io/v1/tokenreviews" && call.method === "POST") {
      const { spec } = call.body as { spec: { token: string } };
      sendJson(response, 201, { kind: "TokenReview", spec, status: this.review(spec.token) });
      return;
    }
    const parts =
      /^\/apis\/coordination\.k8s\.io\/v1\/namespaces\/([^/]+)\/leases(?:\/([^/]+))?$/.exec(
        call.path,
      );
    if (parts === null) {
      refuse(response, 404);
      return;
    }
    const [, namespace = "", name] = parts;
    if (call.query.has("watch")) {
      response.writeHead(200, { "content-type": "application/json" });
      response.flushHeaders();
      this.leases.watch(namespace, call.query, response);
      return;
    }
    const { status, body } = this.leases.perform(
      call.method,
      namespace,
      name,
      call.query,
      call.body,
    );
    if (status >= 300) refuse(response, status);
    else sendJson(response, status, body);
  }
}

function commonNameOf(socket: Socket): string | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  // A resumed session is "authorized" even where nobody showed a certificate.
  const certificate = socket.getPeerCertificate() as { subject?: { CN?: string } };
  return socket.authorized ? certificate.subject?.CN : undefined;
}

const REASONS: Readonly<Record<number, string>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
};

function refuse(
  response: ServerResponse,
  code: number,
  headers: Record<string, string> = {},
): void {
  const reason = REASONS[code] ?? "Unknown";
  const body = {
    kind: "Status",
    status: "Failure",
    message: `says the test: ${reason}`,
    reason,
    code,
  };
  sendJson(response, code, body, headers);
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

/** An apiserver on this address; gone when the test ends. */
export async function startKubernetesApi(
  t: TestContext,
  host = "127.0.0.1",
): Promise<KubernetesApi> {
  const api = new KubernetesApi();
  t.after(() => {
    api.stop();
  });
  await api.start(host);
  return api;
}

/**
 * Write a kubeconfig for the API; returns its path.
 *
 * @param user - Of kubeconfig; by default one with a token that the API knows.
 */
export function writeKubeconfig(
  t: TestContext,
  api: KubernetesApi,
  user: object = { token: "caller-token" },
  cluster: object = { "certificate-authority": createTestPki().kubeletCa.certPath },
): string {
  const path = join(temporaryFolder(t), "kubeconfig");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    contexts: [{ name: "test", context: { cluster: "api", user: "us" } }],
    clusters: [{ name: "api", cluster: { server: api.url, ...cluster } }],
    users: [{ name: "us", user }],
  };
  writeFileSync(path, JSON.stringify(config));
  return path;
}
