import assert from "node:assert/strict";
import { once } from "node:events";
import { connect as connectTcp, createServer as createTcpServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { connect, createServer } from "node:tls";
import { createTestPki } from "../../../../test/support/pki.ts";
import { alpnProblem, describeTlsError } from "../../src/tls/describe-tls-error.ts";

const pki = createTestPki();

/** What a TLS client says of a server that answers its hello with `answer`, or resets for none. */
async function clientProblem(answer: Buffer | undefined): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => {
      if (answer === undefined) socket.resetAndDestroy();
      else socket.end(answer);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: "127.0.0.1", ca: [pki.agentCa.cert] });
  const [error] = (await once(client, "error")) as [Error];
  client.destroy();
  server.close();
  await once(server, "close");
  return describeTlsError(error, "server");
}

/** What a TLS server says of a client that sends `bytes`. */
async function serverProblem(bytes: string): Promise<string> {
  const { cert, key } = pki.serverAgent;
  const server = createServer({ cert, key });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connectTcp(port, "127.0.0.1");
  client.on("error", () => undefined);
  client.end(bytes);
  const [error] = (await once(server, "tlsClientError")) as [Error];
  client.destroy();
  server.close();
  await once(server, "close");
  return describeTlsError(error, "client");
}

/** A fatal alert as a server sends it before there are keys. */
function alertRecord(number: number): Buffer {
  return Buffer.from([21, 3, 3, 0, 2, 2, number]);
}

describe("describeTlsError", () => {
  const alerts: readonly (readonly [number: number, sentence: string, code: string])[] = [
    [
      40,
      "the server refused the handshake: no common cipher suite, or it wants a certificate",
      "HANDSHAKE_FAILURE",
    ],
    [42, "the server refused the handshake: bad certificate", "BAD_CERTIFICATE"],
    [43, "the server refused the handshake: unsupported certificate", "UNSUPPORTED_CERTIFICATE"],
    [45, "the server says that our certificate has expired", "CERTIFICATE_EXPIRED"],
    [46, "the server refused the handshake: certificate unknown", "CERTIFICATE_UNKNOWN"],
    [48, "the server does not know the authority that signed our certificate", "UNKNOWN_CA"],
    [70, "the server accepts no TLS version that we offer", "PROTOCOL_VERSION"],
    [80, "the server refused the handshake: internal error", "INTERNAL_ERROR"],
    [116, "the server wants a certificate and was given none", "CERTIFICATE_REQUIRED"],
    [
      120,
      "the server speaks none of the protocols that we offer (ALPN)",
      "NO_APPLICATION_PROTOCOL",
    ],
  ];
  for (const [number, sentence, code] of alerts) {
    it(`explains the alert ${code.toLowerCase()}`, async () => {
      const problem = await clientProblem(alertRecord(number));
      assert.ok(problem.startsWith(`${sentence} (ERR_SSL_`), problem);
      assert.ok(problem.endsWith(`ALERT_${code})`), problem);
    });
  }

  it("explains a server that does not speak TLS", async () => {
    assert.equal(
      await clientProblem(Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")),
      "the server does not speak TLS (ERR_SSL_WRONG_VERSION_NUMBER)",
    );
  });

  it("explains a server that hangs up", async () => {
    const sentence =
      "the server hung up during the TLS handshake or right after it; it may not accept our certificate (ECONNRESET)";
    assert.equal(await clientProblem(Buffer.alloc(0)), sentence);
    assert.equal(await clientProblem(undefined), sentence);
  });

  it("explains a client that does not speak TLS", async () => {
    assert.equal(
      await serverProblem("GET / HTTP/1.1\r\n\r\n"),
      "the client speaks plain HTTP, not TLS (ERR_SSL_HTTP_REQUEST)",
    );
    assert.equal(
      await serverProblem("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      "the client does not speak TLS (ERR_SSL_WRONG_VERSION_NUMBER)",
    );
  });

  it("explains a client that hangs up", async () => {
    assert.equal(
      await serverProblem(""),
      "the client hung up during the TLS handshake; it may not accept our certificate (ECONNRESET)",
    );
  });

  it("takes the reason of a refusal from the socket, where Node keeps it", () => {
    const error = Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
    assert.equal(
      describeTlsError(error, "client", { authorizationError: "CERT_HAS_EXPIRED" }),
      "the client's certificate, or its authority's, has expired (CERT_HAS_EXPIRED)",
    );
    assert.match(describeTlsError(error, "client", { authorizationError: null }), /hung up/);
  });

  it("passes on what it does not know, without OpenSSL's file names", () => {
    const error = Object.assign(new Error("80:error:0A:SSL routines:f:bad thing:../ssl/x.c:1:\n"), {
      code: "ERR_SSL_BAD_THING",
      reason: "bad thing",
    });
    assert.equal(describeTlsError(error, "server"), "bad thing (ERR_SSL_BAD_THING)");
    assert.equal(describeTlsError(new Error("plain"), "server"), "plain");
    assert.equal(describeTlsError("no error", "server"), "no error");
    assert.equal(describeTlsError(undefined, "server"), "undefined");
  });
});

describe("alpnProblem", () => {
  it("is none if the peer agreed on what is needed", () => {
    assert.equal(alpnProblem("h2", ["h2"], "server"), undefined);
  });

  it("names what the peer agreed on, and what is needed", () => {
    assert.equal(
      alpnProblem(false, ["h2"], "server"),
      "the server agreed on no protocol where h2 is needed (ALPN)",
    );
    assert.equal(
      alpnProblem("x", ["h2", "http/1.1"], "client"),
      'the client agreed on "x" where h2 or http/1.1 is needed (ALPN)',
    );
  });
});
