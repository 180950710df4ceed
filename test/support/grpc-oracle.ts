import { fileURLToPath } from "node:url";
import {
  Server,
  ServerCredentials,
  credentials,
  loadPackageDefinition,
  makeGenericClientConstructor,
} from "@grpc/grpc-js";
import type {
  ChannelCredentials,
  ClientDuplexStream,
  ClientOptions,
  Metadata,
  ServerDuplexStream,
  ServiceDefinition,
  Client,
} from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

// @grpc/grpc-js and proto-loader: an implementation of gRPC and of protobuf that is not ours. What
// we say to it, and what it says to us, is how the carrier is known to speak the real protocol.

/** A packet as proto-loader shows it; ids are decimal strings. */
export interface OraclePacket {
  type: string;
  dialRequest?: { protocol?: string; address?: string; random?: string } | null;
  dialResponse?: { error?: string; connectID?: string; random?: string } | null;
  data?: { connectID?: string; data?: Buffer } | null;
  closeRequest?: { connectID?: string } | null;
  closeResponse?: { error?: string; connectID?: string } | null;
  closeDial?: { random?: string } | null;
  drain?: object | null;
}

const PROTO = fileURLToPath(new URL("../../proto/tunnel.proto", import.meta.url));
const definition = loadPackageDefinition(
  loadSync(PROTO, { longs: String, enums: String, bytes: Buffer, defaults: true, oneofs: true }),
) as unknown as Record<"ProxyService" | "AgentService", { service: ServiceDefinition }>;

export type OracleCall = ClientDuplexStream<OraclePacket, OraclePacket>;
export type OracleServerCall = ServerDuplexStream<OraclePacket, OraclePacket>;

/** A call whose messages are the bytes of the wire, without gRPC's prefix. */
export type OracleRawCall = ClientDuplexStream<Buffer, Buffer>;

const packetFormat = definition.ProxyService.service["Proxy"];
if (packetFormat === undefined) throw new Error("the proto has no method Proxy");

/** The bytes that proto-loader makes of a packet. */
export const encodePacket = packetFormat.requestSerialize as (
  packet: Partial<OraclePacket>,
) => Buffer;

/** What proto-loader reads in the bytes of a packet. */
export const decodePacket = packetFormat.responseDeserialize as (bytes: Buffer) => OraclePacket;

/** grpc-js as the client of one service. Close it with `close()`. */
export class OracleClient {
  readonly #client: Client;
  readonly #method: string;
  readonly #service: ServiceDefinition;

  constructor(
    service: "ProxyService" | "AgentService",
    address: string,
    channel: ChannelCredentials = credentials.createInsecure(),
    options: ClientOptions = {},
  ) {
    this.#service = definition[service].service;
    this.#method = service === "ProxyService" ? "Proxy" : "Connect";
    const Constructor = makeGenericClientConstructor(this.#service, service);
    this.#client = new Constructor(address, channel, options);
  }

  /** Start a call. Errors reach the `error` event, which must be listened to. */
  call(metadata?: Metadata): OracleCall {
    const method = this.#service[this.#method];
    if (method === undefined) throw new Error(`no method ${this.#method}`);
    const call = this.#client.makeBidiStreamRequest<OraclePacket, OraclePacket>(
      method.path,
      method.requestSerialize as (packet: OraclePacket) => Buffer,
      method.responseDeserialize as (bytes: Buffer) => OraclePacket,
      ...((metadata === undefined ? [] : [metadata]) as [Metadata]),
    );
    return call;
  }

  /** {@link call}, with messages as they are on the wire. */
  rawCall(metadata: Metadata, path: string = this.#path): OracleRawCall {
    return this.#client.makeBidiStreamRequest<Buffer, Buffer>(
      path,
      (bytes) => bytes,
      (bytes) => bytes,
      metadata,
    );
  }

  get #path(): string {
    return this.#service[this.#method]?.path ?? "";
  }

  close(): void {
    this.#client.close();
  }
}

/** grpc-js as a server of one service; `onCall` gets every call. */
export async function startOracleServer(
  service: "ProxyService" | "AgentService",
  address: string,
  onCall: (call: OracleServerCall) => void,
  serverCredentials: ServerCredentials = ServerCredentials.createInsecure(),
): Promise<{ server: Server; port: number }> {
  const server = new Server();
  const method = service === "ProxyService" ? "Proxy" : "Connect";
  server.addService(definition[service].service, { [method]: onCall });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(address, serverCredentials, (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  return { server, port };
}
