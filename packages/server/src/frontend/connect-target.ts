import type { IncomingMessage } from "node:http";
import { BadRequestAnswer } from "./connect-answers.ts";

/** Characters that Go accepts in a Host header (httpguts.ValidHostHeader). */
const HOST_HEADER = /^[A-Za-z0-9!$%&'()*+,\-./:;=@[\]_~]*$/;

/** Control characters: Go accepts none but the tab in a value (httpguts.ValidHeaderFieldValue). */
const FORBIDDEN_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/;

/** A host, an IPv6 address in brackets perhaps, with an optional numeric port: as Go's URLs have it. */
const AUTHORITY = /^(?:\[[^\][]*\]|[\w\-.~!$&'()*+,;=<>"\x80-\xff]*)(?::\d*)?$/;

/**
 * The endpoint of a CONNECT request, `host:port`: as in Go, what its request target holds in front
 * of any path and behind any user name, or the Host header where that is nothing. The port may be
 * missing (the agent then says so) but not be a name.
 *
 * @returns the raw answer if the request is refused.
 */
export function connectTarget(
  request: IncomingMessage,
): { readonly address: string } | { readonly refusal: string } {
  // Node reads `CONNECT  HTTP/1.1`, where the target is empty, as a target without a version.
  const isEmpty = request.httpVersionMajor === 0 && /^HTTP\/1\.\d$/.test(request.url ?? "");
  const refusal = (isEmpty ? undefined : versionRefusal(request)) ?? headerRefusal(request);
  if (refusal !== undefined) return { refusal };
  const target = isEmpty ? "" : (request.url ?? "");
  const authority = /^[^/?#]*/.exec(target)?.[0] ?? "";
  const address = authority.slice(authority.lastIndexOf("@") + 1);
  if (!AUTHORITY.test(address)) return { refusal: BadRequestAnswer.malformed };
  return { address: address === "" ? (request.headers.host ?? "") : address };
}

/** What Go's HTTP server holds against the headers of any request, if anything. */
export function headerRefusal(request: IncomingMessage): string | undefined {
  const { host: hosts = [], "transfer-encoding": encodings = [] } = request.headersDistinct;
  if (encodings.some((encoding) => encoding.toLowerCase() !== "chunked")) {
    return BadRequestAnswer.transferEncoding;
  }
  if (hosts.length > 1 || request.rawHeaders.some((text) => FORBIDDEN_IN_VALUE.test(text))) {
    return BadRequestAnswer.malformed;
  }
  return HOST_HEADER.test(hosts[0] ?? "") ? undefined : BadRequestAnswer.malformedHost;
}

/** What Go's HTTP server says of a version other than HTTP/1; `undefined` if it is that. */
export function versionRefusal({ httpVersionMajor }: IncomingMessage): string | undefined {
  if (httpVersionMajor === 1) return undefined;
  // Without a version it is no request line at all.
  return httpVersionMajor === 0 ? BadRequestAnswer.malformed : BadRequestAnswer.version;
}
