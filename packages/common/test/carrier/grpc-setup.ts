import { mkdtempSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { ServerCredentials, credentials } from "@grpc/grpc-js";
import type { ChannelCredentials } from "@grpc/grpc-js";
import { createTestPki } from "../../../../test/support/pki.ts";
import type { Carrier, CarrierCounters } from "../../src/carrier/carrier.ts";
import { GrpcClientCarrier } from "../../src/carrier/grpc-client-carrier.ts";
import type { GrpcCallTarget, GrpcClientHandler } from "../../src/carrier/grpc-client-carrier.ts";
import { systemClock } from "../../src/clock.ts";
import type { Clock } from "../../src/clock.ts";
import { GrpcServer } from "../../src/grpc/grpc-server.ts";
import type { GrpcMethod, GrpcServices } from "../../src/grpc/grpc-service.ts";
import type { GrpcStatus } from "../../src/grpc/grpc-status.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { Http2Connection } from "../../src/http2/http2-connection.ts";
import type { Http2Limits } from "../../src/http2/http2-limits.ts";
import { connectSocket } from "../../src/net/connect-socket.ts";
import type { ConnectAddress } from "../../src/net/connect-socket.ts";
import { SocketListener } from "../../src/net/socket-listener.ts";
import type { ConnectionId, ControlPacket } from "../../src/packet/packet.ts";

export const LIMITS: Http2Limits = {
  streamWindowBytes: 1024 * 1024,
  connectionWindowBytes: 16 * 1024 * 1024,
  maxFrameBytes: 65 * 1024,
  maxStreams: 16_384,
  maxHeaderListBytes: 64 * 1024,
  writeHighWaterBytes: 256 * 1024,
};

export const UNCOUNTED: CarrierCounters = {
  sent: { count: () => undefined },
  received: { count: () => undefined },
};

/** A DATA packet as it arrived, its pieces put together. */
export interface ReceivedData {
  readonly connectionId: ConnectionId;
  bytes: Buffer;
}

/** The owner of a carrier, which writes down what it is told. */
export class RecordedOwner implements GrpcClientHandler {
  carrier: Carrier | undefined;
  readonly packets: (ControlPacket | ReceivedData)[] = [];
  readonly events: string[] = [];
  receivedBytes = 0;
  /** Whether the bytes of DATA are kept, or only counted. */
  keepsData = true;
  onControl: (packet: ControlPacket) => void = () => undefined;
  onData: (connectionId: ConnectionId, piece: Buffer) => void = () => undefined;
  onDrained: () => void = () => undefined;
  onEnded: () => void = () => undefined;
  readonly whenOpened: Promise<HeaderList>;
  readonly whenClosed: Promise<GrpcStatus>;
  #resolveOpened: (metadata: HeaderList) => void = () => undefined;
  #resolveClosed: (status: GrpcStatus) => void = () => undefined;

  constructor() {
    this.whenOpened = new Promise((resolve) => {
      this.#resolveOpened = resolve;
    });
    this.whenClosed = new Promise((resolve) => {
      this.#resolveClosed = resolve;
    });
  }

  opened(metadata: HeaderList): void {
    this.events.push("opened");
    this.#resolveOpened(metadata);
  }

  control(packet: ControlPacket): void {
    this.packets.push(packet);
    this.onControl(packet);
  }

  data(connectionId: ConnectionId, piece: Buffer, first: boolean): void {
    this.receivedBytes += piece.length;
    if (this.keepsData) {
      const last = this.packets.at(-1);
      if (first || last === undefined || !("bytes" in last) || "type" in last) {
        this.packets.push({ connectionId, bytes: Buffer.from(piece) });
      } else {
        last.bytes = Buffer.concat([last.bytes, piece]);
      }
    }
    this.onData(connectionId, piece);
  }

  sent(): void {
    // Of no interest here.
  }

  drained(): void {
    this.events.push("drained");
    this.onDrained();
  }

  ended(): void {
    this.events.push("ended");
    this.onEnded();
  }

  closed(status: GrpcStatus): void {
    this.events.push(`closed ${status.code} ${status.message}`.trim());
    this.#resolveClosed(status);
  }
}

/** A way for two programs on one machine to reach each other. */
export interface Transport {
  readonly name: string;
  /** A server of ours; `accept` gets its sockets. */
  listen(t: TestContext, accept: (socket: Socket) => void): Promise<Listening>;
  /** For a server of grpc-js. */
  oracleServer(t: TestContext): { address: string; credentials: ServerCredentials };
  /** To such a server. */
  connectToOracle(address: string, port: number): Promise<Socket>;
}

export interface Listening {
  /** For clients of grpc-js. */
  readonly oracleAddress: string;
  readonly oracleCredentials: ChannelCredentials;
  readonly connect: () => Promise<Socket>;
}

export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "reachback-"));
  t.after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

function connectWithTls(port: number): Promise<Socket> {
  const { agentCa, agentClient } = createTestPki();
  return connect(
    { kind: "tcp", host: "127.0.0.1", port },
    {
      ca: agentCa.cert,
      cert: agentClient.cert,
      key: agentClient.key,
      ALPNProtocols: ["h2"],
    },
  );
}

function connect(
  address: ConnectAddress,
  tls?: NonNullable<Parameters<typeof connectSocket>[0]["tls"]>,
): Promise<Socket> {
  return connectSocket({
    address,
    timeoutMs: 10_000,
    clock: systemClock,
    ...(tls === undefined ? {} : { tls }),
  });
}

export const OVER_TLS: Transport = {
  name: "TLS",

  async listen(t, accept) {
    const { agentCa, serverAgent, agentClient } = createTestPki();
    const listener = await SocketListener.open(
      {
        address: { kind: "tcp", host: "127.0.0.1", port: 0 },
        tls: {
          cert: serverAgent.cert,
          key: serverAgent.key,
          ca: agentCa.cert,
          requestCert: true,
          rejectUnauthorized: true,
          ALPNProtocols: ["h2"],
        },
        requiredAlpn: "h2",
        handshakeTimeoutMs: 10_000,
      },
      { accepted: accept, rejected: () => undefined },
    );
    t.after(() => {
      listener.destroy();
    });
    return {
      oracleAddress: `127.0.0.1:${listener.port}`,
      oracleCredentials: credentials.createSsl(
        Buffer.from(agentCa.cert),
        Buffer.from(agentClient.key),
        Buffer.from(agentClient.cert),
      ),
      connect: () => connectWithTls(listener.port),
    };
  },

  oracleServer() {
    const { agentCa, serverAgent } = createTestPki();
    const keyPair = {
      private_key: Buffer.from(serverAgent.key),
      cert_chain: Buffer.from(serverAgent.cert),
    };
    return {
      address: "127.0.0.1:0",
      credentials: ServerCredentials.createSsl(Buffer.from(agentCa.cert), [keyPair], true),
    };
  },

  connectToOracle: (_address, port) => connectWithTls(port),
};

export const OVER_UNIX: Transport = {
  name: "a Unix socket",

  async listen(t, accept) {
    const path = join(temporaryFolder(t), "grpc.sock");
    const listener = await SocketListener.open(
      {
        address: { kind: "unix", path, mode: 0o600, replaceStale: true },
        handshakeTimeoutMs: 10_000,
      },
      { accepted: accept, rejected: () => undefined },
    );
    t.after(() => {
      listener.destroy();
    });
    return {
      oracleAddress: `unix:${path}`,
      oracleCredentials: credentials.createInsecure(),
      connect: () => connect({ kind: "unix", path }),
    };
  },

  oracleServer: (t) => ({
    address: `unix:${join(temporaryFolder(t), "oracle.sock")}`,
    credentials: ServerCredentials.createInsecure(),
  }),

  connectToOracle: (address) => connect({ kind: "unix", path: address.slice("unix:".length) }),
};

export interface TestGrpcServer extends Listening {
  readonly server: GrpcServer;
}

/** A gRPC server of ours. */
export async function serve(
  t: TestContext,
  transport: Transport,
  services: GrpcServices,
  { clock = systemClock, limits = {} }: { clock?: Clock; limits?: Partial<Http2Limits> } = {},
): Promise<TestGrpcServer> {
  const server = new GrpcServer(
    {
      services,
      limits: { ...LIMITS, ...limits },
      keepalive: { intervalMs: 3_600_000, timeoutMs: 20_000 },
      firstRequestTimeoutMs: 60_000,
    },
    clock,
  );
  const listening = await transport.listen(t, (socket) => {
    server.accept(socket);
  });
  t.after(() => {
    server.destroy();
  });
  return { ...listening, server };
}

/** A method that makes an owner for each call, which `prepare` may instruct. */
export function recordingMethod(
  prepare: (owner: RecordedOwner, metadata: HeaderList) => void = () => undefined,
  metadata?: HeaderList,
): { method: GrpcMethod; owners: RecordedOwner[] } {
  const owners: RecordedOwner[] = [];
  const method: GrpcMethod = (call) => {
    const owner = new RecordedOwner();
    owners.push(owner);
    owner.carrier = call.accept(UNCOUNTED, owner, metadata);
    prepare(owner, call.metadata);
    return undefined;
  };
  return { method, owners };
}

/** Make a call's owner send back every packet, and end when its peer does. */
export function echo(owner: RecordedOwner): void {
  owner.keepsData = false;
  owner.onControl = (packet) => owner.carrier?.send(packet);
  owner.onData = (connectionId, piece) => {
    if (owner.carrier?.sendData(connectionId, piece) === false) owner.carrier.pauseReading();
  };
  owner.onDrained = () => owner.carrier?.resumeReading();
  owner.onEnded = () => owner.carrier?.end();
}

export interface TestClient {
  readonly connection: Http2Connection;
  /** What the connection's owner was told. */
  readonly events: string[];
  readonly call: (target?: Partial<GrpcCallTarget>) => RecordedOwner;
}

/** A client of ours on a connected socket. */
export function clientOn(
  t: TestContext,
  socket: Socket,
  limits: Partial<Http2Limits> = {},
): TestClient {
  const events: string[] = [];
  const connection = new Http2Connection(socket, "client", { ...LIMITS, ...limits }, systemClock, {
    request: () => {
      throw new Error("a server cannot open streams");
    },
    goaway: (code, debug) => {
      events.push(`goaway ${code} ${debug}`.trim());
    },
    closed: (error) => {
      events.push(`closed ${error?.message ?? "in order"}`);
    },
  });
  t.after(() => {
    connection.destroy();
  });
  return {
    connection,
    events,
    call(target = {}) {
      const owner = new RecordedOwner();
      owner.carrier = new GrpcClientCarrier(
        connection,
        {
          path: "/ProxyService/Proxy",
          authority: "localhost",
          scheme: "http",
          userAgent: "test",
          metadata: [],
          ...target,
        },
        UNCOUNTED,
        owner,
      );
      return owner;
    },
  };
}
