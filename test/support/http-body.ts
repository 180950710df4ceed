import { get } from "node:http";
import type { RequestOptions } from "node:http";

/** The body of an answer to GET, whatever its status. */
export function httpBody(url: string, options: RequestOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    get(url, options, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (piece: string) => (body += piece));
      answer.once("end", () => {
        resolve(body);
      });
    }).once("error", reject);
  });
}
