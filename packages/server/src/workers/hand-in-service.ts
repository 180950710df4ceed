import { GrpcServer, MetricRegistry, SocketListener } from "@reachback/common";
import type { BackendRegistry } from "../backend/backend-registry.ts";
import type { ConnectionPorts } from "../dial/connection.ts";
import { DialBroker } from "../dial/dial-broker.ts";
import { HANDED_IN_FIRST_AGENT_MS } from "../dial/dial-limits.ts";
import type { DialLimits } from "../dial/dial-limits.ts";
import { GrpcFrontend } from "../frontend/grpc-frontend.ts";
import { FIRST_REQUEST_TIMEOUT_MS, NEIGHBOUR_HTTP2, TLS_HANDSHAKE_TIMEOUT_MS } from "../limits.ts";
import { ServerMetrics } from "../metrics.ts";

const OWNER_ONLY = 0o600;

/**
 * Where neighbours hand in dials: a gRPC frontend on a socket of their own. Its dials go to this
 * worker's agents only, so that none goes round in circles. Who handed them in counts them, in metrics
 * and towards the limits of frontends; what is limited here is how many an agent has.
 */
export class HandInService {
  readonly #broker: DialBroker;
  readonly #frontend: GrpcFrontend;
  readonly #grpcServer: GrpcServer;
  #listener: SocketListener | undefined;

  constructor(registry: BackendRegistry, limits: DialLimits, ports: ConnectionPorts) {
    const metrics = new ServerMetrics(new MetricRegistry());
    this.#broker = new DialBroker(
      {
        choose: (address, isUsable) => registry.chooseOwn(address, isUsable),
        hasHadBackend: true,
        onAdded: () => undefined,
      },
      {
        ...limits,
        maxPendingDials: 0,
        maxConnections: 0,
        firstAgentMs: HANDED_IN_FIRST_AGENT_MS,
      },
      { ...ports, metrics, logger: ports.logger.child({ handedIn: true }) },
    );
    this.#frontend = new GrpcFrontend(this.#broker, metrics, ports.clock);
    this.#grpcServer = new GrpcServer(
      {
        services: { ProxyService: { Proxy: this.#frontend.proxy } },
        limits: NEIGHBOUR_HTTP2,
        keepalive: { intervalMs: Infinity, timeoutMs: Infinity },
        firstRequestTimeoutMs: FIRST_REQUEST_TIMEOUT_MS,
      },
      ports.clock,
    );
  }

  /** Connections and pending dials. */
  get heldCount(): number {
    return this.#broker.heldCount;
  }

  /** @throws {ListenError} */
  async open(path: string): Promise<void> {
    this.#listener = await SocketListener.open(
      {
        address: { kind: "unix", path, mode: OWNER_ONLY, replaceStale: true },
        handshakeTimeoutMs: TLS_HANDSHAKE_TIMEOUT_MS,
      },
      {
        accepted: (socket) => {
          this.#grpcServer.accept(socket);
        },
        rejected: () => undefined,
      },
    );
  }

  /** End every stream, behind what it was sent. */
  end(): void {
    this.#frontend.end();
  }

  destroy(): void {
    this.#grpcServer.destroy();
    this.#listener?.destroy();
  }
}
