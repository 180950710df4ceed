import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";
import { WebSocket } from "ws";
import type { RawData } from "ws";
import type { Status } from "../cluster/status.ts";
import { encodeData, encodeOpen, readFrames } from "../spdy/frames.ts";
import { HeaderCompressor } from "../spdy/header-block.ts";

/** How a command in a container ended. */
export interface CommandResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** After this long without an answer a request fails. */
const TIMEOUT_MS = 15_000;

/** Asks an apiserver for what `kubectl` asks it for. */
export class ApiClient {
  readonly #url: URL;
  readonly #ca: Buffer;
  readonly #headers: Readonly<Record<string, string>>;

  /**
   * @param kubeconfigPath - As the demo's apiserver writes it.
   * @param url - Where the apiserver is, if not where the kubeconfig says; empty if it is.
   */
  constructor(kubeconfigPath: string, url: string) {
    const { clusters, users } = JSON.parse(readFileSync(kubeconfigPath, "utf8")) as Kubeconfig;
    const [{ cluster }] = clusters;
    this.#url = new URL(url === "" ? cluster.server : url);
    this.#ca = Buffer.from(cluster["certificate-authority-data"], "base64");
    this.#headers = { authorization: `Bearer ${users[0].user.token}` };
  }

  /** `kubectl get --raw`: the body of a 200. */
  async get(path: string): Promise<string> {
    const answer = await this.#answer({ path });
    const body = await textOf(answer);
    if (answer.statusCode === 200) return body;
    throw new Error(`${answer.statusCode ?? 0}: ${messageOf(body)}`);
  }

  /** `kubectl logs --follow`, until there are so many lines. */
  async followLog(path: string, lineCount: number): Promise<string[]> {
    const answer = await this.#answer({ path: `${path}?follow=true` });
    if (answer.statusCode !== 200) throw new Error(messageOf(await textOf(answer)));
    const lines: string[] = [];
    for await (const line of createInterface(answer)) {
      lines.push(line);
      if (lines.length === lineCount) break;
    }
    answer.destroy();
    return lines;
  }

  /** `kubectl exec`, over a WebSocket. */
  exec(path: string, command: readonly string[]): Promise<CommandResult> {
    const url = new URL(path, this.#url);
    url.protocol = "wss:";
    url.searchParams.set("stdout", "true");
    url.searchParams.set("stderr", "true");
    for (const word of command) url.searchParams.append("command", word);
    const socket = new WebSocket(url, ["v5.channel.k8s.io"], {
      ca: this.#ca,
      headers: this.#headers,
      handshakeTimeout: TIMEOUT_MS,
    });
    const output = ["", "", "", ""];
    socket.on("message", (data: RawData) => {
      const message = data as Buffer;
      const channel = message[0] ?? 0;
      output[channel] = `${output[channel] ?? ""}${message.subarray(1).toString()}`;
    });
    return new Promise((resolve, reject) => {
      socket.once("error", reject);
      socket.once("unexpected-response", (_request, answer) => {
        rejectWithMessage(answer, reject);
      });
      socket.once("close", (code) => {
        const [, stdout = "", stderr = "", error = ""] = output;
        if (error === "") reject(new Error(`the WebSocket was closed with ${code}`));
        else resolve({ stdout, stderr, exitCode: exitCodeOf(JSON.parse(error) as Status) });
      });
    });
  }

  /** `kubectl port-forward`, over SPDY/3.1: send bytes to a pod's port, get all that comes back. */
  async portForward(path: string, port: number, bytes: Buffer): Promise<string> {
    const socket = await this.#upgrade({
      path,
      method: "POST",
      headers: {
        ...this.#headers,
        connection: "Upgrade",
        upgrade: "SPDY/3.1",
        "x-stream-protocol-version": "portforward.k8s.io",
      },
    });
    const headers = new HeaderCompressor();
    const [errors, data] = [1, 3];
    const open = (streamId: number, streamtype: string) => {
      const block = headers.compress({ streamtype, port: String(port), requestid: "0" });
      socket.write(encodeOpen(streamId, block));
    };
    open(errors, "error");
    open(data, "data");
    socket.write(encodeData(data, bytes, false));

    let answer = "";
    let failure = "";
    const ended = new Set<number>();
    for await (const frame of readFrames(socket)) {
      if (frame.type === "reset") throw new Error("the kubelet reset the stream");
      if (frame.type !== "data") continue;
      if (frame.streamId === data) answer += frame.payload.toString();
      else failure += frame.payload.toString();
      if (frame.isLast) ended.add(frame.streamId);
      if (ended.size === 2) break;
    }
    socket.destroy();
    if (failure !== "") throw new Error(failure);
    return answer;
  }

  #request(options: RequestOptions) {
    const { hostname: host, port } = this.#url;
    const request = httpsRequest({
      host,
      port,
      ca: this.#ca,
      headers: this.#headers,
      timeout: TIMEOUT_MS,
      ...options,
    });
    request.on("timeout", () => {
      request.destroy(new Error(`no answer for ${TIMEOUT_MS / 1_000} s`));
    });
    return request;
  }

  #answer(options: RequestOptions): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      this.#request(options).once("response", resolve).once("error", reject).end();
    });
  }

  #upgrade(options: RequestOptions): Promise<Duplex> {
    return new Promise((resolve, reject) => {
      this.#request(options)
        .once("upgrade", (_answer, socket, head) => {
          if (head.length > 0) socket.unshift(head);
          resolve(socket);
        })
        .once("response", (answer) => {
          rejectWithMessage(answer, reject);
        })
        .once("error", reject)
        .end();
    });
  }
}

interface Kubeconfig {
  readonly clusters: readonly [
    { cluster: { readonly server: string; readonly "certificate-authority-data": string } },
  ];
  readonly users: readonly [{ user: { readonly token: string } }];
}

async function textOf(answer: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString();
}

function rejectWithMessage(answer: IncomingMessage, reject: (error: Error) => void): void {
  textOf(answer).then((body) => {
    reject(new Error(messageOf(body)));
  }, reject);
}

/** What a failure says, of the document that it comes as. */
function messageOf(body: string): string {
  try {
    return (JSON.parse(body) as Status).message ?? body;
  } catch {
    return body;
  }
}

function exitCodeOf({ status, details, message = "" }: Status): number {
  if (status === "Success") return 0;
  const { causes = [] } = (details ?? {}) as { causes?: { reason: string; message: string }[] };
  const cause = causes.find(({ reason }) => reason === "ExitCode");
  if (cause === undefined) throw new Error(message);
  return Number(cause.message);
}
