import { readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { TLSSocket } from "node:tls";
import { Client } from "@reachback/client";
import type { Clock } from "@reachback/common";
import type { LabCertificates } from "./lab-certificates.ts";
import type { LabPlan } from "./lab-plan.ts";
import { LOOPBACK } from "./loopback.ts";
import { peerCertificateNames } from "./peer-certificate-names.ts";
import type { CertificateNames } from "./peer-certificate-names.ts";

/** The two frontends of the server. */
export type Frontend = "gRPC" | "CONNECT";

/** A line of an answer, and when its last byte was there. */
export interface ArrivedLine {
  readonly text: string;
  readonly wallTimeMs: number;
  /** Since the request was made. */
  readonly elapsedMs: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly lines: readonly ArrivedLine[];
  /** The endpoint's, if it showed one. */
  readonly certificate: CertificateNames | undefined;
}

/** A dial has to be done by then; the steps have deadlines of their own. */
const DIAL_TIMEOUT_MS = 5_000;

/**
 * Makes requests as kube-apiserver does: through the server, to pods by plain HTTP, to kubelets by
 * HTTPS with its own certificate, accepting none that the kubelets' CA has not signed.
 */
export class Apiserver {
  readonly #clients: Readonly<Record<Frontend, Client>>;
  readonly #kubeletTls: { readonly ca: Buffer; readonly cert: Buffer; readonly key: Buffer };
  readonly #clock: Clock;

  constructor(plan: LabPlan, { authorities, leaves }: LabCertificates, clock: Clock) {
    const frontendClient = leaves["frontend-client"];
    this.#clients = {
      gRPC: new Client({
        protocol: "grpc",
        address: { kind: "unix", path: plan.socketPath },
        dialTimeoutMs: DIAL_TIMEOUT_MS,
      }),
      CONNECT: new Client({
        protocol: "http-connect",
        address: { kind: "tcp", host: LOOPBACK, port: plan.port("connect") },
        tls: {
          caPath: authorities.frontend.certPath,
          certPath: frontendClient.certPath,
          keyPath: frontendClient.keyPath,
        },
        dialTimeoutMs: DIAL_TIMEOUT_MS,
      }),
    };
    this.#kubeletTls = {
      ca: readFileSync(authorities.kubelet.certPath),
      cert: readFileSync(leaves["kubelet-client"].certPath),
      key: readFileSync(leaves["kubelet-client"].keyPath),
    };
    this.#clock = clock;
  }

  /** GET `url` over a connection of its own. */
  get(frontend: Frontend, url: string, signal: AbortSignal): Promise<Answer> {
    const client = this.#clients[frontend];
    const startedAtMs = this.#clock.now();
    return new Promise((resolve, reject) => {
      const onResponse = (response: IncomingMessage) => {
        this.#read(response, startedAtMs, resolve, reject);
      };
      const request = url.startsWith("https:")
        ? httpsRequest(url, { agent: client.httpsAgent(this.#kubeletTls), signal }, onResponse)
        : httpRequest(url, { agent: client.httpAgent(), signal }, onResponse);
      // What fails once the answer is complete, such as TLS's farewell, is of no interest.
      request.on("error", reject);
      request.end();
    });
  }

  close(): void {
    for (const client of Object.values(this.#clients)) client.close();
  }

  #read(
    response: IncomingMessage,
    startedAtMs: number,
    resolve: (answer: Answer) => void,
    reject: (error: Error) => void,
  ): void {
    const { socket, headers, statusCode = 0 } = response;
    const certificate = socket instanceof TLSSocket ? peerCertificateNames(socket) : undefined;
    const lines: ArrivedLine[] = [];
    let body = "";
    let rest = "";
    response.setEncoding("utf8");
    response.on("data", (piece: string) => {
      body += piece;
      const complete = (rest + piece).split("\n");
      rest = complete.pop() ?? "";
      const arrival = {
        wallTimeMs: this.#clock.wallTimeMs(),
        elapsedMs: this.#clock.now() - startedAtMs,
      };
      lines.push(...complete.map((text) => ({ text, ...arrival })));
    });
    response.on("error", reject);
    response.once("end", () => {
      resolve({ status: statusCode, headers, body, lines, certificate });
    });
  }
}
