import {
  ListenError,
  SocketListener,
  exceptServerAlpn,
  joinHostPort,
  loadCaPool,
  loadKeyPair,
  serverTlsOptions,
} from "@reachback/common";
import type {
  CaPool,
  CertificateFacts,
  Clock,
  KeyPair,
  Logger,
  ServerTlsSettings,
  SocketListenerHandler,
  SocketListenerOptions,
} from "@reachback/common";
import type { Socket } from "node:net";
import { TLS_HANDSHAKE_TIMEOUT_MS } from "./limits.ts";
import type { ServerOptions } from "./options.ts";
import type { FrontendSpec } from "./options/frontend-spec.ts";

/** Opens a listener; {@link SocketListener.open} unless workers share one. */
export type OpenListener = (
  options: SocketListenerOptions,
  handler: SocketListenerHandler,
) => Promise<SocketListener>;

/** What opening a listener needs from the server around it. */
export interface ListenerPorts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly openListener?: OpenListener;
  /** A listener shows this certificate. @param listener - `agents` or `frontend`. */
  certificateLoaded?(listener: "agents" | "frontend", leaf: CertificateFacts): void;
  /** An agent has a tunnel already, and no use for another. */
  agentTurnedAway?(): void;
}

/** An error of upstream's form: what failed first, then why. */
class StartError extends Error {}

/**
 * Open the listener of a frontend; `accept` gets its sockets.
 *
 * @throws in upstream's words if its TLS material or its address cannot be used.
 */
export async function openFrontendListener(
  spec: FrontendSpec,
  options: ServerOptions,
  accept: (socket: Socket) => void,
  ports: ListenerPorts,
): Promise<SocketListener> {
  const { protocol, address } = spec;
  const handler = handlerFor(`${protocol} frontend`, accept, ports.logger);
  return failingAs("failed to run the frontend server", () => {
    if (address.kind === "unix") {
      const unix: SocketListenerOptions = {
        address: {
          ...address,
          mode: options.unixSocketMode,
          replaceStale: options.deleteExistingUnixSocket,
        },
        handshakeTimeoutMs: TLS_HANDSHAKE_TIMEOUT_MS,
      };
      return open(
        unix,
        `failed to get uds listener: failed to listen(unix) name ${address.path}`,
        handler,
        ports,
      );
    }
    const alpn = protocol === "grpc" ? "h2" : "http/1.1";
    const { serverCertPath, serverKeyPath, serverCaCertPath } = options;
    const keyPair = loadKeyPair(serverCertPath, serverKeyPath, ports.clock);
    ports.certificateLoaded?.("frontend", keyPair.leaf);
    const tls = tlsOf(keyPair, serverCaCertPath, alpn, options, ports);
    if (serverCaCertPath === "" && !options.allowUnauthenticatedFrontends) {
      throw new StartError(
        "nothing would authenticate clients: set --server-ca-cert to the CA of their certificates, " +
          "or --insecure-allow-unauthenticated-frontends to let in whoever reaches the port",
      );
    }
    return open(
      {
        address,
        tls,
        // Go's gRPC clients and servers insist on ALPN, its HTTP/1 ones do not.
        ...(protocol === "grpc" ? { requiredAlpn: alpn } : {}),
        handshakeTimeoutMs: TLS_HANDSHAKE_TIMEOUT_MS,
      },
      `failed to listen on ${joinHostPort(address.host, address.port)}`,
      handler,
      ports,
    );
  });
}

/**
 * Open the listener for agents.
 *
 * @throws in upstream's words if its TLS material or its address cannot be used; and if nothing
 * would authenticate agents.
 */
export async function openAgentListener(
  options: ServerOptions,
  accept: (socket: Socket) => void,
  ports: ListenerPorts,
): Promise<SocketListener> {
  const { agentBindAddress: host, agentPort: port, clusterCertPath, clusterKeyPath } = options;
  const { clusterCaCertPath } = options;
  const handler = handlerFor("agents", accept, ports.logger);
  const exceptThis = exceptServerAlpn(options.serverId);
  return failingAs("failed to run the agent server", () => {
    const keyPair = loadKeyPair(clusterCertPath, clusterKeyPath, ports.clock);
    ports.certificateLoaded?.("agents", keyPair.leaf);
    const tls = tlsOf(keyPair, clusterCaCertPath, "h2", options, ports);
    const asksForTokens = options.tokenAuthentication !== undefined;
    if (clusterCaCertPath === "" && !asksForTokens && !options.allowUnauthenticatedAgents) {
      throw new StartError(
        "nothing would authenticate agents: set --cluster-ca-cert to the CA of their certificates, " +
          "--agent-namespace and its companions to have them identify by token, " +
          "or --insecure-allow-unauthenticated-agents to let in whoever reaches the port",
      );
    }
    return open(
      {
        address: { kind: "tcp", host, port },
        tls,
        requiredAlpn: "h2",
        turnsAway: (offeredAlpn) => {
          const isNamed = offeredAlpn.includes(exceptThis);
          if (isNamed) ports.agentTurnedAway?.();
          return isNamed;
        },
        handshakeTimeoutMs: TLS_HANDSHAKE_TIMEOUT_MS,
      },
      `failed to listen on ${joinHostPort(host, port)}`,
      handler,
      ports,
    );
  });
}

function tlsOf(
  keyPair: KeyPair,
  caPath: string,
  alpn: string,
  options: ServerOptions,
  ports: ListenerPorts,
): ReturnType<typeof serverTlsOptions> {
  const settings: ServerTlsSettings = {
    keyPair,
    clientCa: caPath === "" ? undefined : caPoolFrom(caPath, ports),
    alpnProtocols: [alpn],
    minVersion: options.tlsMinVersion,
    ciphers: options.tlsCiphers,
  };
  return serverTlsOptions(settings);
}

function caPoolFrom(path: string, ports: ListenerPorts): CaPool {
  const pool = loadCaPool(path, ports.clock);
  for (const warning of pool.warnings) ports.logger.warn("tls.warning", { path, warning });
  return pool;
}

function handlerFor(
  listener: string,
  accept: (socket: Socket) => void,
  logger: Logger,
): SocketListenerHandler {
  return {
    accepted: accept,
    rejected: (reason, peer) => {
      // Apart, because a number does not make a warning that is repeated another one.
      const from = peer === undefined ? {} : { peer: peer.host, peerPort: peer.port };
      logger.warn("listener.rejected", { listener, reason, ...from });
    },
  };
}

async function open(
  options: SocketListenerOptions,
  what: string,
  handler: SocketListenerHandler,
  { openListener }: ListenerPorts,
): Promise<SocketListener> {
  try {
    return openListener === undefined
      ? await SocketListener.open(options, handler)
      : await openListener(options, handler);
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    throw new StartError(`${what}: ${error.message}`, { cause: error });
  }
}

async function failingAs<Result>(what: string, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new StartError(`${what}: ${error.message}`, { cause: error });
  }
}
