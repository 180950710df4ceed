import type { IncomingMessage } from "node:http";
import { BadRequestAnswer } from "./connect-answers.ts";

/** Characters that Go accepts in a Host header (httpguts.ValidHostHeader). */
const HOST_HEADER = /^[A-Za-z0-9!$%&'()*+,\-./:;=@[\]_~]*$/;

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
  const target = requestTarget(request);
  if (target === undefined) return { refusal: versionRefusal(request) };
  const refusal = headerRefusal(request);
  if (refusal !== undefined) return { refusal };
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
  if (hosts.length > 1) return BadRequestAnswer.malformed;
  return HOST_HEADER.test(hosts[0] ?? "") ? undefined : BadRequestAnswer.malformedHost;
}

/** `undefined` if this is not HTTP/1. */
function requestTarget({ url = "", httpVersionMajor }: IncomingMessage): string | undefined {
  if (httpVersionMajor === 1) return url;
  // Node reads `CONNECT  HTTP/1.1`, where the target is empty, as a target without a version.
  return httpVersionMajor === 0 && /^HTTP\/1\.\d$/.test(url) ? "" : undefined;
}

function versionRefusal({ httpVersionMajor }: IncomingMessage): string {
  // Without a version it is no request line at all.
  return httpVersionMajor === 0 ? BadRequestAnswer.malformed : BadRequestAnswer.version;
}
