import type { IncomingMessage } from "node:http";
import { BadRequestAnswer } from "./connect-answers.ts";

/** Characters that Go accepts in a Host header (httpguts.ValidHostHeader). */
const HOST_HEADER = /^[A-Za-z0-9!$%&'()*+,\-./:;=@[\]_~]*$/;

/**
 * The endpoint of a CONNECT request, `host:port`: its request target without any user name. As in
 * Go, the port may be missing (the agent then says so) but not be a name.
 *
 * @returns the raw answer if the request is refused.
 */
export function connectTarget(
  request: IncomingMessage,
): { readonly address: string } | { readonly refusal: string } {
  const encoding = request.headers["transfer-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "chunked") {
    return { refusal: BadRequestAnswer.transferEncoding };
  }
  const hostHeaders = request.rawHeaders.filter(
    (name, index) => index % 2 === 0 && name.toLowerCase() === "host",
  );
  if (hostHeaders.length > 1) return { refusal: BadRequestAnswer.malformed };
  if (!HOST_HEADER.test(request.headers.host ?? "")) {
    return { refusal: BadRequestAnswer.malformedHost };
  }
  const target = request.url ?? "";
  const address = target.slice(target.lastIndexOf("@") + 1);
  if (!isAuthority(address)) return { refusal: BadRequestAnswer.malformed };
  return { address };
}

/** Whether Go's URL parser takes it for a host with an optional numeric port. */
function isAuthority(address: string): boolean {
  return /^(?:\[[^\][]*\]|[^\][:]*)(?::[0-9]*)?$/.test(address);
}
