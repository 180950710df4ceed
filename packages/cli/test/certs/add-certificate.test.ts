import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { loadKeyPair, systemClock } from "@reachback/common";
import { createTestPki } from "../../../../test/support/pki.ts";
import type { TestCertificate } from "../../../../test/support/pki.ts";
import { addCertificate } from "../../src/certs/add-certificate.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const pki = createTestPki();
const HOUR_MS = 60 * 60 * 1000;

/** A folder as an earlier run leaves it, with nothing but CAs. */
function folderWithAuthorities(t: TestContext, ca: TestCertificate = pki.agentCa): string {
  const outDir = temporaryFolder(t);
  for (const domain of ["agent", "kubelet"]) {
    mkdirSync(join(outDir, domain));
    writeFileSync(join(outDir, domain, "ca.crt"), ca.cert);
    writeFileSync(join(outDir, domain, "ca.key"), ca.key, { mode: 0o600 });
  }
  return outDir;
}

describe("addCertificate", () => {
  it("makes a certificate for one more agent under the CA that is there", async (t) => {
    const outDir = folderWithAuthorities(t);
    const added = await addCertificate({ outDir, role: "agent", name: "node-a", names: ["::2"] });
    assert.equal(added.certPath, join(outDir, "agent/node-a.crt"));
    assert.equal(added.keyPath, join(outDir, "agent/node-a.key"));
    assert.equal(statSync(added.keyPath).mode & 0o777, 0o600);
    const { leaf } = loadKeyPair(added.certPath, added.keyPath, systemClock);
    assert.equal(leaf.subject, "CN=node-a");
    const certificate = new X509Certificate(readFileSync(added.certPath));
    assert.ok(certificate.checkIssued(new X509Certificate(pki.agentCa.cert)));
    assert.equal(certificate.subjectAltName, "DNS:node-a, IP Address:0:0:0:0:0:0:0:2");
    assert.equal(readFileSync(join(outDir, "agent/ca.crt"), "utf8"), pki.agentCa.cert);
  });

  it("makes a kubelet's certificate in a node's name", async (t) => {
    const outDir = folderWithAuthorities(t);
    const added = await addCertificate({ outDir, role: "kubelet", name: "node-b" });
    assert.equal(added.commonName, "system:node:node-b");
    assert.deepEqual(added.names, ["node-b", "localhost", "127.0.0.1", "::1"]);
  });

  it("replaces a certificate only when told to, under the role's own name", async (t) => {
    const outDir = folderWithAuthorities(t);
    const first = await addCertificate({ outDir, role: "agent" });
    assert.equal(first.certPath, join(outDir, "agent/client.crt"));
    const old = readFileSync(first.certPath, "utf8");
    await assert.rejects(addCertificate({ outDir, role: "agent" }), {
      message: `nothing was written, because these files exist (--force replaces them): ${first.certPath}, ${first.keyPath}`,
    });
    assert.equal(readFileSync(first.certPath, "utf8"), old);
    await addCertificate({ outDir, role: "agent", overwrite: true });
    assert.notEqual(readFileSync(first.certPath, "utf8"), old);
    loadKeyPair(first.certPath, first.keyPath, systemClock);
  });

  it("lets no certificate outlive its CA", async (t) => {
    const outDir = folderWithAuthorities(t);
    const { notAfter } = await addCertificate({ outDir, role: "agent", leafDays: 5 });
    assert.equal(notAfter.getTime(), Date.parse(new X509Certificate(pki.agentCa.cert).validTo));
  });

  it("never touches a CA, nor anything outside its folder", async (t) => {
    const outDir = folderWithAuthorities(t);
    for (const name of ["ca", "server", "client"]) {
      await assert.rejects(addCertificate({ outDir, role: "agent", name, overwrite: true }), {
        message: `the name "${name}" is taken`,
      });
    }
    for (const name of ["../ca", "/tmp/x", "", ".", "A", "a b", "a/b", "a\n"]) {
      await assert.rejects(addCertificate({ outDir, role: "agent", name, overwrite: true }), {
        message: `"${name}" is no name: use lower-case letters, digits, "-" and "."`,
      });
    }
    assert.deepEqual(readdirSync(join(outDir, "agent")), ["ca.crt", "ca.key"]);
  });

  it("refuses a name that is neither a host nor an IP address", async (t) => {
    const outDir = folderWithAuthorities(t);
    await assert.rejects(addCertificate({ outDir, role: "agent", names: ["a_b!"] }), {
      message: '"a_b!" is neither an IP address nor a DNS name',
    });
  });

  it("says so if there is no CA", async (t) => {
    const outDir = temporaryFolder(t);
    await assert.rejects(addCertificate({ outDir, role: "agent" }), {
      message: `there is no agent CA at ${join(outDir, "agent/ca.crt")}; "reachback certs" makes one`,
    });
  });

  it("refuses a CA that has expired, has another key, or is none", async (t) => {
    const notBefore = new Date(Date.now() - 2 * HOUR_MS);
    const notAfter = new Date(Date.now() - HOUR_MS);
    const expired = folderWithAuthorities(t, pki.createCa("old", { notBefore, notAfter }));
    await assert.rejects(addCertificate({ outDir: expired, role: "agent" }), /has expired/);

    const mixed = folderWithAuthorities(t, { ...pki.agentCa, key: pki.kubeletCa.key });
    await assert.rejects(
      addCertificate({ outDir: mixed, role: "agent" }),
      /tls: private key does not match public key$/,
    );

    const leaf = folderWithAuthorities(t, pki.agentClient);
    await assert.rejects(addCertificate({ outDir: leaf, role: "agent" }), {
      message: `${join(leaf, "agent/ca.crt")} is not the certificate of an authority`,
    });
  });

  it("refuses a CA whose key it cannot sign with", async (t) => {
    if (spawnSync("openssl", ["version"]).status !== 0) {
      t.skip("needs the openssl command");
      return;
    }
    const outDir = folderWithAuthorities(t);
    const [certPath, keyPath] = [join(outDir, "agent/ca.crt"), join(outDir, "agent/ca.key")];
    const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    const files = ["-keyout", keyPath, "-out", certPath];
    execFileSync("openssl", ["req", "-x509", ...curve, "-subj", "/CN=x", ...files], {
      stdio: "pipe",
    });
    await assert.rejects(addCertificate({ outDir, role: "agent" }), {
      message: `${keyPath} is not an RSA key, and others cannot be signed with`,
    });
  });
});
