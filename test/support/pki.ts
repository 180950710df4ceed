import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  createAuthority,
  issueCertificate,
} from "../../packages/cli/src/certs/issue-certificate.ts";
import type {
  CertificateUsage,
  IssuedCertificate,
} from "../../packages/cli/src/certs/issue-certificate.ts";
import type { RsaKeyPair } from "../../packages/cli/src/certs/rsa-key-pair.ts";

/** A certificate and its key: as PEM, and as files. */
export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
  readonly certPath: string;
  readonly keyPath: string;
}

/** When a certificate is valid; by default from an hour ago to a day from now. */
export interface TestValidity {
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

export interface IssueOptions extends TestValidity {
  readonly ca: TestCertificate;
  /** @defaultValue `"test"` */
  readonly commonName?: string;
  /** Host names and IP addresses. @defaultValue none */
  readonly sans?: readonly string[];
  /** @defaultValue both */
  readonly usage?: CertificateUsage;
  /** Of a key of its own. @defaultValue 2048, of the key that all share */
  readonly keyBits?: number;
}

/**
 * Certificates for tests, made when first asked for: a test pays for what it uses, some 0.1 s for a
 * CA and 0.03 s for anything else.
 *
 * Each CA has a key of its own. All other certificates share one, because making keys is what takes
 * time; a key that does not match is a CA's.
 */
export interface TestPki {
  /** Where the files are; removed when the process exits. */
  readonly dir: string;
  readonly frontendCa: TestCertificate;
  readonly agentCa: TestCertificate;
  readonly kubeletCa: TestCertificate;
  /** The server's two certificates, for `localhost`, `127.0.0.1` and `::1`. */
  readonly serverFrontend: TestCertificate;
  readonly serverAgent: TestCertificate;
  readonly frontendClient: TestCertificate;
  readonly agentClient: TestCertificate;
  /** A kubelet's serving certificate, for the same names as the server's. */
  readonly kubelet: TestCertificate;
  readonly kubeletClient: TestCertificate;
  /** Another CA, which nobody has reason to trust. */
  createCa(commonName: string, validity?: TestValidity): TestCertificate;
  issue(options: IssueOptions): TestCertificate;
}

let shared: TestPki | undefined;

/** The PKI of this process, the same one at each call. */
export function createTestPki(): TestPki {
  shared ??= new LazyPki();
  return shared;
}

const HOUR_MS = 60 * 60 * 1000;
const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1"];

class LazyPki implements TestPki {
  readonly dir = mkdtempSync(join(tmpdir(), "reachback-pki-"));
  readonly #made = new Map<string, TestCertificate>();
  #leafKeyPair: RsaKeyPair | undefined;
  #fileCount = 0;

  constructor() {
    process.once("exit", () => {
      rmSync(this.dir, { recursive: true, force: true });
    });
  }

  get frontendCa(): TestCertificate {
    return this.#once("frontend-ca", () => this.createCa("frontend CA"));
  }

  get agentCa(): TestCertificate {
    return this.#once("agent-ca", () => this.createCa("agent CA"));
  }

  get kubeletCa(): TestCertificate {
    return this.#once("kubelet-ca", () => this.createCa("kubelet CA"));
  }

  get serverFrontend(): TestCertificate {
    return this.#leaf("server-frontend", this.frontendCa, "server");
  }

  get serverAgent(): TestCertificate {
    return this.#leaf("server-agent", this.agentCa, "server");
  }

  get frontendClient(): TestCertificate {
    return this.#leaf("frontend-client", this.frontendCa, "client");
  }

  get agentClient(): TestCertificate {
    return this.#leaf("agent-client", this.agentCa, "client");
  }

  get kubelet(): TestCertificate {
    return this.#leaf("kubelet", this.kubeletCa, "server");
  }

  get kubeletClient(): TestCertificate {
    return this.#leaf("kubelet-client", this.kubeletCa, "client");
  }

  createCa(commonName: string, validity: TestValidity = {}): TestCertificate {
    return this.#store(createAuthority(commonName, validityOf(validity), newKeyPair()));
  }

  issue(options: IssueOptions): TestCertificate {
    const { ca, commonName = "test", sans = [], usage, keyBits, ...validity } = options;
    this.#leafKeyPair ??= newKeyPair();
    const keyPair = keyBits === undefined ? this.#leafKeyPair : newKeyPair(keyBits);
    const authority = { certPem: ca.cert, keyPem: ca.key };
    const usages = usage === undefined ? (["server", "client"] as const) : [usage];
    const request = { commonName, names: sans, usages, validity: validityOf(validity) };
    return this.#store(issueCertificate(authority, request, keyPair));
  }

  #leaf(name: string, ca: TestCertificate, usage: CertificateUsage): TestCertificate {
    const sans = usage === "server" ? LOOPBACK_NAMES : [];
    return this.#once(name, () => this.issue({ ca, commonName: name, sans, usage }));
  }

  #once(name: string, make: () => TestCertificate): TestCertificate {
    const made = this.#made.get(name) ?? make();
    this.#made.set(name, made);
    return made;
  }

  #store({ certPem, keyPem }: IssuedCertificate): TestCertificate {
    this.#fileCount++;
    const stem = join(this.dir, String(this.#fileCount));
    const certPath = `${stem}.crt`;
    const keyPath = `${stem}.key`;
    writeFileSync(certPath, certPem);
    writeFileSync(keyPath, keyPem, { mode: 0o600 });
    return { cert: certPem, key: keyPem, certPath, keyPath };
  }
}

function validityOf({ notBefore, notAfter }: TestValidity) {
  const nowMs = Date.now();
  return {
    notBefore: notBefore ?? new Date(nowMs - HOUR_MS),
    notAfter: notAfter ?? new Date(nowMs + 24 * HOUR_MS),
  };
}

function newKeyPair(modulusLength = 2048): RsaKeyPair {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", {
    modulusLength,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  return { publicKeyPem: publicKey, privateKeyPem: privateKey };
}

/** What a server needs for frontends by mutual TLS and for agents. */
export function serverCertificateFlags(pki: TestPki): string[] {
  return [
    `--server-cert=${pki.serverFrontend.certPath}`,
    `--server-key=${pki.serverFrontend.keyPath}`,
    `--server-ca-cert=${pki.frontendCa.certPath}`,
    `--cluster-cert=${pki.serverAgent.certPath}`,
    `--cluster-key=${pki.serverAgent.keyPath}`,
    `--cluster-ca-cert=${pki.agentCa.certPath}`,
  ];
}
