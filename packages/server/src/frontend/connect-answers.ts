import type { DialFailure } from "../dial/frontend-end.ts";

/** The whole answer to a CONNECT that succeeded: clients refuse any byte behind it but the tunnel's. */
export const CONNECTION_ESTABLISHED = "HTTP/1.1 200 Connection Established\r\n\r\n";

const TEXT_UTF8 = "Content-Type: text/plain; charset=utf-8\r\n";

/**
 * The raw answer to a CONNECT whose dial failed; the connection is closed behind it. Bodies have no
 * length: they end with the connection, as upstream's do. Empty when upstream says nothing.
 */
export function dialFailureAnswer(failure: DialFailure): string {
  switch (failure.kind) {
    case "noAgent":
      return (
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain\r\n\r\n" +
        "currently no tunnels available: No agent available"
      );
    case "refused":
      return (
        `HTTP/1.1 ${statusOfDialError(failure.error)}\r\nConnection: close\r\n${TEXT_UTF8}\r\n` +
        failure.error
      );
    case "limit":
      return errorAnswer("503 Service Unavailable", failure.error);
    case "agentLost":
      return (
        `HTTP/1.1 502 Bad Gateway\r\n${TEXT_UTF8}\r\n` +
        "Backend context error: context canceled\r\n"
      );
    case "timeout":
      return (
        `HTTP/1.1 504 Gateway Timeout\r\n${TEXT_UTF8}\r\n` +
        "Backend dial timeout: timed out waiting for backend dial\r\n"
      );
    case "dropped":
      return "";
  }
}

/** The HTTP status of an agent's dial error: by the words in it, first match first. */
function statusOfDialError(error: string): string {
  const text = error.toLowerCase();
  if (["i/o timeout", "deadline exceeded", "timeout"].some((words) => text.includes(words))) {
    return "504 Gateway Timeout";
  }
  return text.includes("too many open files") ? "503 Service Unavailable" : "502 Bad Gateway";
}

/** Answers to requests that are no usable CONNECT; the connection is closed behind each. */
export const BadRequestAnswer = {
  malformed: errorAnswer("400 Bad Request"),
  malformedHost: errorAnswer("400 Bad Request: malformed Host header"),
  missingHost: errorAnswer("400 Bad Request: missing required Host header"),
  headTooLarge: errorAnswer("431 Request Header Fields Too Large"),
  version: errorAnswer("505 HTTP Version Not Supported: unsupported protocol version"),
  transferEncoding: errorAnswer("501 Not Implemented", "Unsupported transfer encoding"),
} as const;

function errorAnswer(status: string, body = status): string {
  return `HTTP/1.1 ${status}\r\n${TEXT_UTF8}Connection: close\r\n\r\n${body}`;
}

/** The answer to an `Expect` that is not `100-continue`; the connection is closed behind it. */
export function expectationFailedAnswer(nowMs: number): string {
  const date = new Date(nowMs).toUTCString();
  return `HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nDate: ${date}\r\nContent-Length: 0\r\n\r\n`;
}

/** The body of the answer to every other method. */
export const CONNECT_ONLY = "this proxy only supports CONNECT passthrough\n";

/** The headers of that answer, as name, value, name, value. */
export function connectOnlyHeaders(nowMs: number): string[] {
  return [
    "Content-Type",
    "text/plain; charset=utf-8",
    "X-Content-Type-Options",
    "nosniff",
    "Date",
    new Date(nowMs).toUTCString(),
    "Content-Length",
    String(CONNECT_ONLY.length),
  ];
}

/** That answer in raw, for whom Node's HTTP server has none in the right version. */
export function connectOnlyAnswer(version: "1.0" | "1.1", method: string, nowMs: number): string {
  const headers = connectOnlyHeaders(nowMs);
  if (version === "1.1") headers.push("Connection", "close");
  const lines = headers.map((text, index) => (index % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  const body = method === "HEAD" ? "" : CONNECT_ONLY;
  return `HTTP/${version} 405 Method Not Allowed\r\n${lines.join("")}\r\n${body}`;
}
