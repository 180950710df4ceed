import type { Clock } from "../clock.ts";
import { GrpcServerCarrier, finishGrpcStream } from "../carrier/grpc-server-carrier.ts";
import type { CarrierCounters, CarrierHandler } from "../carrier/carrier.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { headerValue } from "../http2/header-rules.ts";
import type { Http2Stream } from "../http2/http2-stream.ts";
import type { Http2StreamHandler } from "../http2/http2-stream-handler.ts";
import { isGrpcContentType } from "./grpc-content-type.ts";
import { GrpcCode, OK_STATUS, encodeGrpcMessage } from "./grpc-status.ts";
import type { GrpcStatus } from "./grpc-status.ts";

/** Who is at the other end of the socket. */
export interface Peer {
  /** `host:port`, or empty for a Unix socket. */
  readonly address: string;
  /** Subject common name of the verified client certificate, if there is one. */
  readonly commonName: string | undefined;
}

/** A call that a peer has made and that has not been answered. */
export interface IncomingCall {
  readonly metadata: HeaderList;
  readonly peer: Peer;

  /**
   * Take the call. With `metadata` the response headers are sent at once, otherwise with the first
   * packet.
   */
  accept(
    counters: CarrierCounters,
    handler: CarrierHandler,
    metadata?: HeaderList,
  ): GrpcServerCarrier;

  /**
   * Leave the call unanswered for now, to be accepted or {@link refuse}d later.
   *
   * @param gone - The peer has left, or has sent something without waiting for the answer, and the
   * call is over: it must be neither accepted nor refused any more.
   */
  hold(gone: () => void): void;

  /** Answer a call that was held. */
  refuse(status: GrpcStatus): void;
}

/** Answers a call: accepts it, holds it, or returns the status to refuse it with. */
export type GrpcMethod = (call: IncomingCall) => GrpcStatus | undefined;

/** Methods by service and name: `{ ProxyService: { Proxy: ... } }`. */
export type GrpcServices = Readonly<Record<string, Readonly<Record<string, GrpcMethod>>>>;

/** What is told of a stream that no carrier took. */
const REFUSED: Http2StreamHandler = {
  headers: () => undefined,
  data: () => undefined,
  ended: () => undefined,
  sent: () => undefined,
  drained: () => undefined,
  closed: () => undefined,
};

/**
 * Route a request to its method. Requests that are not gRPC calls of ours are answered as grpc-go
 * answers them, text for text.
 */
export function routeGrpcRequest(
  services: GrpcServices,
  stream: Http2Stream,
  headers: HeaderList,
  peer: Peer,
  clock: Clock,
): Http2StreamHandler {
  const contentType = headerValue(headers, "content-type");
  const method = headerValue(headers, ":method") ?? "";
  if (!isGrpcContentType(contentType)) {
    refuseHttp(stream, "415", {
      code: GrpcCode.INVALID_ARGUMENT,
      message: `invalid gRPC request content-type "${contentType ?? ""}"`,
    });
    return REFUSED;
  }
  if (method !== "POST") {
    refuseHttp(stream, "405", {
      code: GrpcCode.INTERNAL,
      message: `Received a HEADERS frame with :method "${method}" which should be POST`,
    });
    return REFUSED;
  }
  const path = headerValue(headers, ":path") ?? "";
  const target = findMethod(services, path);
  if (typeof target === "string") {
    finishGrpcStream(stream, { code: GrpcCode.UNIMPLEMENTED, message: target }, contentType);
    return REFUSED;
  }
  const encoding = headerValue(headers, "grpc-encoding") ?? "identity";
  if (encoding !== "identity") {
    const message = `grpc: Decompressor is not installed for grpc-encoding "${encoding}"`;
    finishGrpcStream(stream, { code: GrpcCode.UNIMPLEMENTED, message }, contentType);
    return REFUSED;
  }

  let carrier: GrpcServerCarrier | undefined;
  let held: Http2StreamHandler | undefined;
  const refusal = target({
    metadata: headers,
    peer,
    hold(gone) {
      held = heldStream(stream, contentType, gone);
    },
    refuse(status) {
      stream.attach(REFUSED);
      finishGrpcStream(stream, status, contentType);
    },
    accept(counters, handler, metadata) {
      carrier = new GrpcServerCarrier(stream, contentType ?? "", counters, handler);
      if (held !== undefined) stream.attach(carrier);
      if (metadata !== undefined) carrier.sendHeaders(metadata);
      const deadlineMs = grpcTimeoutMs(headerValue(headers, "grpc-timeout"));
      if (deadlineMs !== undefined) carrier.expireAfter(deadlineMs, clock);
      return carrier;
    },
  });
  if (refusal !== undefined) finishGrpcStream(stream, refusal, contentType);
  return carrier ?? held ?? REFUSED;
}

/**
 * What is told of a stream while its call is held. Peers of ours say nothing before they are
 * answered, so nothing is kept for those who do.
 */
function heldStream(
  stream: Http2Stream,
  contentType: string | undefined,
  gone: () => void,
): Http2StreamHandler {
  const finish = (status: GrpcStatus) => {
    stream.attach(REFUSED);
    gone();
    finishGrpcStream(stream, status, contentType);
  };
  return {
    ...REFUSED,
    data: () => {
      const message = "a message before the answer to the call";
      finish({ code: GrpcCode.FAILED_PRECONDITION, message });
    },
    ended: () => {
      finish(OK_STATUS);
    },
    closed: gone,
  };
}

/** The method of a path, or why there is none. */
function findMethod(services: GrpcServices, path: string): GrpcMethod | string {
  const parts = /^\/(.*)\/([^/]*)$/.exec(path);
  if (parts === null) return `malformed method name: "${path}"`;
  const [, serviceName = "", methodName = ""] = parts;
  const service = Object.hasOwn(services, serviceName) ? services[serviceName] : undefined;
  if (service === undefined) return `unknown service ${serviceName}`;
  const method = Object.hasOwn(service, methodName) ? service[methodName] : undefined;
  return method ?? `unknown method ${methodName} for service ${serviceName}`;
}

function refuseHttp(stream: Http2Stream, httpStatus: string, status: GrpcStatus): void {
  stream.sendHeaders(
    [
      [":status", httpStatus],
      ["content-type", "application/grpc"],
      ["grpc-status", String(status.code)],
      ["grpc-message", encodeGrpcMessage(status.message)],
    ],
    true,
  );
}

const MILLISECONDS_PER_UNIT: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** `grpc-timeout` in milliseconds (gRPC over HTTP/2, "Timeout"); `undefined` if absent or broken. */
function grpcTimeoutMs(value: string | undefined): number | undefined {
  const parts = /^(\d{1,8})([HMSmun])$/.exec(value ?? "");
  if (parts === null) return undefined;
  return Number(parts[1]) * (MILLISECONDS_PER_UNIT[parts[2] ?? ""] ?? 0);
}
