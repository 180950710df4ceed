export { systemClock } from "./clock.ts";
export type { CancelTimer, Clock } from "./clock.ts";
export { silentLogger } from "./log/logger.ts";
export type { LogEvent, LogFields, Logger } from "./log/logger.ts";
export { systemRandom } from "./random.ts";
export type { Random } from "./random.ts";
export { checkAgentIdentifiers, parseAgentIdentifiers } from "./agent-identifiers.ts";
export type { AgentIdentifiers } from "./agent-identifiers.ts";
export { deepFreeze } from "./deep-freeze.ts";
export { systemFileExists } from "./file-exists.ts";
export type { FileExists } from "./file-exists.ts";
export { missingFileText, tlsPathProblems } from "./flags/file-problems.ts";
export type {
  FlagOrigin,
  FlagSpec,
  FlagTable,
  FlagValue,
  ParsedFlags,
} from "./flags/flag-table.ts";
export {
  boolType,
  durationType,
  float32Type,
  intType,
  labelSelectorType,
  stringListType,
  stringType,
} from "./flags/flag-type.ts";
export type { FlagType } from "./flags/flag-type.ts";
export { formatGoDuration, parseGoDuration } from "./flags/go-duration.ts";
export { goQuote } from "./flags/go-quote.ts";
export { InvalidValueError } from "./flags/invalid-value-error.ts";
export { KLOG_FLAGS, resolveLoggingOptions } from "./flags/klog-flags.ts";
export type { LoggingOptions } from "./log/logging-options.ts";
export { LabelSelector, parseLabelSelector } from "./flags/label-selector.ts";
export type { LabelOperator, LabelRequirement, Labels } from "./flags/label-selector.ts";
export { parseFlags } from "./flags/parse-flags.ts";
export type { FlagInput } from "./flags/parse-flags.ts";
export { UsageError } from "./flags/usage-error.ts";
export { startProgram } from "./program.ts";
export type { OptionPorts, Program, ProgramHost } from "./program.ts";
export type { ProgramLogger } from "./log/pino-logger.ts";
export { ApiAccessError } from "./kubernetes/api-access.ts";
export { ApiError, apiErrorHint } from "./kubernetes/api-error.ts";
export { connectKubernetes } from "./kubernetes/connect-kubernetes.ts";
export type { KubernetesPorts } from "./kubernetes/connect-kubernetes.ts";
export { listOf, recordOf, textOf } from "./kubernetes/json.ts";
export { KubernetesClient } from "./kubernetes/kubernetes-client.ts";
export type { ApiRequest, WatchRequest } from "./kubernetes/kubernetes-client.ts";
export {
  isLeaseValid,
  leaseFrom,
  leaseListFrom,
  leasePath,
  microTime,
} from "./kubernetes/lease.ts";
export type { Lease } from "./kubernetes/lease.ts";
export { Counter, LabelledCounter } from "./metrics/counter.ts";
export { Histogram, LabelledHistogram } from "./metrics/histogram.ts";
export { unlabelled } from "./metrics/metric-family.ts";
export type { HistogramReading, MetricFamily, MetricSeries } from "./metrics/metric-family.ts";
export { familyOfReading, sumOfReadings } from "./metrics/family-reading.ts";
export type { FamilyReading } from "./metrics/family-reading.ts";
export { familyText } from "./metrics/exposition.ts";
export { MetricRegistry } from "./metrics/metric-registry.ts";
export type { FamilyTextSource } from "./metrics/metric-registry.ts";
export { PacketCounters } from "./metrics/packet-counters.ts";
export type { SegmentPackets } from "./metrics/packet-counters.ts";
export type { ProcessMetrics } from "./metrics/process-metrics.ts";
export { StreamErrorCounters } from "./metrics/stream-error-counters.ts";
export { agentHealthRoutes, serverHealthRoutes } from "./ops/health-routes.ts";
export { metricsRoute, movedMetricsRoute } from "./ops/metrics-routes.ts";
export { certificateCheck, lastDialCheck } from "./ops/readiness-check.ts";
export type { CheckResult, ReadinessCheck } from "./ops/readiness-check.ts";
export { OpsListener } from "./ops/ops-listener.ts";
export type {
  OpsListenerLimits,
  OpsListenerOptions,
  OpsListenerPorts,
} from "./ops/ops-listener.ts";
export type { OpsHandler, OpsRequest, OpsResponse, OpsRoute } from "./ops/ops-route.ts";
export { MAX_PROFILE_SECONDS, profilingRoutes } from "./ops/profiling-routes.ts";
export type { ProfilingOptions, ProfilingPorts } from "./ops/profiling-routes.ts";
export { loadProcessMetrics, runService } from "./service.ts";
export { boundGarbage } from "./garbage-bound.ts";
export { tuneGarbageCollection } from "./garbage-collection.ts";
export type { RunningService, ServiceDefinition, ServicePorts, ServiceProcess } from "./service.ts";
export { loadCaPool } from "./tls/ca-pool.ts";
export type { CaPool } from "./tls/ca-pool.ts";
export type { CertificateFacts } from "./tls/certificate-facts.ts";
export { isSupportedCipherSuite, opensslCiphers } from "./tls/cipher-suites.ts";
export { clientTlsOptions } from "./tls/client-tls-options.ts";
export type { ClientTlsSettings } from "./tls/client-tls-options.ts";
export { alpnProblem, describeTlsError, describeTlsHangUp } from "./tls/describe-tls-error.ts";
export type { RefusingSocket, TlsPeer } from "./tls/describe-tls-error.ts";
export { loadKeyPair } from "./tls/key-pair.ts";
export type { KeyPair } from "./tls/key-pair.ts";
export { serverTlsOptions } from "./tls/server-tls-options.ts";
export type { ServerTlsSettings } from "./tls/server-tls-options.ts";
export { TlsMaterialError } from "./tls/tls-material-error.ts";
export { exceptServerAlpn, wasTurnedAway } from "./tls/turn-away.ts";
export type { Carrier, CarrierCounters, CarrierHandler, ServerCarrier } from "./carrier/carrier.ts";
export { GrpcClientCarrier } from "./carrier/grpc-client-carrier.ts";
export type { GrpcCallTarget, GrpcClientHandler } from "./carrier/grpc-client-carrier.ts";
export { GrpcServer } from "./grpc/grpc-server.ts";
export type { GrpcServerOptions } from "./grpc/grpc-server.ts";
export type { GrpcMethod, GrpcServices, IncomingCall, Peer } from "./grpc/grpc-service.ts";
export { GrpcCode, GrpcError, OK_STATUS, goCodeName } from "./grpc/grpc-status.ts";
export type { GrpcStatus } from "./grpc/grpc-status.ts";
export type { HeaderField, HeaderList } from "./hpack/header-list.ts";
export { headerValue, headerValues } from "./http2/header-rules.ts";
export { Http2Connection } from "./http2/http2-connection.ts";
export type { Http2ConnectionHandler } from "./http2/http2-connection-handler.ts";
export { Http2ErrorCode } from "./http2/http2-error.ts";
export type { Http2Limits } from "./http2/http2-limits.ts";
export { readBorrowed } from "./net/borrowed-read.ts";
export { ConnectError, connectSocket } from "./net/connect-socket.ts";
export type { ConnectAddress, ConnectOptions, ConnectPhase } from "./net/connect-socket.ts";
export { joinHostPort, splitHostPort } from "./net/host-port.ts";
export type { HostPort } from "./net/host-port.ts";
export { SocketEnd } from "./net/socket-end.ts";
export type { SocketEndHandler, SocketEndLimits } from "./net/socket-end.ts";
export { ListenError, SocketListener, peerName } from "./net/socket-listener.ts";
export type {
  ListenAddress,
  SocketListenerHandler,
  SocketListenerOptions,
} from "./net/socket-listener.ts";
export { endedByReset, resetSocket } from "./net/socket-reset.ts";
export { POOLED_BUFFERS } from "./net/pooled-buffers.ts";
export { writeTogether } from "./net/write-together.ts";
export { int64FromBigInt } from "./packet/int64.ts";
export type { Int64 } from "./packet/int64.ts";
export { PacketType } from "./packet/packet.ts";
export type {
  CloseRequestPacket,
  CloseResponsePacket,
  ConnectionId,
  ControlPacket,
  DialClosePacket,
  DialId,
  DialRequestPacket,
  DialResponsePacket,
  DrainPacket,
  PacketCounter,
  PacketHandler,
} from "./packet/packet.ts";
export { memoryLimitBytes } from "./memory-limit.ts";
export { packageVersion } from "./package-version.ts";
export { systemErrorText } from "./system-error-text.ts";
export { Backoff, jittered } from "./timers/backoff.ts";
export type { BackoffOptions } from "./timers/backoff.ts";
export { Keepalive } from "./timers/keepalive.ts";
export type { KeepaliveOptions, KeepaliveTarget } from "./timers/keepalive.ts";
export {
  FRONTEND_EXTENSIONS,
  TUNNEL_EXTENSIONS,
  agreedExtensions,
  namedExtensions,
  offeredExtensions,
} from "./carrier/extensions.ts";
export type { Extension } from "./carrier/extensions.ts";
export { FLOW_CONTROL_VIOLATED, HALF_CLOSE_TIMEOUT } from "./flow/end-texts.ts";
export { FLOW_FLAGS, resolveFlowOptions, windowProblems } from "./flow/flow-flags.ts";
export type { FlowOptions } from "./flow/flow-flags.ts";
export type { Flow, FlowLimits, FlowOwner } from "./flow/flow.ts";
export { TunnelFlows } from "./flow/tunnel-flows.ts";
export type { FlowPorts } from "./flow/tunnel-flows.ts";
export { WindowBudget } from "./flow/window-budget.ts";
export { SilenceWatch } from "./timers/silence-watch.ts";
export { PIECE_BYTES, UPSTREAM_PIECE_BYTES } from "./piece-bytes.ts";
export { recycledMemory } from "./recycled-memory.ts";
export { TokenBucket } from "./timers/token-bucket.ts";
