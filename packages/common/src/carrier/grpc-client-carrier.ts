import { isGrpcContentType } from "../grpc/grpc-content-type.ts";
import { GrpcCode, decodeGrpcMessage } from "../grpc/grpc-status.ts";
import type { GrpcStatus } from "../grpc/grpc-status.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { headerValue } from "../http2/header-rules.ts";
import type { Http2Connection } from "../http2/http2-connection.ts";
import { Http2ErrorCode, http2ErrorName } from "../http2/http2-error.ts";
import type { StreamClose } from "../http2/http2-stream-handler.ts";
import type { CarrierCounters, CarrierHandler } from "./carrier.ts";
import { GrpcCarrier } from "./grpc-carrier.ts";

export interface GrpcCallTarget {
  /** e.g. `/AgentService/Connect` */
  readonly path: string;
  readonly authority: string;
  readonly scheme: "http" | "https";
  readonly userAgent: string;
  readonly metadata: HeaderList;
}

export interface GrpcClientHandler extends CarrierHandler {
  /** The server's initial metadata. Does not come if the call is refused: `closed` says why. */
  opened(metadata: HeaderList): void;
}

/** gRPC status for an HTTP status (grpc/doc/http-grpc-status-mapping.md). */
const CODE_OF_HTTP_STATUS: Readonly<Record<string, number>> = {
  "400": GrpcCode.INTERNAL,
  "401": GrpcCode.UNAUTHENTICATED,
  "403": GrpcCode.PERMISSION_DENIED,
  "404": GrpcCode.UNIMPLEMENTED,
  "429": GrpcCode.UNAVAILABLE,
  "502": GrpcCode.UNAVAILABLE,
  "503": GrpcCode.UNAVAILABLE,
  "504": GrpcCode.UNAVAILABLE,
};

/** gRPC status for the code of a RST_STREAM (gRPC over HTTP/2, "Errors"). */
const CODE_OF_RESET: Readonly<Record<number, number>> = {
  [Http2ErrorCode.REFUSED_STREAM]: GrpcCode.UNAVAILABLE,
  [Http2ErrorCode.CANCEL]: GrpcCode.CANCELLED,
  [Http2ErrorCode.ENHANCE_YOUR_CALM]: GrpcCode.RESOURCE_EXHAUSTED,
  [Http2ErrorCode.INADEQUATE_SECURITY]: GrpcCode.PERMISSION_DENIED,
};

/** The client's end of a gRPC call that carries packets. */
export class GrpcClientCarrier extends GrpcCarrier {
  readonly #handler: GrpcClientHandler;
  #opened = false;
  /** What the trailers said; until they come, the end of the stream is a failure. */
  #trailersStatus: GrpcStatus | undefined;

  constructor(
    connection: Http2Connection,
    target: GrpcCallTarget,
    counters: CarrierCounters,
    handler: GrpcClientHandler,
  ) {
    super(counters, handler);
    this.#handler = handler;
    // The order in which Go's clients send them.
    const headers: HeaderList = [
      [":method", "POST"],
      [":scheme", target.scheme],
      [":path", target.path],
      [":authority", target.authority],
      ["content-type", "application/grpc"],
      ["user-agent", target.userAgent],
      ["te", "trailers"],
      ...target.metadata,
    ];
    this.attach(connection.request(headers, this));
  }

  /**
   * Finish sending (END_STREAM); `closed` follows with the server's status. Not with RST_STREAM,
   * because servers on Node 20 take a thousand quick ones for an attack.
   */
  end(): void {
    this.stream?.end();
  }

  abort(status: GrpcStatus): void {
    this.finish(status);
    this.stream?.reset(Http2ErrorCode.CANCEL);
  }

  headers(headers: HeaderList, endStream: boolean): void {
    if (this.isClosed) return;
    if (this.#opened) {
      this.#trailersStatus = statusOfTrailers(headers);
      return;
    }
    const httpStatus = headerValue(headers, ":status") ?? "";
    if (endStream && headerValue(headers, "grpc-status") !== undefined) {
      this.#trailersStatus = statusOfTrailers(headers);
    } else if (httpStatus !== "200") {
      this.fail({
        code: CODE_OF_HTTP_STATUS[httpStatus] ?? GrpcCode.UNKNOWN,
        message: `unexpected HTTP status code received from server: ${httpStatus}`,
      });
    } else if (!isGrpcContentType(headerValue(headers, "content-type"))) {
      this.fail({
        code: GrpcCode.UNKNOWN,
        message: `unexpected content-type "${headerValue(headers, "content-type") ?? ""}"`,
      });
    } else {
      this.#opened = true;
      this.#handler.opened(headers);
    }
  }

  protected beforeWrite(): void {
    // The request's headers are sent when the call is made.
  }

  protected peerEnded(): void {
    const status = this.#trailersStatus ?? {
      code: GrpcCode.INTERNAL,
      message: "server closed the stream without sending trailers",
    };
    this.handler.ended();
    // The server has the last word in gRPC: the call is over, whatever we still had to say.
    this.#trailersStatus = status;
    this.stream?.leave();
  }

  protected fail(status: GrpcStatus): void {
    this.abort(status);
  }

  protected statusOf(reason: StreamClose): GrpcStatus {
    // What the server has said holds, however its stream ends then.
    if (this.#trailersStatus !== undefined) return this.#trailersStatus;
    switch (reason.kind) {
      case "finished":
        return { code: GrpcCode.INTERNAL, message: "no trailers" };
      case "reset":
        return {
          code: CODE_OF_RESET[reason.code] ?? GrpcCode.INTERNAL,
          message: `stream terminated by RST_STREAM with error code: ${http2ErrorName(reason.code)}`,
        };
      case "connection":
        return {
          code: GrpcCode.UNAVAILABLE,
          message:
            reason.error === undefined
              ? "the connection was closed"
              : `the connection failed: ${reason.error.message}`,
        };
    }
  }
}

function statusOfTrailers(trailers: HeaderList): GrpcStatus {
  const code = headerValue(trailers, "grpc-status") ?? "";
  if (!/^\d{1,3}$/.test(code)) {
    return { code: GrpcCode.INTERNAL, message: `no usable grpc-status in the trailers: "${code}"` };
  }
  return {
    code: Number(code),
    message: decodeGrpcMessage(headerValue(trailers, "grpc-message") ?? ""),
  };
}
