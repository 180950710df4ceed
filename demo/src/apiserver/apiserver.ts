import { randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { STATUS_CODES } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Duplex } from "node:stream";
import { Client } from "@reachback/client";
import type { ClientOptions } from "@reachback/client";
import type { Cluster } from "../cluster/cluster.ts";
import { listObject } from "../cluster/objects.ts";
import { failure } from "../cluster/status.ts";
import type { Status } from "../cluster/status.ts";
import { listen } from "../program.ts";
import type { Log, Running } from "../program.ts";
import { Forwarder } from "./forwarder.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import { routeOf } from "./route.ts";
import type { Route } from "./route.ts";
import { tableOf } from "./table.ts";

export interface ApiserverOptions {
  readonly cluster: Cluster;
  /** The frontend of a Reachback server that everything beyond this process is reached through. */
  readonly frontend: ClientOptions;
  readonly bindAddress: string;
  readonly port: number;
  readonly certPath: string;
  readonly keyPath: string;
  /** Signed the certificate, and is what kubectl will trust. */
  readonly caPath: string;
  readonly kubeletCaPath: string;
  readonly kubeletClientCertPath: string;
  readonly kubeletClientKeyPath: string;
  /** Where to write a kubeconfig with a new token. */
  readonly kubeconfigPath: string;
  /** Where that says the apiserver is. */
  readonly advertisedUrl: string;
}

/** Start an apiserver; when it listens there is a kubeconfig for it. */
export async function startApiserver(options: ApiserverOptions, log: Log): Promise<Running> {
  const token = randomBytes(24).toString("base64url");
  const client = new Client(options.frontend);
  const kubeletTls = {
    ca: readFileSync(options.kubeletCaPath),
    cert: readFileSync(options.kubeletClientCertPath),
    key: readFileSync(options.kubeletClientKeyPath),
  };
  const forwarder = new Forwarder(client, kubeletTls, log);
  const route = (request: IncomingMessage): Route => {
    log("request", { method: request.method, path: request.url, upgrade: request.headers.upgrade });
    return isAuthorized(request, token)
      ? routeOf(options.cluster, request.url ?? "/")
      : { kind: "failure", status: failure(401, "Unauthorized", "Unauthorized") };
  };

  const server = createServer(
    { cert: readFileSync(options.certPath), key: readFileSync(options.keyPath) },
    (request, response) => {
      const target = route(request);
      if (target.kind === "forward") {
        forwarder.forward(request, response, target.endpoint, (status) => {
          answerJson(response, status, status.code);
        });
      } else {
        answer(request, response, target);
      }
    },
  );
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => undefined);
    const target = route(request);
    const refuse = (status: Status) => {
      refuseUpgrade(socket, status);
    };
    if (target.kind === "forward") {
      forwarder.forwardUpgrade(request, socket, head, target.endpoint, refuse);
    } else {
      refuse(
        target.kind === "failure" ? target.status : failure(400, "nothing to upgrade to here"),
      );
    }
  });
  await listen(server, options.port, options.bindAddress);
  const { advertisedUrl: url, kubeconfigPath } = options;
  writeKubeconfig(kubeconfigPath, { url, ca: readFileSync(options.caPath), token });
  log("kubeconfig.written", { path: kubeconfigPath, url });
  return {
    stop: () => {
      client.close();
      server.close();
      server.closeAllConnections();
    },
  };
}

function isAuthorized({ headers }: IncomingMessage, token: string): boolean {
  const given = Buffer.from(headers.authorization ?? "");
  const wanted = Buffer.from(`Bearer ${token}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

function answer(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  route: Exclude<Route, { readonly kind: "forward" }>,
): void {
  const wantsTable = headers.accept?.includes("as=Table") ?? false;
  if (route.kind === "failure") {
    answerJson(response, route.status, route.status.code);
  } else if (method !== "GET") {
    const message = "this apiserver is a test double: what there is cannot be changed";
    answerJson(response, failure(405, message, "MethodNotAllowed"), 405);
  } else if (route.kind === "document") {
    answerJson(response, route.document);
  } else if (route.kind === "object") {
    const { object } = route;
    answerJson(response, wantsTable ? tableOf(object.kind, [object]) : object);
  } else {
    const { itemKind, objects } = route;
    answerJson(response, wantsTable ? tableOf(itemKind, objects) : listObject(itemKind, objects));
  }
}

function answerJson(response: ServerResponse, document: object, code = 200): void {
  response.statusCode = code;
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(document));
}

function refuseUpgrade(socket: Duplex, status: Status): void {
  const { code = 500 } = status;
  const body = JSON.stringify(status);
  socket.end(
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? "Refused"}\r\nconnection: close\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}
