import { request as httpRequest } from "node:http";
import type { Agent, ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { pipeline } from "node:stream";
import type { Duplex } from "node:stream";
import { ClientError } from "@reachback/client";
import type { Client } from "@reachback/client";
import { describeTlsError, joinHostPort } from "@reachback/common";
import { failure } from "../cluster/status.ts";
import type { Status } from "../cluster/status.ts";
import type { Log } from "../program.ts";
import type { Endpoint } from "./route.ts";

/** What the apiserver shows kubelets, and how it knows them; PEM. */
export interface KubeletTls {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** For the client's own `Authorization`, and what is between two neighbours. */
const HEADERS_DROPPED = ["authorization", "host", "keep-alive"];

/** Hands requests on to kubelets and pods; there is no way to them but a Reachback server. */
export class Forwarder {
  readonly #agents: { readonly http: Agent; readonly https: Agent };
  readonly #log: Log;

  constructor(client: Client, kubeletTls: KubeletTls, log: Log) {
    // No sessions are resumed, so that each connection verifies the kubelet's certificate anew.
    const https = client.httpsAgent({ ...kubeletTls, maxCachedSessions: 0 });
    this.#agents = { http: client.httpAgent(), https };
    this.#log = log;
  }

  /** Forward a plain request, and its answer as it comes. `onFailure` if there is none. */
  forward(
    request: IncomingMessage,
    response: ServerResponse,
    endpoint: Endpoint,
    onFailure: (status: Status) => void,
  ): void {
    const outgoing = this.#request(request, endpoint, ["connection", ...HEADERS_DROPPED]);
    let isOver = false;
    response.once("close", () => {
      isOver = true;
      outgoing.destroy();
    });
    // With part of the answer sent, all that can be done is not to let it look complete.
    const cut = (error: Error) => {
      if (isOver) return;
      isOver = true;
      this.#connectionLost(endpoint, error);
      response.destroy();
    };
    outgoing.on("error", (error) => {
      if (response.headersSent) cut(error);
      else if (!isOver) onFailure(this.#dialFailed(endpoint, error));
    });
    outgoing.once("response", (answer) => {
      const headers = pairsOf(answer.rawHeaders).filter(([name]) => !isHopHeader(name));
      response.writeHead(answer.statusCode ?? 502, headers.flat());
      response.flushHeaders();
      pipeline(answer, response, (error) => {
        if (error != null) cut(error);
      });
    });
    pipeline(request, outgoing, () => undefined);
  }

  /** Forward a request to change protocols; from the answer on, bytes go both ways as they are. */
  forwardUpgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    endpoint: Endpoint,
    onFailure: (status: Status) => void,
  ): void {
    const outgoing = this.#request(request, endpoint, HEADERS_DROPPED);
    const onLeave = () => outgoing.destroy();
    socket.once("close", onLeave);
    outgoing.on("error", (error) => {
      if (!socket.destroyed) onFailure(this.#dialFailed(endpoint, error));
    });
    outgoing.once("response", (answer) => {
      const chunks: Buffer[] = [];
      answer.on("data", (chunk: Buffer) => chunks.push(chunk));
      answer.once("end", () => {
        onFailure(failure(answer.statusCode ?? 502, Buffer.concat(chunks).toString().trim()));
      });
    });
    outgoing.once("upgrade", (answer, kubelet, firstBytes) => {
      socket.off("close", onLeave);
      const lines = pairsOf(answer.rawHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
      socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join("")}\r\n`);
      if (firstBytes.length > 0) kubelet.unshift(firstBytes);
      if (head.length > 0) socket.unshift(head);
      this.#join(kubelet, socket, endpoint);
    });
    outgoing.end();
  }

  /** Bytes both ways; what the kubelet said before an orderly end still gets to the client. */
  #join(kubelet: Duplex, client: Duplex, endpoint: Endpoint): void {
    kubelet.pipe(client);
    client.pipe(kubelet);
    kubelet.on("error", (error) => {
      if (!client.destroyed) this.#connectionLost(endpoint, error);
    });
    kubelet.once("close", () => {
      if (kubelet.readableEnded) client.resume();
      else client.destroy();
    });
    client.once("close", () => kubelet.destroy());
  }

  #request(
    request: IncomingMessage,
    { scheme, host, port, path }: Endpoint,
    dropped: readonly string[],
  ): ClientRequest {
    const headers = pairsOf(request.rawHeaders).filter(
      ([name]) => !dropped.includes(name.toLowerCase()),
    );
    headers.push(["Host", joinHostPort(host, port)]);
    const options = { host, port, path, method: request.method, headers: headers.flat() };
    return scheme === "https"
      ? httpsRequest({ ...options, agent: this.#agents.https })
      : httpRequest({ ...options, agent: this.#agents.http });
  }

  #dialFailed({ scheme, host, port }: Endpoint, error: Error): Status {
    const reason = error instanceof ClientError ? error.message : describeTlsError(error, "server");
    const message = `error dialing backend ${scheme}://${joinHostPort(host, port)}: ${reason}`;
    this.#log("dial.failed", { message });
    return failure(500, message);
  }

  #connectionLost({ host, port }: Endpoint, error: Error): void {
    this.#log("connection.lost", { endpoint: joinHostPort(host, port), reason: error.message });
  }
}

function isHopHeader(name: string): boolean {
  return ["connection", "keep-alive", "transfer-encoding"].includes(name.toLowerCase());
}

function pairsOf(rawHeaders: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    pairs.push([rawHeaders[i] ?? "", rawHeaders[i + 1] ?? ""]);
  }
  return pairs;
}
