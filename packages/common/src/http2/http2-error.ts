/** Error codes of HTTP/2 (RFC 9113 section 7). */
export const Http2ErrorCode = {
  NO_ERROR: 0x0,
  PROTOCOL_ERROR: 0x1,
  INTERNAL_ERROR: 0x2,
  FLOW_CONTROL_ERROR: 0x3,
  SETTINGS_TIMEOUT: 0x4,
  STREAM_CLOSED: 0x5,
  FRAME_SIZE_ERROR: 0x6,
  REFUSED_STREAM: 0x7,
  CANCEL: 0x8,
  COMPRESSION_ERROR: 0x9,
  CONNECT_ERROR: 0xa,
  ENHANCE_YOUR_CALM: 0xb,
  INADEQUATE_SECURITY: 0xc,
  HTTP_1_1_REQUIRED: 0xd,
} as const;

const NAMES: Readonly<Record<number, string>> = Object.fromEntries(
  Object.entries(Http2ErrorCode).map(([name, code]) => [code, name]),
);

/** The name of an HTTP/2 error code, for logs and messages. */
export function http2ErrorName(code: number): string {
  return NAMES[code] ?? `0x${code.toString(16)}`;
}

/**
 * The peer broke HTTP/2 in a way that costs the whole connection (RFC 9113 section 5.4.1). What
 * costs one stream only is answered with RST_STREAM where it is found, and never thrown.
 */
export class Http2Error extends Error {
  override readonly name = "Http2Error";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}
