import type { TestContext } from "node:test";
import { Metadata, credentials } from "@grpc/grpc-js";
import type { ChannelCredentials, StatusObject } from "@grpc/grpc-js";
import { OracleClient, decodePacket, encodePacket } from "./grpc-oracle.ts";
import type { OraclePacket, OracleRawCall } from "./grpc-oracle.ts";
import { WORKERS } from "./cluster.ts";
import { scrape } from "./gauges.ts";
import { createTestPki } from "./pki.ts";
import type { TestCertificate } from "./pki.ts";

// Frontends and agents that follow a script: each packet they send is written in the test, each one
// they get is asked for. They are grpc-js underneath, so they share no code with what they test.

/** Ids are decimal strings where they do not fit a number. */
type Id = number | string;

export const packets = {
  dial: (random: Id, address = "endpoint:80", protocol = "tcp"): Partial<OraclePacket> => ({
    type: "DIAL_REQ",
    dialRequest: { protocol, address, random: String(random) },
  }),
  dialed: (random: Id, connectID: Id): Partial<OraclePacket> => ({
    type: "DIAL_RSP",
    dialResponse: { connectID: String(connectID), random: String(random) },
  }),
  dialFailed: (random: Id, error: string): Partial<OraclePacket> => ({
    type: "DIAL_RSP",
    dialResponse: { error, random: String(random) },
  }),
  dialClose: (random: Id): Partial<OraclePacket> => ({
    type: "DIAL_CLS",
    closeDial: { random: String(random) },
  }),
  data: (connectID: Id, data: Buffer | string): Partial<OraclePacket> => ({
    type: "DATA",
    data: { connectID: String(connectID), data: Buffer.from(data) },
  }),
  close: (connectID: Id): Partial<OraclePacket> => ({
    type: "CLOSE_REQ",
    closeRequest: { connectID: String(connectID) },
  }),
  closed: (connectID: Id, error = ""): Partial<OraclePacket> => ({
    type: "CLOSE_RSP",
    closeResponse: { connectID: String(connectID), error },
  }),
  drain: (): Partial<OraclePacket> => ({ type: "DRAIN", drain: {} }),
};

/** A packet in one line: `DIAL_RSP 111 id 1`, `CLOSE_RSP 1 "agent connection lost"`. */
export function packetText(packet: OraclePacket): string {
  const { type, dialRequest, dialResponse, data, closeRequest, closeResponse, closeDial } = packet;
  const quoted = (error = "") => (error === "" ? [] : [JSON.stringify(error)]);
  const parts = {
    DIAL_REQ: [dialRequest?.random, dialRequest?.protocol, dialRequest?.address],
    DIAL_RSP: [
      dialResponse?.random,
      ...(dialResponse?.connectID === "0" ? [] : ["id", dialResponse?.connectID]),
      ...quoted(dialResponse?.error),
    ],
    DATA: [data?.connectID, JSON.stringify(String(data?.data ?? ""))],
    CLOSE_REQ: [closeRequest?.connectID],
    CLOSE_RSP: [closeResponse?.connectID, ...quoted(closeResponse?.error)],
    DIAL_CLS: [closeDial?.random],
  }[type];
  return [type, ...(parts ?? [])].join(" ");
}

const PATIENCE_MS = 10_000;

/** A `Proxy` or `Connect` call, driven by a test. */
export class PacketStream {
  /** Initial metadata; rejects if the call is refused. */
  readonly headers: Promise<Metadata>;
  readonly status: Promise<StatusObject>;
  readonly #call: OracleRawCall;
  readonly #received: Buffer[] = [];
  #wanted: ((bytes: Buffer) => void) | undefined;
  #onPacket: ((packet: OraclePacket) => void) | undefined;

  constructor(call: OracleRawCall) {
    this.#call = call;
    this.status = new Promise((resolve) => call.once("status", resolve));
    this.headers = new Promise((resolve, reject) => {
      call.once("metadata", resolve);
      call.once("status", ({ code, details }) => {
        reject(new Error(`refused: ${code} ${details}`));
      });
    });
    this.headers.catch(() => undefined);
    call.on("error", () => undefined);
    call.on("data", (bytes: Buffer) => {
      const wanted = this.#wanted;
      this.#wanted = undefined;
      if (this.#onPacket !== undefined) this.#onPacket(decodePacket(bytes));
      else if (wanted === undefined) this.#received.push(bytes);
      else wanted(bytes);
    });
  }

  send(...toSend: Partial<OraclePacket>[]): this {
    for (const packet of toSend) this.#call.write(encodePacket(packet));
    return this;
  }

  /** Send a message as it is; returns false when grpc-js has enough, see {@link drained}. */
  sendBytes(bytes: Buffer): boolean {
    return this.#call.write(bytes);
  }

  drained(): Promise<void> {
    return new Promise((resolve) => this.#call.once("drain", resolve));
  }

  /** The next message, as hex. */
  async nextHex(): Promise<string> {
    return (await this.#next()).toString("hex");
  }

  async nextPacket(): Promise<OraclePacket> {
    return decodePacket(await this.#next());
  }

  /** The next packet in one line, see {@link packetText}. */
  async next(): Promise<string> {
    return packetText(await this.nextPacket());
  }

  /** Packets that came and were not asked for yet, in one line each. */
  get unread(): string[] {
    return this.#received.map((bytes) => packetText(decodePacket(bytes)));
  }

  /** From now on, hand each packet to `onPacket`; with what came before. */
  serve(onPacket: (packet: OraclePacket) => void): this {
    this.#onPacket = onPacket;
    for (const bytes of this.#received.splice(0)) onPacket(decodePacket(bytes));
    return this;
  }

  /** Stop taking messages, so that the server's window fills. */
  pause(): void {
    this.#call.pause();
  }

  resume(): void {
    this.#call.resume();
  }

  /** Half-close: nothing more is sent, the server has the last word. */
  end(): void {
    this.#call.end();
  }

  /**
   * RST_STREAM, as Go's client ends a connection. Node finishes sending first where it can, which Go
   * does not: to the server the client has left, and not failed.
   */
  cancel(): void {
    this.#call.cancel();
  }

  #next(): Promise<Buffer> {
    const [first] = this.#received.splice(0, 1);
    if (first !== undefined) return Promise.resolve(first);
    // Made here, so that its stack says which packet the test waits for.
    const late = new Error("no packet came");
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#wanted = undefined;
        reject(late);
      }, PATIENCE_MS);
      this.#wanted = (bytes) => {
        clearTimeout(timer);
        resolve(bytes);
      };
    });
  }
}

export interface AgentCall {
  /** Values of `agentid`; usually one. @defaultValue `["agent-1"]` */
  readonly agentId?: string | readonly string[];
  /** Values of `agentidentifiers`. @defaultValue none */
  readonly identifiers?: string | readonly string[];
  /** What it knows beyond upstream's protocol. @defaultValue nothing */
  readonly extensions?: string;
  /** Where the server's agent port is reached, if not directly. */
  readonly port?: number;
  /** @defaultValue `/AgentService/Connect` */
  readonly path?: string;
  /** @defaultValue mutual TLS */
  readonly channel?: ChannelCredentials;
}

/** Open a tunnel, as an agent would, without waiting for what the server says to it. */
export function callAsAgent(
  t: TestContext,
  server: { readonly agentPort: number },
  {
    agentId = "agent-1",
    identifiers = [],
    extensions,
    port = server.agentPort,
    path,
    channel,
  }: AgentCall = {},
): PacketStream {
  const pki = createTestPki();
  const client = newClient(
    t,
    "AgentService",
    `127.0.0.1:${port}`,
    channel ?? tlsCredentials(pki.agentCa, pki.agentClient),
  );
  const metadata = new Metadata();
  for (const value of [agentId].flat()) metadata.add("agentid", value);
  for (const value of [identifiers].flat()) metadata.add("agentidentifiers", value);
  if (extensions !== undefined) metadata.add("reachback-extensions", extensions);
  return new PacketStream(client.rawCall(metadata, path));
}

/** Open a tunnel, as an agent would; resolves once all workers of the server know of the agent. */
export async function connectAsAgent(
  t: TestContext,
  server: { readonly agentPort: number; readonly healthPort: number },
  call: AgentCall = {},
): Promise<PacketStream> {
  const stream = callAsAgent(t, server, call);
  await stream.headers;
  if (WORKERS > 1) {
    // A scrape asks every worker, behind all that each was told before. So after the first the primary
    // has heard of the agent from the worker that took it, after the second all others have.
    await scrape(server.healthPort);
    await scrape(server.healthPort);
  }
  return stream;
}

/** Which gRPC frontend to use: the Unix socket, or mutual TLS on TCP. */
export type Transport = "unix" | "tls";

export interface FrontendPlace {
  readonly grpcPath: string;
  readonly grpcPort: number;
  /** Plain text on this port of loopback instead: a relay to the Unix socket. */
  readonly relayPort?: number;
}

/** A gRPC frontend's connection, which takes any number of `Proxy` streams. */
export function connectAsFrontend(
  t: TestContext,
  { grpcPath, grpcPort, relayPort }: FrontendPlace,
  transport: Transport = "unix",
): { open(path?: string): PacketStream; close(): void } {
  const pki = createTestPki();
  const plainAddress = relayPort === undefined ? `unix:${grpcPath}` : `127.0.0.1:${relayPort}`;
  const client =
    transport === "unix"
      ? newClient(t, "ProxyService", plainAddress, credentials.createInsecure())
      : newClient(
          t,
          "ProxyService",
          `127.0.0.1:${grpcPort}`,
          tlsCredentials(pki.frontendCa, pki.frontendClient),
        );
  return {
    open: (path) => new PacketStream(client.rawCall(new Metadata(), path)),
    close: () => {
      client.close();
    },
  };
}

/** One `Proxy` stream on a connection of its own, as kube-apiserver opens them. */
export function openProxy(
  t: TestContext,
  server: FrontendPlace,
  transport: Transport = "unix",
): PacketStream {
  return connectAsFrontend(t, server, transport).open();
}

function newClient(
  t: TestContext,
  service: "ProxyService" | "AgentService",
  address: string,
  channel: ChannelCredentials,
): OracleClient {
  // Without its own pool, a client shares the connection of the one before it.
  const client = new OracleClient(service, address, channel, {
    "grpc.use_local_subchannel_pool": 1,
  });
  t.after(() => {
    client.close();
  });
  return client;
}

function tlsCredentials(ca: TestCertificate, own: TestCertificate): ChannelCredentials {
  return credentials.createSsl(Buffer.from(ca.cert), Buffer.from(own.key), Buffer.from(own.cert));
}
