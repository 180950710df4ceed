import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { connect, createServer } from "node:tls";
import type { ConnectionOptions, SecureVersion, TLSSocket } from "node:tls";
import { createTestPki } from "../../../../test/support/pki.ts";
import type { TestCertificate } from "../../../../test/support/pki.ts";
import { systemClock } from "../../src/clock.ts";
import { loadCaPool } from "../../src/tls/ca-pool.ts";
import type { CaPool } from "../../src/tls/ca-pool.ts";
import { opensslCiphers } from "../../src/tls/cipher-suites.ts";
import { clientTlsOptions } from "../../src/tls/client-tls-options.ts";
import type { ClientTlsSettings } from "../../src/tls/client-tls-options.ts";
import { loadKeyPair } from "../../src/tls/key-pair.ts";
import type { KeyPair } from "../../src/tls/key-pair.ts";
import { serverTlsOptions } from "../../src/tls/server-tls-options.ts";
import type { ServerTlsSettings } from "../../src/tls/server-tls-options.ts";
import { handshake } from "./handshake.ts";

const pki = createTestPki();
const HAS_OPENSSL = spawnSync("openssl", ["version"]).status === 0;
const HOUR_MS = 60 * 60 * 1000;
const past = {
  notBefore: new Date(Date.now() - 2 * HOUR_MS),
  notAfter: new Date(Date.now() - HOUR_MS),
};
const future = { notBefore: new Date(Date.now() + HOUR_MS) };

function pool(ca: TestCertificate): CaPool {
  return loadCaPool(ca.certPath, systemClock);
}

/** Loaded at a time when it was valid, as by a process that has run for longer. */
function pair(certificate: TestCertificate, nowMs = Date.now()): KeyPair {
  return loadKeyPair(certificate.certPath, certificate.keyPath, { wallTimeMs: () => nowMs });
}

const agentCa = pool(pki.agentCa);
const otherCa = pki.createCa("other CA");

const SERVER: ServerTlsSettings = {
  keyPair: pair(pki.serverAgent),
  clientCa: agentCa,
  alpnProtocols: ["h2"],
};
const CLIENT: ClientTlsSettings = {
  ca: agentCa,
  keyPair: pair(pki.agentClient),
  serverName: "localhost",
  alpnProtocols: ["h2"],
};

function shake(
  server: Partial<ServerTlsSettings>,
  client: Partial<ClientTlsSettings>,
  overrides: ConnectionOptions = {},
) {
  return handshake(serverTlsOptions({ ...SERVER, ...server }), {
    ...clientTlsOptions({ ...CLIENT, ...client }),
    ...overrides,
  });
}

const VERSIONS: readonly SecureVersion[] = ["TLSv1.2", "TLSv1.3"];

for (const maxVersion of VERSIONS) {
  describe(`TLS options over ${maxVersion}`, () => {
    it("connect two ends that know each other", async () => {
      const report = await shake({}, {}, { maxVersion });
      assert.equal(report.connected, true);
      assert.equal(report.client.protocol, maxVersion);
      assert.equal(report.client.alpn, "h2");
      assert.equal(report.server.alpn, "h2");
      assert.equal(report.client.problem, undefined);
    });

    it("connect a client without a certificate only where none is asked for", async () => {
      const open = await shake({ clientCa: undefined }, { keyPair: undefined }, { maxVersion });
      assert.equal(open.connected, true);

      const closed = await shake({}, { keyPair: undefined }, { maxVersion });
      assert.equal(closed.connected, false);
      assert.equal(
        closed.server.problem,
        "the client presented no certificate (ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE)",
      );
      const [alert, code] =
        maxVersion === "TLSv1.3"
          ? ["the server wants a certificate and was given none", "CERTIFICATE_REQUIRED"]
          : ["the server refused the handshake: no common", "HANDSHAKE_FAILURE"];
      assertStartsWith(closed.client.problem, alert);
      assert.ok(closed.client.problem?.endsWith(`ALERT_${code})`));
    });

    const badClients: readonly (readonly [string, () => KeyPair, string])[] = [
      [
        "of another CA",
        () => pair(pki.issue({ ca: otherCa, usage: "client" })),
        "wrong CA: the client's certificate is not signed by an authority in our CA file",
      ],
      [
        "that has expired",
        () =>
          pair(pki.issue({ ca: pki.agentCa, usage: "client", ...past }), +past.notBefore + 60_000),
        "the client's certificate, or its authority's, has expired",
      ],
      [
        "of the future",
        () => pair(pki.issue({ ca: pki.agentCa, ...future }), Date.now() + 2 * HOUR_MS),
        "the client's certificate, or its authority's, is not yet valid; is a clock wrong?",
      ],
      [
        "for servers",
        () => pair(pki.serverAgent),
        "the client's certificate is not meant for a client (extended key usage)",
      ],
    ];
    for (const [name, keyPair, problem] of badClients) {
      it(`refuse a client with a certificate ${name}`, async () => {
        const report = await shake({}, { keyPair: keyPair() }, { maxVersion });
        assert.equal(report.connected, false);
        assert.equal(report.server.secure, false);
        assertStartsWith(report.server.problem, `${problem} (`);
        if (maxVersion === "TLSv1.3") return;
        // Over TLS 1.3 the client's handshake is done before the server has seen its certificate.
        assert.equal(
          report.client.problem,
          "the server hung up during the TLS handshake or right after it; it may not accept our certificate (ECONNRESET)",
        );
      });
    }

    const badServers: readonly (readonly [string, () => KeyPair, string])[] = [
      [
        "of another CA",
        () => pair(pki.issue({ ca: otherCa, sans: ["localhost"] })),
        "wrong CA: the server's certificate is not signed by an authority in our CA file",
      ],
      [
        "that has expired",
        () =>
          pair(
            pki.issue({ ca: pki.agentCa, sans: ["localhost"], ...past }),
            +past.notBefore + 60_000,
          ),
        "the server's certificate, or its authority's, has expired",
      ],
      [
        "of the future",
        () => {
          const certificate = pki.issue({ ca: pki.agentCa, sans: ["localhost"], ...future });
          return pair(certificate, Date.now() + 2 * HOUR_MS);
        },
        "the server's certificate, or its authority's, is not yet valid; is a clock wrong?",
      ],
      [
        "for clients",
        () => pair(pki.agentClient),
        "the server's certificate is not meant for a server (extended key usage)",
      ],
      [
        "for another name",
        () => pair(pki.issue({ ca: pki.agentCa, sans: ["a.example", "10.0.0.1"] })),
        "wrong name: expected localhost, the server's certificate is for DNS:a.example, IP Address:10.0.0.1",
      ],
      [
        "that has the name as its common name only",
        () => pair(pki.issue({ ca: pki.agentCa, commonName: "localhost" })),
        "wrong name: expected localhost, the server's certificate is for no name at all",
      ],
    ];
    for (const [name, keyPair, problem] of badServers) {
      it(`refuse a server with a certificate ${name}`, async () => {
        const report = await shake({ keyPair: keyPair() }, {}, { maxVersion });
        assert.equal(report.connected, false);
        assert.equal(report.client.secure, false);
        assertStartsWith(report.client.problem, `${problem} (`);
      });
    }

    it("refuse a client that offers other protocols only", async () => {
      const report = await shake({}, { alpnProtocols: ["http/1.1"] }, { maxVersion });
      assert.equal(report.connected, false);
      assert.equal(
        report.server.problem,
        "the client offers none of the protocols spoken here (ALPN) (ERR_SSL_NO_APPLICATION_PROTOCOL)",
      );
      assert.match(
        report.client.problem ?? "",
        /^the server speaks none of the protocols that we offer \(ALPN\) \(.*NO_APPLICATION_PROTOCOL\)$/,
      );
    });

    it("agree on the server's preference among what the client offers", async () => {
      const report = await shake({}, { alpnProtocols: ["x", "h2"] }, { maxVersion });
      assert.equal(report.client.alpn, "h2");
    });

    it("leave it to the caller to refuse a peer without ALPN", async () => {
      const server = await shake({}, {}, { maxVersion, ALPNProtocols: [] });
      assert.equal(server.connected, true);
      assert.equal(server.server.alpn, false);
      const client = await shake({ alpnProtocols: [] }, {}, { maxVersion });
      assert.equal(client.client.alpn, false);
    });

    it("verify IP addresses, and send none as a name", async () => {
      for (const serverName of ["127.0.0.1", "::1", "[::1]", "::1%lo"]) {
        const report = await shake({}, { serverName }, { maxVersion });
        assert.equal(report.connected, true, serverName);
        assert.equal(clientTlsOptions({ ...CLIENT, serverName }).servername, undefined, serverName);
      }
      const wrong = await shake({}, { serverName: "127.0.0.2" }, { maxVersion });
      assert.match(wrong.client.problem ?? "", /^wrong name: expected 127\.0\.0\.2, /);
    });

    it("do not resume a session, which would skip the client's certificate", async () => {
      assert.equal(await isSessionResumed(maxVersion), false);
    });
  });
}

describe("TLS options", () => {
  const old = {
    minVersion: "TLSv1.1",
    maxVersion: "TLSv1.1",
    ciphers: "ALL:@SECLEVEL=0",
  } as const;

  it("refuse TLS 1.1, at the server", async () => {
    const report = await shake({}, {}, old);
    assert.equal(report.connected, false);
    assert.equal(
      report.server.problem,
      "the client offers no TLS version that is accepted here (ERR_SSL_UNSUPPORTED_PROTOCOL)",
    );
    assert.match(
      report.client.problem ?? "",
      /^the server accepts no TLS version that we offer \(.*PROTOCOL_VERSION\)$/,
    );
  });

  it("refuse TLS 1.1, at the client", async () => {
    const report = await handshake(
      { ...serverTlsOptions(SERVER), ...old },
      clientTlsOptions(CLIENT),
    );
    assert.equal(report.connected, false);
    assert.match(report.client.problem ?? "", /TLS version/);
  });

  it("refuse TLS 1.2 where 1.3 is the least", async () => {
    const report = await shake({ minVersion: "TLSv1.3" }, {}, { maxVersion: "TLSv1.2" });
    assert.match(report.server.problem ?? "", /no TLS version that is accepted here/);
    const client = await handshake(
      { ...serverTlsOptions(SERVER), maxVersion: "TLSv1.2" },
      clientTlsOptions({ ...CLIENT, minVersion: "TLSv1.3" }),
    );
    assert.equal(client.connected, false);
  });

  it("use the cipher suites they are given for TLS 1.2", async () => {
    const ciphers = opensslCiphers(["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"]);
    const cbc = await shake({ ciphers }, {}, { maxVersion: "TLSv1.2", ciphers });
    assert.equal(cbc.client.cipher, "ECDHE-RSA-AES128-SHA");
    const none = await shake({ ciphers }, {}, { maxVersion: "TLSv1.2" });
    assert.equal(
      none.server.problem,
      "the client offers no cipher suite that is accepted here (ERR_SSL_NO_SHARED_CIPHER)",
    );
  });

  it("allow TLS 1.3 only, if only its suites are given", async () => {
    const ciphers = opensslCiphers(["TLS_AES_128_GCM_SHA256"]);
    assert.equal((await shake({ ciphers }, {})).client.protocol, "TLSv1.3");
    const report = await shake({ ciphers }, {}, { maxVersion: "TLSv1.2" });
    assert.equal(report.connected, false);
  });

  it("offer no suite without forward secrecy or with CBC by default", async () => {
    for (const ciphers of [
      "AES128-GCM-SHA256",
      "ECDHE-RSA-AES128-SHA",
      "DHE-RSA-AES128-GCM-SHA256",
    ]) {
      const report = await shake({}, {}, { maxVersion: "TLSv1.2", ciphers });
      assert.equal(report.connected, false, ciphers);
    }
  });

  it("send host names as SNI, without the dot at the end", () => {
    const { servername } = clientTlsOptions({ ...CLIENT, serverName: "server.example." });
    assert.equal(servername, "server.example");
  });

  it("check the name they were made for, whatever the caller connects to", async () => {
    const report = await shake({}, { serverName: "b.example" }, { servername: "localhost" });
    assert.equal(report.connected, false);
    assert.match(report.client.problem ?? "", /^wrong name: expected b\.example, /);
  });

  it("trust a CA that another one signed, without the other, as Go does", (t) => {
    if (!HAS_OPENSSL) {
      t.skip("needs the openssl command");
      return;
    }
    return connectUnderIntermediate();
  });

  it("trust every CA in the file", async () => {
    const path = join(pki.dir, "two-cas.pem");
    writeFileSync(path, otherCa.cert + pki.agentCa.cert);
    const ca = loadCaPool(path, systemClock);
    const keyPair = pair(pki.issue({ ca: otherCa, sans: ["localhost"] }));
    const report = await shake({ keyPair, clientCa: ca }, { ca });
    assert.equal(report.connected, true, report.client.problem);
  });

  it("trust nobody but the CA file, whatever the environment says", () => {
    const { ca, rejectUnauthorized } = clientTlsOptions(CLIENT);
    assert.equal(Array.isArray(ca) && ca.length, 1);
    assert.equal(rejectUnauthorized, true);
  });
});

function assertStartsWith(text: string | undefined, start: string): void {
  assert.equal(text?.slice(0, start.length), start);
}

/** Sign a CA's key with another CA, and let both ends know nothing but the result. */
async function connectUnderIntermediate(): Promise<void> {
  const { keyPath, key } = otherCa;
  const stem = join(pki.dir, "intermediate");
  writeFileSync(`${stem}.ext`, "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n");
  openssl("req", "-new", "-key", keyPath, "-subj", "/CN=intermediate CA", "-out", `${stem}.csr`);
  openssl(
    ...["x509", "-req", "-in", `${stem}.csr`, "-extfile", `${stem}.ext`, "-set_serial", "5"],
    ...["-CA", pki.agentCa.certPath, "-CAkey", pki.agentCa.keyPath, "-out", `${stem}.crt`],
  );
  const certPath = `${stem}.crt`;
  const intermediate = { cert: readFileSync(certPath, "utf8"), certPath, key, keyPath };
  const report = await shake(
    {
      clientCa: pool(intermediate),
      keyPair: pair(pki.issue({ ca: intermediate, sans: ["localhost"] })),
    },
    { ca: pool(intermediate), keyPair: pair(pki.issue({ ca: intermediate })) },
  );
  assert.equal(report.connected, true, report.client.problem);
}

function openssl(...args: readonly string[]): void {
  execFileSync("openssl", args, { stdio: "pipe" });
}

/** Whether a second connection with the first one's session skips the full handshake. */
async function isSessionResumed(maxVersion: SecureVersion): Promise<boolean> {
  const server = createServer(serverTlsOptions(SERVER), (socket) => {
    socket.on("error", () => undefined);
    socket.end("x");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const options = { ...clientTlsOptions(CLIENT), maxVersion, host: "127.0.0.1", port };

  let session: Buffer | undefined;
  const first = connect(options);
  first.on("session", (offered: Buffer) => {
    session = offered;
  });
  await drained(first);
  assert.ok(session !== undefined);
  const second = connect({ ...options, session });
  await once(second, "secureConnect");
  const isResumed = second.isSessionReused();
  await drained(second);
  server.close();
  await once(server, "close");
  return isResumed;
}

async function drained(socket: TLSSocket): Promise<void> {
  socket.resume();
  await once(socket, "close");
}
