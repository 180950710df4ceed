import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import type { TLSSocket } from "node:tls";
import type { AddressInfo } from "node:net";
import type { Client } from "@reachback/client";
import { startCluster } from "../support/cluster.ts";
import type { TestCluster } from "../support/cluster.ts";
import { createTestPki } from "../support/pki.ts";

// TLS between a client and an endpoint, on top of a connection: what an apiserver has with kubelets.

async function startTlsEndpoint(
  t: TestContext,
  served: (socket: TLSSocket) => void,
): Promise<string> {
  const { cert, key } = createTestPki().kubelet;
  const sockets = new Set<TLSSocket>();
  const server = createTlsServer({ cert, key }, (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    served(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Errors of both layers, whenever they come. */
async function dialTls(client: Client, endpoint: string) {
  const connection = await client.dial(endpoint);
  const errors: string[] = [];
  connection.on("error", (error: Error) => errors.push(error.message));
  const { kubeletCa } = createTestPki();
  const socket = connectTls({ socket: connection, ca: kubeletCa.cert, servername: "localhost" });
  socket.on("error", (error: Error) => errors.push(error.message));
  await once(socket, "secureConnect");
  return { connection, socket, errors };
}

const CLIENTS: readonly (keyof TestCluster["clients"])[] = ["grpcUnix", "grpcTls", "connectTls"];

describe("TLS within a connection", () => {
  for (const name of CLIENTS) {
    it(`ends without an error when the endpoint closes first (${name})`, async (t) => {
      const { clients } = await startCluster(t);
      const endpoint = await startTlsEndpoint(t, (socket) => socket.end("bye"));
      for (let round = 0; round < 20; round++) {
        const { connection, socket, errors } = await dialTls(clients[name], endpoint);
        let text = "";
        socket.setEncoding("utf8").on("data", (piece: string) => {
          text += piece;
          // What an HTTP client does that is about to send its next request.
          if (round % 2 === 0) socket.write("more");
        });
        await Promise.all([once(socket, "close"), once(connection, "close")]);
        assert.equal(text, "bye");
        assert.deepEqual(errors, []);
      }
    });

    it(`gives a slow reader everything before the end (${name})`, async (t) => {
      const { clients } = await startCluster(t);
      const bytes = randomBytes(300_000);
      const endpoint = await startTlsEndpoint(t, (socket) => socket.end(bytes));
      const { socket, connection, errors } = await dialTls(clients[name], endpoint);
      const closed = Promise.all([once(socket, "close"), once(connection, "close")]);
      const received: Buffer[] = [];
      for await (const piece of socket as AsyncIterable<Buffer>) {
        received.push(piece);
        // Whatever has come meanwhile is dealt with before it reads on.
        for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      }
      await closed;
      assert.ok(Buffer.concat(received).equals(bytes));
      assert.equal(socket.readableEnded, true);
      assert.deepEqual(errors, []);
    });
  }
});
