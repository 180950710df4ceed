import { get } from "node:http";
import { text } from "node:stream/consumers";

const TIMEOUT_MS = 5_000;

export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
}

/**
 * GET a path of a loopback port, on a connection of its own. Nothing of it stays, where `fetch` keeps a
 * pool for each port that it has ever seen.
 *
 * @throws {Error} if nobody answers, or not within five seconds.
 */
export function httpGet(port: number, path: string): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path, agent: false, timeout: TIMEOUT_MS } as const;
    const request = get(options, (response) => {
      text(response).then((body) => {
        resolve({ status: response.statusCode ?? 0, body });
      }, reject);
    });
    request.on("timeout", () => {
      request.destroy(new Error(`no answer to GET ${path} on port ${port}`));
    });
    request.on("error", reject);
  });
}
