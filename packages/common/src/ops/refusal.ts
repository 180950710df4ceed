import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock } from "../clock.ts";
import { isHostHeader } from "./request-target.ts";

/** How long a refused client may go on sending before its connection is closed under it. */
const LINGER_MS = 500;

const HEADERS = { "Content-Type": "text/plain; charset=utf-8", Connection: "close" };

/** How Go's HTTP server turns a request down: the status line behind `HTTP/1.1`, and the body. */
export interface Refusal {
  readonly code: number;
  readonly reason: string;
  readonly body: string;
}

export const BAD_REQUEST = refusal(400, "Bad Request");
export const HEAD_TOO_LARGE = refusal(431, "Request Header Fields Too Large");
const MALFORMED_HOST = refusal(400, "Bad Request: malformed Host header");
const MISSING_HOST = refusal(400, "Bad Request: missing required Host header");
const UNKNOWN_ENCODING: Refusal = {
  code: 501,
  reason: "Not Implemented",
  body: "Unsupported transfer encoding",
};

/** The body of most is the status again. */
function refusal(code: number, reason: string): Refusal {
  return { code, reason, body: `${code} ${reason}` };
}

/** What Go's HTTP server holds against a head that Node's has let through, if anything. */
export function headProblem(request: IncomingMessage): Refusal | undefined {
  const { host: hosts = [], "transfer-encoding": encodings = [] } = request.headersDistinct;
  const isHttp11 = request.httpVersionMajor === 1 && request.httpVersionMinor >= 1;
  if (encodings.some((encoding) => encoding.toLowerCase() !== "chunked")) return UNKNOWN_ENCODING;
  if (hosts.length > 1) return BAD_REQUEST;
  if (hosts.length === 0 && isHttp11) return MISSING_HOST;
  return isHostHeader(hosts[0] ?? "") ? undefined : MALFORMED_HOST;
}

/** Turn a request down that was read: the answer has no length and ends with the connection. */
export function refuseRequest(response: ServerResponse, { code, reason, body }: Refusal): void {
  response.shouldKeepAlive = false;
  response.useChunkedEncodingByDefault = false;
  response.sendDate = false;
  response.writeHead(code, reason, Object.entries(HEADERS).flat());
  response.end(body);
}

/** The same for a request that could not be read, where there is no response to write to. */
export function refuse(socket: Socket, clock: Clock, { code, reason, body }: Refusal): void {
  const headers = Object.entries(HEADERS).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${code} ${reason}\r\n${headers.join("")}\r\n${body}`);
  // Closing at once with bytes unread would reset the connection, and the answer with it.
  const cancel = clock.schedule(LINGER_MS, () => {
    socket.destroy();
  });
  socket.once("close", cancel);
}
