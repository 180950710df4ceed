import { createServer } from "node:http";
import type { Server } from "node:http";
import type { EndpointLog } from "./endpoint-log.ts";

export const POD_GREETING = "hello from the pod";

/** A pod: any plain HTTP server. */
export function createPod(log: EndpointLog): Server {
  return createServer((request, response) => {
    log("request", { method: request.method, path: request.url });
    response.setHeader("content-type", "text/plain");
    response.end(`${POD_GREETING}\n`);
  });
}
