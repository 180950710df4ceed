/** Status codes of gRPC (grpc/doc/statuscodes.md). */
export const GrpcCode = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

/** How a call ended. */
export interface GrpcStatus {
  readonly code: number;
  readonly message: string;
}

export const OK_STATUS: GrpcStatus = { code: GrpcCode.OK, message: "" };

/** Go's names of the codes, by number: what upstream puts into metrics and messages. */
const GO_NAMES = [
  "OK",
  "Canceled",
  "Unknown",
  "InvalidArgument",
  "DeadlineExceeded",
  "NotFound",
  "AlreadyExists",
  "PermissionDenied",
  "ResourceExhausted",
  "FailedPrecondition",
  "Aborted",
  "OutOfRange",
  "Unimplemented",
  "Internal",
  "Unavailable",
  "DataLoss",
  "Unauthenticated",
] as const;

/** The name Go gives a status code; `Code(99)` for one it does not know. */
export function goCodeName(code: number): string {
  return GO_NAMES[code] ?? `Code(${code})`;
}

/** A failure that ends one gRPC call with a status, and nothing else. */
export class GrpcError extends Error {
  override readonly name = "GrpcError";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }

  get status(): GrpcStatus {
    return { code: this.code, message: this.message };
  }
}

/**
 * `grpc-message` as it travels: UTF-8, with everything but printable ASCII and `%` itself
 * percent-encoded (gRPC over HTTP/2, "Status-Message").
 */
export function encodeGrpcMessage(message: string): string {
  let encoded = "";
  for (const byte of Buffer.from(message, "utf8")) {
    encoded +=
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return encoded;
}

/** The reverse of {@link encodeGrpcMessage}; invalid escapes are kept as they are, as the spec asks. */
export function decodeGrpcMessage(encoded: string): string {
  if (!encoded.includes("%")) return encoded;
  const bytes: number[] = [];
  for (let at = 0; at < encoded.length; at++) {
    const escape = /^%[0-9a-fA-F]{2}/.exec(encoded.slice(at, at + 3));
    if (escape === null) {
      bytes.push(encoded.charCodeAt(at) & 0xff);
    } else {
      bytes.push(Number.parseInt(escape[0].slice(1), 16));
      at += 2;
    }
  }
  return Buffer.from(bytes).toString("utf8");
}
