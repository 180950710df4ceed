import type { TestContext } from "node:test";
import { Metadata, Server, ServerCredentials } from "@grpc/grpc-js";
import type { ServerDuplexStream } from "@grpc/grpc-js";
import { decodePacket, encodePacket } from "./grpc-oracle.ts";
import type { OraclePacket } from "./grpc-oracle.ts";
import { packetText } from "./packet-stream.ts";
import { createTestPki } from "./pki.ts";
import type { TestCertificate } from "./pki.ts";

// Servers that follow a script, for agents to connect to. grpc-js underneath, so they share no code
// with what they test.

type RawServerCall = ServerDuplexStream<Buffer, Buffer>;

const PATIENCE_MS = 10_000;

/** What came from one connection until it was closed. */
export interface CollectedConnection {
  readonly bytes: Buffer;
  readonly error: string;
  /** Of the DATA packets. */
  readonly smallestBytes: number;
  readonly largestBytes: number;
}

/** An agent's tunnel, as the server has it; what it sends is written in the test. */
export class AgentTunnel {
  readonly call: RawServerCall;
  /** Resolves when the agent has finished sending, or the tunnel is over. */
  readonly ended: Promise<void>;
  isEnded = false;
  readonly #received: Buffer[] = [];
  #wanted: ((bytes: Buffer) => void) | undefined;
  #onPacket: ((packet: OraclePacket, bytes: Buffer) => void) | undefined;

  constructor(call: RawServerCall, answersEnd: boolean) {
    this.call = call;
    this.ended = new Promise((resolve) => {
      const over = () => {
        this.isEnded = true;
        resolve();
      };
      call.once("end", () => {
        if (answersEnd) call.end();
        over();
      });
      call.once("cancelled", over);
    });
    call.on("error", () => undefined);
    call.on("data", (bytes: Buffer) => {
      const wanted = this.#wanted;
      this.#wanted = undefined;
      if (this.#onPacket !== undefined) this.#onPacket(decodePacket(bytes), bytes);
      else if (wanted === undefined) this.#received.push(bytes);
      else wanted(bytes);
    });
  }

  /** A value of the agent's metadata. */
  header(name: string): string | undefined {
    return this.call.metadata.get(name)[0]?.toString();
  }

  send(...packets: Partial<OraclePacket>[]): this {
    for (const packet of packets) this.call.write(encodePacket(packet));
    return this;
  }

  /** Send a message as it is, in hex. */
  sendHex(hex: string): this {
    this.call.write(Buffer.from(hex, "hex"));
    return this;
  }

  /** Send a packet; resolves when grpc-js takes more. */
  async sendPaced(packet: Partial<OraclePacket>): Promise<void> {
    if (this.call.write(encodePacket(packet))) return;
    await new Promise((resolve) => this.call.once("drain", resolve));
  }

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
  serve(onPacket: (packet: OraclePacket, bytes: Buffer) => void): this {
    this.#onPacket = onPacket;
    for (const bytes of this.#received.splice(0)) onPacket(decodePacket(bytes), bytes);
    return this;
  }

  /**
   * Everything that comes until the connection is closed, and the error of its CLOSE_RSP. Packets of
   * other connections are dropped.
   */
  collect(connectionId: number): Promise<CollectedConnection> {
    const id = String(connectionId);
    const pieces: Buffer[] = [];
    return new Promise((resolve) => {
      this.serve(({ data, closeResponse }) => {
        if (data?.connectID === id) {
          pieces.push(data.data ?? Buffer.alloc(0));
        } else if (closeResponse?.connectID === id) {
          const sizes = pieces.map(({ length }) => length);
          resolve({
            bytes: Buffer.concat(pieces),
            error: closeResponse.error ?? "",
            smallestBytes: Math.min(...sizes),
            largestBytes: Math.max(...sizes),
          });
        }
      });
    });
  }

  /** Ask for packets one by one again. */
  stopServing(): void {
    this.#onPacket = undefined;
  }

  /** End with status OK. */
  end(): void {
    this.call.end();
  }

  fail(code: number, details: string): void {
    this.call.emit("error", { code, details });
  }

  #next(): Promise<Buffer> {
    const [first] = this.#received.splice(0, 1);
    if (first !== undefined) return Promise.resolve(first);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#wanted = undefined;
        reject(new Error("no packet came"));
      }, PATIENCE_MS);
      this.#wanted = (bytes) => {
        clearTimeout(timer);
        resolve(bytes);
      };
    });
  }
}

export interface AgentServerOptions {
  /** Values of `serverid`. @defaultValue `["server-1"]` */
  readonly serverId?: string | readonly string[];
  /** Values of `servercount`. @defaultValue `["1"]` */
  readonly serverCount?: string | readonly string[];
  /** @defaultValue any free one */
  readonly port?: number;
  /** @defaultValue the agent listener's, from the test PKI */
  readonly certificate?: TestCertificate;
  /** Whether clients need a certificate. @defaultValue true */
  readonly wantsCertificate?: boolean;
  /** Whether an agent's end is answered with status OK. @defaultValue true */
  readonly answersEnd?: boolean;
  /** Takes the call instead of accepting it. */
  readonly onCall?: (call: RawServerCall) => void;
}

/** A grpc-js server that agents can open tunnels to. */
export class AgentServer {
  serverId: readonly string[];
  serverCount: readonly string[];
  /** Every tunnel that was accepted, in order. */
  readonly tunnels: AgentTunnel[] = [];
  callCount = 0;
  readonly #server = new Server();
  readonly #options: AgentServerOptions;
  #port = 0;
  #takenCount = 0;
  #onTunnel: (() => void) | undefined;

  constructor(options: AgentServerOptions) {
    this.#options = options;
    this.serverId = [options.serverId ?? "server-1"].flat();
    this.serverCount = [options.serverCount ?? "1"].flat();
    const identity = (bytes: Buffer) => bytes;
    this.#server.addService(
      {
        Connect: {
          path: "/AgentService/Connect",
          requestStream: true,
          responseStream: true,
          requestSerialize: identity,
          requestDeserialize: identity,
          responseSerialize: identity,
          responseDeserialize: identity,
        },
      },
      {
        Connect: (call: RawServerCall) => {
          this.#called(call);
        },
      },
    );
  }

  get port(): number {
    return this.#port;
  }

  async listen(): Promise<void> {
    const { agentCa, serverAgent } = createTestPki();
    const { certificate = serverAgent, wantsCertificate = true, port = 0 } = this.#options;
    const credentials = ServerCredentials.createSsl(
      Buffer.from(agentCa.cert),
      [
        {
          cert_chain: Buffer.from(certificate.cert),
          private_key: Buffer.from(certificate.key),
        },
      ],
      wantsCertificate,
    );
    this.#port = await new Promise((resolve, reject) => {
      this.#server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
  }

  /** The next tunnel that has not been asked for. */
  async next(): Promise<AgentTunnel> {
    const tunnel = this.tunnels[this.#takenCount];
    if (tunnel !== undefined) {
      this.#takenCount++;
      return tunnel;
    }
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(new Error("no tunnel came"));
      }, PATIENCE_MS);
      this.#onTunnel = () => {
        clearTimeout(timer);
        this.#onTunnel = undefined;
        resolve();
      };
    });
    return this.next();
  }

  /** Close the listener and every connection at once. */
  stop(): void {
    this.#server.forceShutdown();
  }

  /** Send GOAWAY and take no new connections; tunnels live on. */
  leave(): void {
    this.#server.tryShutdown(() => undefined);
  }

  #called(call: RawServerCall): void {
    this.callCount++;
    if (this.#options.onCall !== undefined) {
      call.on("error", () => undefined);
      this.#options.onCall(call);
      return;
    }
    const metadata = new Metadata();
    for (const value of this.serverId) metadata.add("serverid", value);
    for (const value of this.serverCount) metadata.add("servercount", value);
    call.sendMetadata(metadata);
    this.tunnels.push(new AgentTunnel(call, this.#options.answersEnd ?? true));
    this.#onTunnel?.();
  }
}

/** Start a server for agents; it is stopped when the test ends. */
export async function startAgentServer(
  t: TestContext,
  options: AgentServerOptions = {},
): Promise<AgentServer> {
  const server = new AgentServer(options);
  t.after(() => {
    server.stop();
  });
  await server.listen();
  return server;
}
