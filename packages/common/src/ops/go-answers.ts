import { STATUS_CODES } from "node:http";
import type { OpsResponse } from "./ops-route.ts";

const HTML_ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
};

/** `text` where HTML expects a text or an attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => HTML_ESCAPES[character] ?? character);
}

/** What Go's `http.Error` answers: a line of text that no browser takes for anything else. */
export function errorAnswer(status: number, text: string): OpsResponse {
  return {
    status,
    body: `${text}\n`,
    headers: {
      "Content-Type": "text/plain; charset=utf-8",
      "X-Content-Type-Options": "nosniff",
    },
  };
}

/** What Go's `http.Redirect` answers: a line of HTML for GET, and none for other methods. */
export function redirectAnswer(status: 301 | 307, location: string, method: string): OpsResponse {
  const target = percentEncodeNonAscii(location);
  if (method !== "GET" && method !== "HEAD") {
    return { status, body: "", headers: { Location: target } };
  }
  return {
    status,
    body:
      method === "GET"
        ? `<a href="${escapeHtml(target)}">${STATUS_CODES[status] ?? ""}</a>.\n\n`
        : "",
    headers: { "Content-Type": "text/html; charset=utf-8", Location: target },
  };
}

/** Request targets arrive as bytes, one per character; a header may only hold ASCII. */
function percentEncodeNonAscii(location: string): string {
  return location.replace(
    /[^\x20-\x7e]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`,
  );
}
