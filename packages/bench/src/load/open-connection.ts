import { connect } from "node:net";
import type { NetConnectOpts } from "node:net";
import { Client } from "@reachback/client";
import { StreamConnection } from "./load-connection.ts";
import type { LoadConnection } from "./load-connection.ts";
import type { Route } from "./route.ts";

/** Bytes given to a socket ahead of what the kernel takes. */
const WRITE_AHEAD_BYTES = 1024 * 1024;

/** All sockets read into this one: what comes is counted, not kept. */
const READ_BUFFER = Buffer.allocUnsafe(256 * 1024);

/** @throws {Error} if it does not open in time. */
export function openConnection(route: Route, timeoutMs: number): Promise<LoadConnection> {
  switch (route.kind) {
    case "tcp":
      return openSocket({ host: "127.0.0.1", port: route.port }, undefined, timeoutMs);
    case "unix":
      return openSocket({ path: route.path }, undefined, timeoutMs);
    case "connect":
      return openSocket({ path: route.path }, route.endpoint, timeoutMs);
    case "grpc":
      return openByClient(route.path, route.endpoint, timeoutMs);
  }
}

/** `endpoint`, if there is one, is asked for by HTTP CONNECT. */
function openSocket(
  address: NetConnectOpts,
  endpoint: string | undefined,
  timeoutMs: number,
): Promise<LoadConnection> {
  return new Promise((resolve, reject) => {
    let answer: string | undefined = endpoint === undefined ? undefined : "";
    const onRead = (byteCount: number) => {
      if (answer === undefined) {
        connection.count(byteCount);
        return true;
      }
      answer += READ_BUFFER.toString("latin1", 0, byteCount);
      const headEnd = answer.indexOf("\r\n\r\n");
      if (headEnd < 0) return true;
      if (!/^HTTP\/1\.[01] 200 /.test(answer)) {
        fail(`refused: ${answer.slice(0, answer.indexOf("\r\n"))}`);
        return true;
      }
      // Nothing follows the head: the endpoint never speaks first.
      answer = undefined;
      succeed();
      return true;
    };
    const options = {
      ...address,
      noDelay: true,
      highWaterMark: WRITE_AHEAD_BYTES,
      onread: { buffer: READ_BUFFER, callback: onRead },
    };
    const socket = connect(options, () => {
      if (endpoint === undefined) succeed();
      else socket.write(`CONNECT ${endpoint} HTTP/1.1\r\nHost: ${endpoint}\r\n\r\n`);
    });
    const connection = new StreamConnection(socket);
    const succeed = () => {
      clearTimeout(timer);
      resolve(connection);
    };
    const fail = (reason: string) => {
      clearTimeout(timer);
      connection.destroy();
      reject(new Error(reason));
    };
    const timer = setTimeout(() => {
      fail(`not open after ${timeoutMs} ms`);
    }, timeoutMs);
    // Without effect once it is open.
    connection.handler = { received: () => undefined, closed: fail };
  });
}

const clients = new Map<string, Client>();

async function openByClient(
  path: string,
  endpoint: string,
  timeoutMs: number,
): Promise<LoadConnection> {
  let client = clients.get(path);
  if (client === undefined) {
    client = new Client({ protocol: "grpc", address: { kind: "unix", path } });
    clients.set(path, client);
  }
  const onRead = (bytes: Buffer) => {
    connection.count(bytes.length);
  };
  const connection = new StreamConnection(await client.dial(endpoint, { timeoutMs, onRead }));
  return connection;
}
