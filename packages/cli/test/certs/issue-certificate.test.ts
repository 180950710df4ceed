import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { createAuthority, issueCertificate } from "../../src/certs/issue-certificate.ts";
import type { IssuedCertificate, LeafRequest } from "../../src/certs/issue-certificate.ts";
import { generateRsaKeyPair } from "../../src/certs/rsa-key-pair.ts";
import type { RsaKeyPair } from "../../src/certs/rsa-key-pair.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const CA_VALIDITY = {
  notBefore: new Date("2020-01-01T00:00:00Z"),
  notAfter: new Date("2060-01-01T00:00:00Z"),
};
const REQUEST: LeafRequest = {
  commonName: "leaf",
  names: [],
  usages: ["client"],
  validity: CA_VALIDITY,
};

describe("issueCertificate", () => {
  let caKeyPair: RsaKeyPair;
  let leafKeyPair: RsaKeyPair;
  let authority: IssuedCertificate;

  before(async () => {
    [caKeyPair, leafKeyPair] = await Promise.all([generateRsaKeyPair(), generateRsaKeyPair()]);
    authority = createAuthority("test CA", CA_VALIDITY, caKeyPair);
  });

  function issue(request: Partial<LeafRequest>): X509Certificate {
    const { certPem, keyPem } = issueCertificate(
      authority,
      { ...REQUEST, ...request },
      leafKeyPair,
    );
    assert.equal(keyPem, leafKeyPair.privateKeyPem);
    return new X509Certificate(certPem);
  }

  it("signs with the authority, for the leaf's own key", () => {
    const leaf = issue({});
    const ca = new X509Certificate(authority.certPem);
    assert.ok(leaf.checkIssued(ca));
    assert.ok(leaf.verify(ca.publicKey));
    assert.ok(!leaf.verify(leaf.publicKey));
  });

  it("makes certificates of the past and of the future for tests", () => {
    const validity = {
      notBefore: new Date("2001-02-03T04:05:06Z"),
      notAfter: new Date("2002-02-03T04:05:06Z"),
    };
    const { validFrom, validTo } = issue({ validity });
    assert.equal(validFrom, "Feb  3 04:05:06 2001 GMT");
    assert.equal(validTo, "Feb  3 04:05:06 2002 GMT");
  });

  it("writes dates after 2049 in their longer form", () => {
    const { validTo } = issue({});
    assert.equal(validTo, "Jan  1 00:00:00 2060 GMT");
  });

  it("allows both uses, if asked to", () => {
    const { keyUsage } = issue({ usages: ["server", "client"] });
    assert.deepEqual(keyUsage, ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
  });

  it("takes IPv4 and IPv6 addresses, hosts and wildcards as names", () => {
    const { subjectAltName } = issue({ names: ["a.example", "*.b.example", "1.2.3.4", "fe80::1"] });
    assert.equal(
      subjectAltName,
      "DNS:a.example, DNS:*.b.example, IP Address:1.2.3.4, IP Address:FE80:0:0:0:0:0:0:1",
    );
  });

  it("refuses anything else as a name", () => {
    for (const name of ["a b", "*", "a.*.b", "x".repeat(64), "1.2.3", "http://x", "a."]) {
      assert.throws(() => issue({ names: [name] }), {
        message: `"${name}" is neither an IP address nor a DNS name`,
      });
    }
  });

  it("names an authority that others made exactly as it names itself", (t) => {
    if (spawnSync("openssl", ["version"]).status !== 0) {
      t.skip("needs the openssl command");
      return;
    }
    const folder = temporaryFolder(t);
    const keyPath = join(folder, "ca.key");
    writeFileSync(keyPath, caKeyPair.privateKeyPem);
    const subject = ["-utf8", "-subj", "/O=\u00dcn\u00efcode/CN=Pr\u00fcfstelle"];
    const certPem = execFileSync("openssl", ["req", "-x509", "-key", keyPath, ...subject], {
      encoding: "utf8",
    });
    const ca = new X509Certificate(certPem);
    const foreign = { certPem, keyPem: caKeyPair.privateKeyPem };
    const leaf = new X509Certificate(issueCertificate(foreign, REQUEST, leafKeyPair).certPem);
    assert.match(leaf.issuer, /Pr\u00fcfstelle/);
    assert.equal(leaf.issuer, ca.subject);
    assert.ok(leaf.checkIssued(ca));
  });
});
