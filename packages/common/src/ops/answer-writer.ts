import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { OpsResponse } from "./ops-route.ts";

/**
 * Write `answer` as Go's HTTP server would: the headers of the handler by name, then `Date`,
 * `Content-Length`, the `Content-Type` if it is the default one, and `Connection` only where it
 * says something.
 *
 * @returns when the last byte has been handed over.
 */
export async function writeAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  answer: OpsResponse,
  wallTimeMs: number,
): Promise<void> {
  const { status, body, headers = {} } = answer;
  const lines = Object.entries(headers)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .flat();
  const addDefault = (name: string, value: string | undefined) => {
    if (headers[name] === undefined && value !== undefined) lines.push(name, value);
  };
  addDefault("Date", new Date(wallTimeMs).toUTCString());
  if (!(body instanceof Readable)) {
    const length = Buffer.byteLength(body);
    if (length > 0 || request.method !== "HEAD") addDefault("Content-Length", String(length));
    if (length > 0) addDefault("Content-Type", "text/plain; charset=utf-8");
  }
  addDefault("Connection", connectionHeader(request, response));
  // Otherwise Node adds a `Connection` and a `Keep-Alive` of its own.
  response.removeHeader("Connection");
  response.writeHead(status, lines);
  if (body instanceof Readable) await pipeline(body, response);
  else response.end(body);
}

function connectionHeader(request: IncomingMessage, response: ServerResponse): string | undefined {
  const isHttp11 = request.httpVersionMajor === 1 && request.httpVersionMinor >= 1;
  if (response.shouldKeepAlive) return isHttp11 ? undefined : "keep-alive";
  return isHttp11 ? "close" : undefined;
}
