import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Server } from "node:https";
import { TLSSocket } from "node:tls";
import type { Clock } from "@reachback/common";
import { peerCertificateNames } from "../peer-certificate-names.ts";
import type { EndpointLog } from "./endpoint-log.ts";

export interface DemoKubeletOptions {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Whose certificates callers must have; without it anybody is served. */
  readonly clientCa: Buffer | undefined;
}

/** A kubelet's log of a container that writes a few lines, slowly, and ends. */
export const LOG_PATH = "/containerLogs/default/web/app?follow=true&timestamps=true";
export const LOG_LINE_COUNT = 6;
const LOG_LINE_INTERVAL_MS = 100;

export const POD_LIST_PATH = "/pods";

/** The header in which it says who its caller is, to show that it knows. */
export const CALLER_HEADER = "x-caller";

/** As much of a kubelet as the demo asks for: its list of pods, and the log of a container. */
export function createKubelet(options: DemoKubeletOptions, clock: Clock, log: EndpointLog): Server {
  const { cert, key, clientCa } = options;
  const clientAuthentication =
    clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  const server = createServer({ cert, key, ...clientAuthentication }, (request, response) => {
    const caller = callerOf(request);
    log("request", { method: request.method, path: request.url, caller });
    response.setHeader(CALLER_HEADER, caller);
    answer(request, response, clock);
  });
  server.on("tlsClientError", (error) => {
    log("handshake.failed", { error: error.message });
  });
  return server;
}

function answer(request: IncomingMessage, response: ServerResponse, clock: Clock): void {
  const [path = ""] = (request.url ?? "").split("?");
  if (path === POD_LIST_PATH) {
    const pod = { metadata: { namespace: "default", name: "web" } };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ kind: "PodList", apiVersion: "v1", items: [pod] }));
  } else if (LOG_PATH.startsWith(`${path}?`)) {
    response.setHeader("content-type", "text/plain");
    writeLines(response, clock, 1);
  } else {
    response.statusCode = 404;
    response.end("404 page not found\n");
  }
}

function writeLines(response: ServerResponse, clock: Clock, lineNumber: number): void {
  if (response.destroyed) return;
  const time = new Date(clock.wallTimeMs()).toISOString();
  response.write(`${time} line ${lineNumber} of ${LOG_LINE_COUNT}\n`);
  if (lineNumber === LOG_LINE_COUNT) {
    response.end();
    return;
  }
  clock.schedule(LOG_LINE_INTERVAL_MS, () => {
    writeLines(response, clock, lineNumber + 1);
  });
}

function callerOf({ socket }: IncomingMessage): string {
  const names = socket instanceof TLSSocket ? peerCertificateNames(socket) : undefined;
  return names?.subject ?? "anonymous";
}
