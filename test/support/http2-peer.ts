import { once } from "node:events";
import { performServerHandshake } from "node:http2";
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import { connect, createServer as createTcpServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import type { TestContext } from "node:test";
import { createServer } from "node:tls";
import type { TLSSocket, TlsOptions } from "node:tls";
import { Worker } from "node:worker_threads";
import { createTestPki } from "./pki.ts";

// Servers for what grpc-js cannot do: show every header in order, misbehave below gRPC.

/** A request as it came. */
export interface RawRequest {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly stream: ServerHttp2Stream;
  readonly session: ServerHttp2Session;
  readonly socket: TLSSocket;
}

/** Its types lack the last one, which Node documents. */
type StreamEvent = [
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  flags: number,
  rawHeaders: string[],
];

export interface Http2Peer {
  readonly port: number;
  readonly requests: RawRequest[];
  /** What clients offered and sent in their handshakes; false for no server name. */
  readonly handshakes: { readonly protocols: string[]; readonly serverName: string | false }[];
}

export interface Http2PeerOptions {
  /** Picks a protocol; none ends the handshake. @defaultValue `h2` */
  readonly chooseProtocol?: (offered: readonly string[]) => string | undefined;
  readonly tls?: TlsOptions;
  readonly onRequest?: (request: RawRequest) => void;
}

/** TLS with HTTP/2 behind it. */
export async function startHttp2Peer(
  t: TestContext,
  { chooseProtocol = () => "h2", tls = {}, onRequest }: Http2PeerOptions = {},
): Promise<Http2Peer> {
  const { serverAgent, agentCa } = createTestPki();
  const requests: RawRequest[] = [];
  const handshakes: Http2Peer["handshakes"] = [];
  const server = createServer(
    {
      cert: serverAgent.cert,
      key: serverAgent.key,
      ca: agentCa.cert,
      requestCert: true,
      rejectUnauthorized: false,
      ALPNCallback: ({ protocols, servername }) => {
        handshakes.push({ protocols, serverName: servername });
        return chooseProtocol(protocols);
      },
      ...tls,
    },
    (socket) => {
      const session = performServerHandshake(socket);
      session.on("error", () => undefined);
      session.on("stream", (...[stream, , , flat]: StreamEvent) => {
        const headers = flat.flatMap((name, at) =>
          at % 2 === 0 ? [[name, flat[at + 1] ?? ""] as const] : [],
        );
        const request = { headers, stream, session, socket };
        requests.push(request);
        stream.on("error", () => undefined);
        onRequest?.(request);
      });
    },
  );
  return { port: await listen(t, server), requests, handshakes };
}

/** A TCP listener; `onConnection` owns the sockets, which are destroyed when the test ends. */
export function startTcpPeer(
  t: TestContext,
  onConnection: (socket: Socket) => void,
): Promise<number> {
  return listen(t, createTcpServer({ allowHalfOpen: true }, onConnection));
}

/** A TLS listener without HTTP/2, with the agent listener's certificate unless `tls` says otherwise. */
export function startTlsPeer(
  t: TestContext,
  tls: TlsOptions,
  onConnection: (socket: TLSSocket) => void = () => undefined,
): Promise<number> {
  const { cert, key } = createTestPki().serverAgent;
  return listen(t, createServer({ cert, key, ...tls }, onConnection));
}

async function listen(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => sockets.delete(socket));
  };
  server.on("connection", keep);
  server.on("secureConnection", keep);
  server.on("tlsClientError", () => undefined);
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** Listens, and then never accepts. */
const BLACK_HOLE = `
  const { parentPort, workerData } = require("node:worker_threads");
  const server = require("node:net").createServer();
  server.listen({ ...workerData, backlog: 1 }, () => {
    parentPort.postMessage(server.address().port);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
`;

/** Connections that a listener with a backlog of one holds without accepting them, and one more. */
const BACKLOG_CONNECTIONS = 3;

/** A port, on loopback unless told otherwise, where connections are neither accepted nor refused. */
export async function startBlackHole(
  t: TestContext,
  { host = "127.0.0.1", port = 0 }: { readonly host?: string; readonly port?: number } = {},
): Promise<number> {
  const worker = new Worker(BLACK_HOLE, { eval: true, workerData: { host, port } });
  const fillers: Socket[] = [];
  t.after(async () => {
    for (const filler of fillers) filler.destroy();
    await worker.terminate();
  });
  const [bound] = (await once(worker, "message")) as [number];
  for (let count = 0; count < BACKLOG_CONNECTIONS; count++) {
    const filler = connect(bound, host);
    filler.on("error", () => undefined);
    fillers.push(filler);
    // The last one stays unanswered: its SYN is dropped, as all from now on.
    if (count < BACKLOG_CONNECTIONS - 1) await once(filler, "connect");
  }
  return bound;
}
