import { createServer } from "node:http";
import type { Server } from "node:http";
import { pipeline } from "node:stream";
import type { Log } from "../program.ts";

/** A pod, as seen from outside: a plain HTTP server. */
export function createPod(name: string, log: Log): Server {
  const server = createServer((request, response) => {
    const { method, url } = request;
    log("request", { method, path: url });
    if (url === "/echo") {
      response.setHeader("content-type", "application/octet-stream");
      pipeline(request, response, () => undefined);
    } else if (url === "/healthz") {
      response.end("ok");
    } else {
      response.setHeader("content-type", "text/plain");
      response.end(`hello from ${name}: ${method ?? ""} ${url ?? ""}\n`);
    }
  });
  // For as long as an upload takes.
  server.requestTimeout = 0;
  return server;
}
