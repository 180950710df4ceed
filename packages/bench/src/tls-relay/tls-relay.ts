import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import {
  connect as connectTls,
  createSecureContext,
  createServer as createTlsServer,
} from "node:tls";
import { splice } from "./splice.ts";

// The reference: the least that a tunnel between the same places can do. One TLS connection for
// each connection, nothing multiplexed, nothing parsed, the bytes left to Node's own pipe().

const BACKLOG = 4096;

/** What the tunnel negotiates as well, so that both pay for the same cipher. */
const TLS = { minVersion: "TLSv1.3", ciphers: "TLS_AES_128_GCM_SHA256" } as const;

export interface TlsFiles {
  readonly caPath: string;
  readonly certPath: string;
  readonly keyPath: string;
}

export interface FarRelayConfig {
  readonly tls: TlsFiles;
  /** Where connections lead; each gets a port of its own. */
  readonly targetPorts: readonly number[];
}

/** Where the agent would be: mutual TLS in, TCP to the endpoint out. */
export async function startFarRelay(config: FarRelayConfig): Promise<{ ports: number[] }> {
  const options = {
    ...TLS,
    ...readTlsFiles(config.tls),
    requestCert: true,
    rejectUnauthorized: true,
    noDelay: true,
    allowHalfOpen: true,
  };
  const ports: number[] = [];
  for (const port of config.targetPorts) {
    const server = createTlsServer(options, (near) => {
      splice(near, connect({ host: "127.0.0.1", port, noDelay: true, allowHalfOpen: true }));
    });
    server.listen(0, "127.0.0.1", BACKLOG);
    await once(server, "listening");
    ports.push((server.address() as AddressInfo).port);
  }
  return { ports };
}

export interface NearRelayConfig {
  readonly tls: TlsFiles;
  /** Unix sockets to listen on, and to which port of the far relay each leads. */
  readonly routes: readonly { readonly path: string; readonly farPort: number }[];
}

/** Where the server would be: a Unix socket in, mutual TLS out. */
export async function startNearRelay(config: NearRelayConfig): Promise<void> {
  const secureContext = createSecureContext({ ...TLS, ...readTlsFiles(config.tls) });
  for (const { path, farPort } of config.routes) {
    let session: Buffer | undefined;
    const server = createServer({ allowHalfOpen: true }, (near) => {
      const options = {
        host: "127.0.0.1",
        port: farPort,
        secureContext,
        allowHalfOpen: true,
        // A handshake for every connection is dear enough; at least it resumes.
        ...(session === undefined ? {} : { session }),
      };
      const far = connectTls(options);
      far.on("session", (latest) => {
        session = latest;
      });
      far.setNoDelay(true);
      splice(near, far);
    });
    server.listen(path, BACKLOG);
    await once(server, "listening");
  }
}

function readTlsFiles({ caPath, certPath, keyPath }: TlsFiles) {
  return {
    ca: readFileSync(caPath),
    cert: readFileSync(certPath),
    key: readFileSync(keyPath),
  };
}
