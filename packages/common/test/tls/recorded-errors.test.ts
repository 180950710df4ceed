import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { createTestPki } from "../../../../test/support/pki.ts";
import { systemClock } from "../../src/clock.ts";
import { loadCaPool } from "../../src/tls/ca-pool.ts";
import { loadKeyPair } from "../../src/tls/key-pair.ts";
import { pemFromBytes } from "../../src/tls/pem-block.ts";

interface StartupError {
  readonly stderr: string;
}

const golden = new URL("../../../../test/golden/startup-errors.json", import.meta.url);
const recorded = JSON.parse(readFileSync(golden, "utf8")) as readonly StartupError[];

const pki = createTestPki();
const dir = mkdtempSync(join(tmpdir(), "reachback-recorded-"));
after(() => {
  rmSync(dir, { recursive: true });
});

/** The recording's files, below `dir`. */
function writeFiles(): void {
  mkdirSync(join(dir, "pki"));
  mkdirSync(join(dir, "run"));
  writeFileSync(join(dir, "pki/agent.crt"), pki.agentClient.cert);
  writeFileSync(join(dir, "pki/server.key"), pki.agentCa.key);
  writeFileSync(join(dir, "run/garbage.pem"), "garbage\n");
  writeFileSync(join(dir, "run/badcert.pem"), pemFromBytes("CERTIFICATE", Buffer.from("bad")));
}

/** Load what the recorded `text` is about. */
function load(text: string): void {
  const pair = /^failed to load X509 key pair (\S*) and (\S*): /.exec(text);
  if (pair !== null) loadKeyPair(pair[1] ?? "", pair[2] ?? "", systemClock);
  else loadCaPool(/error creating pool from (\S+): /.exec(text)?.[1] ?? "", systemClock);
}

describe("errors of certificate files", () => {
  writeFiles();
  const texts = recorded.flatMap(({ stderr }) => {
    const text = /failed to load (?:CA cert|X509 key pair).*/.exec(stderr)?.[0];
    return text === undefined ? [] : [text.replaceAll(/ \/(?=pki|run)/g, ` ${dir}/`)];
  });

  it("were recorded", () => {
    assert.ok(texts.length >= 8);
  });

  for (const text of new Set(texts)) {
    it(`are upstream's, word for word: ${text.replaceAll(dir, "")}`, () => {
      assert.throws(
        () => {
          load(text);
        },
        { name: "TlsMaterialError", message: text },
      );
    });
  }
});
