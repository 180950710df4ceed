import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { TestContext } from "node:test";
import { loadCaPool, loadKeyPair, systemClock } from "@reachback/common";
import { generateCertificates } from "../../src/certs/generate-certificates.ts";
import type { CertificateSet } from "../../src/certs/generate-certificates.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const DOMAINS = ["frontend", "agent", "kubelet"] as const;
const FILES = DOMAINS.flatMap((domain) =>
  ["ca", "client", "server"].flatMap((name) => [`${domain}/${name}.crt`, `${domain}/${name}.key`]),
);
const HAS_OPENSSL = spawnSync("openssl", ["version"]).status === 0;

/** Every file below `folder`. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    (name) => !statSync(join(folder, name)).isDirectory(),
  );
}

function certificateAt(path: string): X509Certificate {
  return new X509Certificate(readFileSync(path));
}

describe("generateCertificates", () => {
  let outDir: string;
  let made: CertificateSet;
  const startedAtMs = Date.now();

  before(async () => {
    outDir = join(mkdtempSync(join(tmpdir(), "reachback-generate-")), "new", "certs");
    made = await generateCertificates({
      outDir,
      serverNames: ["server.example", "10.0.0.5", "localhost"],
      kubeletNames: ["node-a", "fd00::7"],
    });
  });
  after(() => {
    rmSync(join(outDir, "../.."), { recursive: true });
  });

  it("makes a folder for each domain, and in each a CA, a server and a client", () => {
    assert.deepEqual(filesBelow(outDir).sort(), [...FILES].sort());
  });

  it("lets only their owner read keys, and everyone certificates", () => {
    for (const file of FILES) {
      const mode = statSync(join(outDir, file)).mode & 0o777;
      // A umask may have taken something from a certificate's mode.
      if (file.endsWith(".key")) assert.equal(mode, 0o600, file);
      else assert.equal(mode | 0o044, 0o644, file);
    }
  });

  it("makes pairs and pools that the programs accept", () => {
    for (const domain of DOMAINS) {
      const caPath = join(outDir, domain, "ca.crt");
      assert.deepEqual(loadCaPool(caPath, systemClock).warnings, []);
      for (const name of ["ca", "server", "client"]) {
        const stem = join(outDir, domain, name);
        loadKeyPair(`${stem}.crt`, `${stem}.key`, systemClock);
      }
    }
  });

  it("signs each leaf with its domain's CA only", () => {
    for (const domain of DOMAINS) {
      const leaf = certificateAt(join(outDir, domain, "server.crt"));
      for (const other of DOMAINS) {
        const ca = certificateAt(join(outDir, other, "ca.crt"));
        assert.equal(leaf.verify(ca.publicKey), domain === other, `${domain} by ${other}`);
      }
    }
  });

  it("gives ten years to CAs and one to what they sign, from a little in the past", () => {
    for (const [certificate, days] of [
      [made.authorities.agent, 3650],
      [made.leaves.agent, 365],
    ] as const) {
      const { validFrom, validTo } = certificateAt(certificate.certPath);
      assert.equal(Math.round((Date.parse(validTo) - startedAtMs) / DAY_MS), days);
      const age = startedAtMs - Date.parse(validFrom);
      assert.ok(age > 4 * 60_000 && age < 6 * 60_000, `${age}`);
      assert.ok(Math.abs(certificate.notAfter.getTime() - Date.parse(validTo)) < 1000);
    }
  });

  it("puts names given into servers' certificates, once each, beside the usual ones", () => {
    const server = certificateAt(made.leaves["agent-server"].certPath);
    for (const name of ["localhost", "kubernetes", "konnectivity-server.kube-system.svc"]) {
      assert.equal(server.checkHost(name), name);
    }
    assert.equal(server.checkHost("server.example"), "server.example");
    for (const ip of ["127.0.0.1", "::1", "10.0.0.5"]) assert.equal(server.checkIP(ip), ip);
    assert.equal(server.subjectAltName?.split("DNS:localhost").length, 2);
    assert.equal(server.checkHost("node-a"), undefined);
    assert.equal(
      certificateAt(made.leaves["frontend-server"].certPath).subjectAltName,
      server.subjectAltName,
    );

    const kubelet = certificateAt(made.leaves.kubelet.certPath);
    assert.equal(kubelet.checkHost("node-a"), "node-a");
    assert.equal(kubelet.checkIP("fd00::7"), "fd00::7");
    assert.equal(kubelet.subject, "O=system:nodes\nCN=system:node:kubelet");
    assert.equal(certificateAt(made.leaves.agent.certPath).subjectAltName, undefined);
  });

  it("limits each certificate to its use", () => {
    const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
    const CLIENT_AUTH = "1.3.6.1.5.5.7.3.2";
    for (const domain of DOMAINS) {
      const [ca, server, client] = ["ca", "server", "client"].map((name) =>
        certificateAt(join(outDir, domain, `${name}.crt`)),
      );
      assert.deepEqual([ca?.ca, server?.ca, client?.ca], [true, false, false]);
      assert.deepEqual(server?.keyUsage, [SERVER_AUTH]);
      assert.deepEqual(client?.keyUsage, [CLIENT_AUTH]);
    }
  });

  it("numbers certificates with 128 random bits", () => {
    const serials = FILES.filter((file) => file.endsWith(".crt")).map(
      (file) => certificateAt(join(outDir, file)).serialNumber,
    );
    assert.equal(new Set(serials).size, serials.length);
    for (const serial of serials) assert.match(serial, /^[4-7][0-9A-F]{31}$/);
  });

  it("uses RSA keys of 2048 bits, a different one for each certificate", () => {
    const keys = FILES.filter((file) => file.endsWith(".crt")).map((file) => {
      const { publicKey } = certificateAt(join(outDir, file));
      assert.equal(publicKey.asymmetricKeyDetails?.modulusLength, 2048);
      return publicKey.export({ format: "pem", type: "spki" });
    });
    assert.equal(new Set(keys).size, keys.length);
  });

  it(
    "makes chains that openssl verifies strictly",
    { skip: HAS_OPENSSL ? false : "no openssl" },
    () => {
      for (const domain of DOMAINS) {
        for (const name of ["server", "client"]) {
          const args = ["verify", "-x509_strict", "-purpose", `ssl${name}`];
          const files = ["-CAfile", `${domain}/ca.crt`, `${domain}/${name}.crt`];
          const { status, stderr } = spawnSync("openssl", [...args, ...files], { cwd: outDir });
          assert.equal(status, 0, String(stderr));
        }
      }
    },
  );

  it("does not tell keys to its caller", () => {
    assert.ok(!JSON.stringify(made).includes("PRIVATE KEY"));
  });
});

describe("generateCertificates, where there are files already,", () => {
  /** A folder with two of the files that are to be made. */
  function usedFolder(t: TestContext): string {
    const outDir = temporaryFolder(t);
    mkdirSync(join(outDir, "agent"));
    writeFileSync(join(outDir, "agent/client.key"), "precious", { mode: 0o644 });
    writeFileSync(join(outDir, "agent/client.crt"), "old");
    return outDir;
  }

  it("writes nothing, and names them", async (t) => {
    const outDir = usedFolder(t);
    const [cert, key] = [join(outDir, "agent/client.crt"), join(outDir, "agent/client.key")];
    await assert.rejects(generateCertificates({ outDir }), {
      message: `nothing was written, because these files exist (--force replaces them): ${cert}, ${key}`,
    });
    assert.deepEqual(filesBelow(outDir).sort(), ["agent/client.crt", "agent/client.key"]);
    assert.equal(readFileSync(key, "utf8"), "precious");
  });

  it("replaces them when told to, together with their modes", async (t) => {
    const outDir = usedFolder(t);
    const limits = { caDays: 20, leafDays: 90 };
    const { leaves, authorities } = await generateCertificates({
      outDir,
      overwrite: true,
      ...limits,
    });
    assert.deepEqual(filesBelow(outDir).sort(), [...FILES].sort());
    const { certPath, keyPath } = leaves.agent;
    assert.equal(statSync(keyPath).mode & 0o777, 0o600);
    loadKeyPair(certPath, keyPath, systemClock);
    // No leaf outlives its CA.
    assert.deepEqual(leaves.agent.notAfter, authorities.agent.notAfter);
  });
});

describe("generateCertificates, before it makes anything,", () => {
  it("refuses a name that is neither a host nor an IP address", async (t) => {
    const outDir = temporaryFolder(t);
    for (const name of ["a b", "10.0.0.256", "", "-x", "a..b", "http://x"]) {
      await assert.rejects(generateCertificates({ outDir, serverNames: [name] }), {
        message: `"${name}" is neither an IP address nor a DNS name`,
      });
      await assert.rejects(generateCertificates({ outDir, kubeletNames: [name] }));
    }
    assert.deepEqual(filesBelow(outDir), []);
  });
});
