import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { createTestPki } from "../../../../test/support/pki.ts";
import { systemClock } from "../../src/clock.ts";
import { loadCaPool } from "../../src/tls/ca-pool.ts";
import { pemFromBytes } from "../../src/tls/pem-block.ts";
import { TlsMaterialError } from "../../src/tls/tls-material-error.ts";

const pki = createTestPki();
const dir = mkdtempSync(join(tmpdir(), "reachback-ca-pool-"));
after(() => {
  rmSync(dir, { recursive: true });
});

const DAY_MS = 24 * 60 * 60 * 1000;
const NOW_MS = Date.now();

function atDays(days: number): Date {
  return new Date(NOW_MS + days * DAY_MS);
}

function write(name: string, text: string): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
}

function load(path: string) {
  return loadCaPool(path, systemClock);
}

function rejectionOf(path: string): string {
  try {
    load(path);
  } catch (error) {
    assert.ok(error instanceof TlsMaterialError);
    return error.message;
  }
  return assert.fail("the file was accepted");
}

/** A block of type CERTIFICATE around anything. */
function block(bytes: Buffer): string {
  return pemFromBytes("CERTIFICATE", bytes);
}

const good = pki.agentCa.cert;
const goodDer = new X509Certificate(good).raw;
const other = pki.frontendCa.cert;
const expired = pki.createCa("expired CA", { notBefore: atDays(-9), notAfter: atDays(-1) }).cert;
const early = pki.createCa("early CA", { notBefore: atDays(1), notAfter: atDays(9) }).cert;
const keyBlock = pki.agentCa.key;

describe("loadCaPool accepts", () => {
  it("one certificate, and says what it is", () => {
    const pool = load(write("one.pem", good));
    assert.deepEqual(pool.pems, [good]);
    assert.deepEqual(pool.warnings, []);
    assert.equal(pool.certificates[0]?.subject, "CN=agent CA");
    assert.equal(pool.certificates[0].serial, new X509Certificate(good).serialNumber);
    assert.match(pool.certificates[0].notAfter, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
  });

  it("several, with text and blocks of other types around them", () => {
    const text = `# first\n${good}\nsome text\n${keyBlock}${other}\nthe end\n`;
    assert.deepEqual(load(write("several.pem", text)).pems, [good, other]);
  });

  it("several in one block", () => {
    const otherDer = new X509Certificate(other).raw;
    const path = write("concatenated.pem", block(Buffer.concat([goodDer, otherDer])));
    assert.deepEqual(load(path).pems, [good, other]);
  });

  it("Windows line ends", () => {
    assert.deepEqual(load(write("crlf.pem", good.replaceAll("\n", "\r\n"))).pems, [good]);
  });

  it("a file in which a block with PEM headers is to be skipped, whatever it holds", () => {
    const skipped = good.replace("-----\n", "-----\nComment: old\n\n").replace("MII", "!!!");
    assert.deepEqual(load(write("headers.pem", skipped + other)).pems, [other]);
  });

  it("a file with a damaged block of another type", () => {
    assert.deepEqual(load(write("cut-key.pem", `-----BEGIN X-----\n!!\n${good}`)).pems, [good]);
  });

  it("an expired one and one of the future beside a valid one, with a warning for each", () => {
    const path = write("mixed.pem", good + expired + early);
    const pool = load(path);
    assert.equal(pool.pems.length, 3);
    assert.equal(pool.warnings.length, 2);
    assert.match(
      pool.warnings[0] ?? "",
      /^CA certificate "CN=expired CA" in .*mixed\.pem, line \d+: x509: certificate has expired or is not yet valid: current time .*Z is after .*Z$/,
    );
    assert.match(pool.warnings[1] ?? "", /"CN=early CA" .* is before /);
  });
});

describe("loadCaPool refuses, in upstream's words,", () => {
  const CREATING = "failed to load CA cert: error creating pool from";
  const NONE = "data does not contain any valid RSA or ECDSA certificates";

  it("a path at which there is nothing", () => {
    const path = join(dir, "missing.pem");
    const expected = `failed to load CA cert: open ${path}: no such file or directory`;
    assert.equal(rejectionOf(path), expected);
  });

  it("an empty path", () => {
    assert.equal(rejectionOf(""), "failed to load CA cert: open : no such file or directory");
  });

  it("a folder", () => {
    assert.equal(rejectionOf(dir), `failed to load CA cert: read ${dir}: is a directory`);
  });

  it("garbage", () => {
    const path = write("garbage.pem", "garbage\n");
    assert.equal(rejectionOf(path), `${CREATING} ${path}: ${NONE}`);
  });

  it("a certificate block around something else", () => {
    const path = write("badcert.pem", block(Buffer.from("not a certificate")));
    assert.equal(rejectionOf(path), `${CREATING} ${path}: x509: malformed certificate`);
  });

  const remarked: readonly (readonly [name: string, text: string, reason: string])[] = [
    ["an empty file", " \n", `${NONE} (the file is empty)`],
    ["a key", keyBlock, `${NONE} (line 1: a PRIVATE KEY block)`],
    [
      "a block with PEM headers and nothing else",
      good.replace("-----\n", "-----\nComment: old\n\n"),
      `${NONE} (line 1: a CERTIFICATE block with PEM headers, which is skipped)`,
    ],
    [
      "a certificate without its END",
      `# text\n${good.replace(/-----END.*/, "")}`,
      `${NONE} (line 2: the CERTIFICATE block has no END line)`,
    ],
    [
      "a second certificate without its END",
      good + other.slice(0, -40),
      `line ${good.split("\n").length}: the CERTIFICATE block has no END line`,
    ],
    [
      "a certificate that another one cuts off",
      good.slice(0, 400) + "\n" + other,
      "line 1: the CERTIFICATE block has no END line",
    ],
    [
      "cut base64",
      good.replace(/.\n-----END/, "\n-----END"),
      `${NONE} (line 1: the CERTIFICATE block is not valid base64)`,
    ],
    [
      "cut base64 before a sound certificate",
      good.replace(/.\n-----END/, "\n-----END") + other,
      "line 1: the CERTIFICATE block is not valid base64",
    ],
    [
      "a cut certificate",
      block(goodDer.subarray(0, 300)),
      `x509: malformed certificate (line 1: the certificate is cut off after 300 of ${goodDer.length} bytes)`,
    ],
    [
      "a cut certificate behind another in one block",
      block(Buffer.concat([goodDer, goodDer.subarray(0, 300)])),
      `x509: malformed certificate (line 1: the certificate is cut off after 300 of ${goodDer.length} bytes)`,
    ],
    [
      "bytes behind a certificate",
      block(Buffer.concat([goodDer, Buffer.from("tail")])) + other,
      "x509: malformed certificate (line 1: the CERTIFICATE block is not a certificate)",
    ],
    [
      "a damaged certificate after a sound one",
      `${good}\n${block(Buffer.from(goodDer).fill(0, 30, 60))}`,
      `x509: malformed certificate (line ${good.split("\n").length + 1}: the CERTIFICATE block is not a certificate)`,
    ],
    [
      "an empty certificate block in a longer file",
      `${block(Buffer.alloc(0))}\n${other}`,
      "x509: malformed certificate (line 1: the CERTIFICATE block is not a certificate)",
    ],
    [
      "PEM text inside a block",
      `${block(Buffer.from(good))}${other}`,
      "x509: malformed certificate (line 1: the CERTIFICATE block is not a certificate)",
    ],
  ];
  for (const [name, text, reason] of remarked) {
    it(`${name}, with a remark`, () => {
      const path = write("remarked.pem", text);
      assert.equal(rejectionOf(path), `${CREATING} ${path}: ${reason}`);
    });
  }

  it("a file whose only certificate has expired", () => {
    const path = write("expired.pem", expired);
    const { notAfter } = loadCaPool(path, { wallTimeMs: () => NOW_MS - 5 * DAY_MS })
      .certificates[0]!;
    const message = rejectionOf(path);
    const start = `${CREATING} ${path}: x509: certificate has expired or is not yet valid: current time `;
    assert.ok(message.startsWith(start));
    assert.ok(message.endsWith(`Z is after ${notAfter}`));
  });

  it("a file in which none is valid, and counts the others", () => {
    const path = write("none-valid.pem", expired + early + expired);
    assert.match(rejectionOf(path), / is after .*Z \(nor is any of the 2 others valid\)$/);
  });
});
