import type { CancelTimer, Clock } from "../clock.ts";
import { GrpcCode, OK_STATUS, encodeGrpcMessage } from "../grpc/grpc-status.ts";
import type { GrpcStatus } from "../grpc/grpc-status.ts";
import type { HeaderList } from "../hpack/header-list.ts";
import { Http2ErrorCode } from "../http2/http2-error.ts";
import type { Http2Stream } from "../http2/http2-stream.ts";
import type { StreamClose } from "../http2/http2-stream-handler.ts";
import type { CarrierCounters, CarrierHandler, ServerCarrier } from "./carrier.ts";
import { GrpcCarrier } from "./grpc-carrier.ts";

/** The server's end of a gRPC call that carries packets. */
export class GrpcServerCarrier extends GrpcCarrier implements ServerCarrier {
  readonly #contentType: string;
  #headersSent = false;
  #cancelDeadline: CancelTimer | undefined;

  /** @param contentType - Of the request; the answer has the same. */
  constructor(
    stream: Http2Stream,
    contentType: string,
    counters: CarrierCounters,
    handler: CarrierHandler,
  ) {
    super(counters, handler);
    this.#contentType = contentType;
    this.attach(stream);
  }

  /** Send the response headers now, with `metadata`. Otherwise they go with the first packet. */
  sendHeaders(metadata: HeaderList): void {
    if (this.#headersSent) return;
    this.#headersSent = true;
    this.stream?.sendHeaders([
      [":status", "200"],
      ["content-type", this.#contentType],
      ...metadata,
    ]);
  }

  /** Abort the call after `delayMs`, the deadline that its client has set (`grpc-timeout`). */
  expireAfter(delayMs: number, clock: Clock): void {
    this.#cancelDeadline = clock.schedule(delayMs, () => {
      this.abort({ code: GrpcCode.DEADLINE_EXCEEDED, message: "context deadline exceeded" });
    });
  }

  override closed(reason: StreamClose): void {
    this.#cancelDeadline?.();
    super.closed(reason);
  }

  end(): void {
    this.#finishWith(OK_STATUS);
  }

  /** Ends with `status`, behind what was sent: a server's last word is its trailers. */
  abort(status: GrpcStatus): void {
    this.finish(status);
    this.#finishWith(status);
  }

  reset(): void {
    this.stream?.reset(Http2ErrorCode.CANCEL);
  }

  headers(): void {
    // Trailers of a request mean nothing in gRPC.
  }

  protected beforeWrite(): void {
    this.sendHeaders([]);
  }

  protected peerEnded(): void {
    this.handler.ended();
  }

  protected fail(status: GrpcStatus): void {
    this.abort(status);
  }

  protected statusOf(reason: StreamClose): GrpcStatus {
    if (reason.kind === "finished") return OK_STATUS;
    // What a Go handler sees when its stream is reset or its connection goes.
    return { code: GrpcCode.CANCELLED, message: "context canceled" };
  }

  #finishWith(status: GrpcStatus): void {
    finishGrpcStream(this.stream, status, this.#headersSent ? undefined : this.#contentType);
  }
}

/**
 * End a call with `status` in trailers; with `contentType` as a trailers-only response, for a call
 * whose headers have not been sent.
 */
export function finishGrpcStream(
  stream: Http2Stream | undefined,
  status: GrpcStatus,
  contentType: string | undefined,
): void {
  const trailers: HeaderList = [
    ["grpc-status", String(status.code)],
    ["grpc-message", encodeGrpcMessage(status.message)],
  ];
  if (contentType === undefined) stream?.finish(trailers);
  else stream?.sendHeaders([[":status", "200"], ["content-type", contentType], ...trailers], true);
}
