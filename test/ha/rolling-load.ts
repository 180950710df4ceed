import { once } from "node:events";
import { createServer, get } from "node:http";
import type { Agent as HttpAgent, IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@reachback/client";
import { statusOf } from "../support/cluster.ts";

// Short requests and long downloads through several servers, by a client that does what a balancer
// in front of apiservers does: it prefers those that are ready, and tries once more elsewhere.

const CHUNK_BYTES = 16 * 1024;
const CHUNK_EVERY_MS = 100;
const READY_POLL_MS = 200;
const BURST_EVERY_MS = 50;

/** What downloads are made of, again and again. */
const CHUNK = Buffer.from(Array.from({ length: CHUNK_BYTES }, (_, index) => (index * 31) % 251));

/** Where a server's frontend is, and how it is asked whether it is ready. */
export interface Frontend {
  readonly grpcPath: string;
  readonly healthPort: number;
}

interface Way {
  readonly client: Client;
  readonly agent: HttpAgent;
  readonly healthPort: number;
  isReady: boolean;
}

export interface LoadOptions {
  readonly requestsPerSecond: number;
  readonly downloads: number;
  readonly downloadSeconds: number;
}

/** What has become of everything so far. */
export interface LoadResult {
  requests: number;
  /** First attempts that failed. */
  retried: string[];
  /** Requests that failed twice. */
  failed: string[];
  downloads: number;
  /** Downloads that were not whole. */
  broken: string[];
}

/** Requests and downloads that go on until they are stopped. */
export class RollingLoad {
  readonly result: LoadResult = { requests: 0, retried: [], failed: [], downloads: 0, broken: [] };
  readonly #options: LoadOptions;
  readonly #endpoint: { readonly host: string; readonly port: number };
  readonly #ways = new Map<string, Way>();
  readonly #pending = new Set<Promise<void>>();
  #turn = 0;
  #isStopping = false;

  private constructor(options: LoadOptions, port: number) {
    this.#options = options;
    this.#endpoint = { host: "127.0.0.1", port };
  }

  /** Start the endpoint; nothing is requested yet. */
  static async prepare(t: TestContext, options: LoadOptions): Promise<RollingLoad> {
    const load = new RollingLoad(options, await startEndpoint(t, options.downloadSeconds));
    t.after(() => {
      load.#isStopping = true;
      for (const { client } of load.#ways.values()) client.close();
    });
    return load;
  }

  /** Use this server as the one of that name from now on; what runs through the last one goes on. */
  use(name: string, { grpcPath, healthPort }: Frontend): void {
    const client = new Client({ protocol: "grpc", address: { kind: "unix", path: grpcPath } });
    this.#ways.set(name, { client, agent: client.httpAgent(), healthPort, isReady: true });
  }

  start(): void {
    this.#track(this.#watchReadiness());
    this.#track(this.#requestSteadily());
    for (let index = 0; index < this.#options.downloads; index++)
      this.#track(this.#downloadOn(index));
  }

  /** Begin nothing more; resolves when all that has begun is over. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  async #watchReadiness(): Promise<void> {
    while (!this.#isStopping) {
      for (const way of this.#ways.values()) {
        way.isReady = (await statusOf(way.healthPort, "/readyz").catch(() => 0)) === 200;
      }
      await sleep(READY_POLL_MS);
    }
  }

  async #requestSteadily(): Promise<void> {
    const burst = (this.#options.requestsPerSecond * BURST_EVERY_MS) / 1_000;
    let nextMs = performance.now();
    while (!this.#isStopping) {
      for (let index = 0; index < burst; index++) this.#track(this.#request());
      nextMs += BURST_EVERY_MS;
      await sleep(Math.max(0, nextMs - performance.now()));
    }
  }

  async #request(): Promise<void> {
    const first = this.#choose();
    this.result.requests++;
    try {
      await this.#get(first, "/short", 2);
    } catch (error) {
      this.result.retried.push(String(error));
      await this.#get(this.#choose(first), "/short", 2).catch((second: unknown) => {
        this.result.failed.push(String(second));
      });
    }
  }

  /** One after the other: each runs through what happens meanwhile. */
  async #downloadOn(index: number): Promise<void> {
    const { downloads, downloadSeconds } = this.#options;
    const bytes = downloadBytes(downloadSeconds);
    // Not all at the same moment: at any time some have just begun.
    await sleep((index / downloads) * downloadSeconds * 1_000);
    while (!this.#isStopping) {
      try {
        await this.#get(this.#choose(), "/download", bytes);
        this.result.downloads++;
      } catch (error) {
        this.result.broken.push(String(error));
      }
    }
  }

  /** The next server that is ready, any but `tried` if there is another. */
  #choose(tried?: Way): Way {
    const all = [...this.#ways.values()];
    const ready = all.filter((way) => way.isReady && way !== tried);
    const usable = ready.length > 0 ? ready : all;
    const way = usable[this.#turn++ % usable.length];
    if (way === undefined) throw new Error("no server to use");
    return way;
  }

  /** @throws unless the answer is whole. */
  async #get({ agent }: Way, path: string, expectedBytes: number): Promise<void> {
    const request = get({ ...this.#endpoint, path, agent });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    let bytes = 0;
    for await (const piece of response as AsyncIterable<Buffer>) {
      if (path === "/download") requirePattern(piece, bytes);
      bytes += piece.length;
    }
    if (bytes !== expectedBytes || response.statusCode !== 200) {
      throw new Error(`${path}: ${bytes} of ${expectedBytes} bytes`);
    }
  }

  #track(task: Promise<void>): void {
    this.#pending.add(task);
    void task.finally(() => this.#pending.delete(task));
  }
}

function downloadBytes(seconds: number): number {
  return Math.ceil((seconds * 1_000) / CHUNK_EVERY_MS) * CHUNK_BYTES;
}

function requirePattern(piece: Buffer, offset: number): void {
  for (let at = 0; at < piece.length;) {
    const start = (offset + at) % CHUNK_BYTES;
    const length = Math.min(piece.length - at, CHUNK_BYTES - start);
    if (piece.compare(CHUNK, start, start + length, at, at + length) !== 0) {
      throw new Error(`wrong bytes behind ${offset + at}`);
    }
    at += length;
  }
}

/** An HTTP server with `/short`, and `/download`, which takes `seconds`. */
async function startEndpoint(t: TestContext, seconds: number): Promise<number> {
  const server = createServer((request, response) => {
    if (request.url === "/short") {
      response.end("ok");
      return;
    }
    let left = downloadBytes(seconds);
    response.setHeader("content-length", left);
    const timer = setInterval(() => {
      response.write(CHUNK);
      left -= CHUNK_BYTES;
      if (left === 0) response.end();
    }, CHUNK_EVERY_MS);
    response.once("finish", () => {
      clearInterval(timer);
    });
    response.once("close", () => {
      clearInterval(timer);
    });
  });
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, "127.0.0.1", 1_024);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
