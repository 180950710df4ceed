import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createServer } from "node:tls";
import type { ConnectionOptions, TLSSocket, TlsOptions } from "node:tls";
import { describeTlsError } from "../../src/tls/describe-tls-error.ts";

/** What one end of a connection saw. */
interface EndReport {
  /** Whether its handshake finished. */
  readonly secure: boolean;
  /** The error as the log would say it. */
  readonly problem: string | undefined;
  readonly alpn: string | false | null;
  readonly protocol: string | null;
  readonly cipher: string | undefined;
}

export interface HandshakeReport {
  readonly server: EndReport;
  readonly client: EndReport;
  /** Whether a byte of the server's reached the client: both ends accepted each other. */
  readonly connected: boolean;
}

/** Connect two ends over loopback, and report what each of them saw when all is over. */
export async function handshake(
  serverOptions: TlsOptions,
  clientOptions: ConnectionOptions,
): Promise<HandshakeReport> {
  const server = createServer(serverOptions);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  const atServer = new Promise<EndReport>((resolve) => {
    server.once("secureConnection", (socket) => {
      socket.on("error", () => undefined);
      resolve(reportOf(socket, undefined));
      socket.end("x");
    });
    server.once("tlsClientError", (error, socket) => {
      resolve(reportOf(undefined, describeTlsError(error, "client", socket)));
    });
  });

  const socket = connect({ ...clientOptions, host: "127.0.0.1", port });
  let received = "";
  const atClient = new Promise<EndReport>((resolve) => {
    let report = reportOf(undefined, undefined);
    socket.once("secureConnect", () => {
      report = reportOf(socket, undefined);
    });
    socket.once("error", (error) => {
      report = { ...report, problem: describeTlsError(error, "server") };
    });
    socket.once("close", () => {
      resolve(report);
    });
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString();
    });
  });

  const [serverReport, clientReport] = await Promise.all([atServer, atClient]);
  server.close();
  await once(server, "close");
  return { server: serverReport, client: clientReport, connected: received === "x" };
}

function reportOf(socket: TLSSocket | undefined, problem: string | undefined): EndReport {
  return {
    secure: socket !== undefined,
    problem,
    alpn: socket?.alpnProtocol ?? null,
    protocol: socket?.getProtocol() ?? null,
    cipher: socket?.getCipher().name,
  };
}
