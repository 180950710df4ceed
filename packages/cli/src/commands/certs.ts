import { resolve } from "node:path";
import type { Argv } from "yargs";
import { addCertificate } from "../certs/add-certificate.ts";
import type { AddCertificateOptions } from "../certs/add-certificate.ts";
import { certificateTable } from "../certs/certificate-table.ts";
import { CERTIFICATE_ROLE_NAMES, certificateRole } from "../certs/certificate-roles.ts";
import type { CertificateRoleName } from "../certs/certificate-roles.ts";
import type { WrittenCertificate } from "../certs/draft-certificate.ts";
import { generateCertificates } from "../certs/generate-certificates.ts";
import type { GenerateCertificatesOptions } from "../certs/generate-certificates.ts";
import { DEFAULT_CA_DAYS, DEFAULT_LEAF_DAYS } from "../certs/validity.ts";
import type { CliCommand } from "../cli-command.ts";

/** `reachback certs`: certificates for a lab. */
export const certsCommand: CliCommand = {
  declare: (parser, host, run) =>
    parser.command(
      "certs [role]",
      "Make certificates for a lab: three CAs and what they sign, or one more of a role",
      describeFlags,
      (given) =>
        run(async () => {
          const outDir = resolve(host.cwd, given.out);
          const written = await writeCertificates({
            outDir,
            clock: host.clock,
            role: given.role,
            overwrite: given.force,
            serverNames: given["server-san"],
            kubeletNames: given["kubelet-san"],
            name: given.name,
            names: given.san,
            leafDays: given.days,
            caDays: given["ca-days"],
          });
          host.stdout(report(written, outDir, host.clock.wallTimeMs()));
          return 0;
        }),
    ),
};

const ROLE_NAME_WIDTH = Math.max(...CERTIFICATE_ROLE_NAMES.map((name) => name.length));

function describeFlags(parser: Argv) {
  return parser
    .positional("role", {
      choices: CERTIFICATE_ROLE_NAMES,
      describe: "Add or renew only this certificate, under the CA that is there",
    })
    .option("out", {
      ...textFlag(),
      default: "certs",
      describe: "Folder to write to",
    })
    .option("force", {
      boolean: true,
      default: false,
      describe: "Replace files that exist",
    })
    .option("server-san", {
      ...listFlag(),
      describe: "More host names and IP addresses of the server; repeated or with commas",
    })
    .option("kubelet-san", {
      ...listFlag(),
      describe: "More host names and IP addresses of the kubelet",
    })
    .option("name", {
      ...textFlag(),
      describe: "With a role: whose certificate it is, e.g. a node's name; names the files too",
    })
    .option("san", {
      ...listFlag(),
      describe: "With a role: more host names and IP addresses",
    })
    .option("days", {
      ...daysFlag(),
      describe: `Lifetime of what the CAs sign (default ${DEFAULT_LEAF_DAYS})`,
    })
    .option("ca-days", {
      ...daysFlag(),
      describe: `Lifetime of the CAs (default ${DEFAULT_CA_DAYS})`,
    })
    .example("$0 certs --server-san=10.0.0.5,server.example", "Everything a lab needs, in certs/")
    .example("$0 certs agent --name=node-a", "A certificate for one more agent")
    .epilogue(`Roles:\n${roleLines()}`)
    .check(misfits);
}

function roleLines(): string {
  return CERTIFICATE_ROLE_NAMES.map(
    (name) => `  ${name.padEnd(ROLE_NAME_WIDTH)}  ${certificateRole(name).summary}`,
  ).join("\n");
}

function textFlag() {
  return { string: true, requiresArg: true, coerce: onlyOne } as const;
}

function listFlag() {
  return { array: true, string: true, requiresArg: true, coerce: namesFromTexts } as const;
}

function daysFlag() {
  return { string: true, requiresArg: true, coerce: daysFromText } as const;
}

/** The parser makes a list of a flag that is repeated, and nothing of one that ends in `=`. */
function onlyOne(given: string | readonly string[]): string {
  if (given === "") throw new Error("a flag that takes a value was given an empty one");
  if (typeof given === "string") return given;
  throw new Error(`a flag that takes one value was given several: ${given.join(", ")}`);
}

function namesFromTexts(texts: readonly string[]): string[] {
  return texts
    .flatMap((text) => text.split(","))
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

const MAX_DAYS = 36_500;

function daysFromText(given: string | readonly string[]): number {
  const text = onlyOne(given);
  const days = Number(text);
  if (!Number.isInteger(days) || days < 1 || days > MAX_DAYS) {
    throw new Error(`"${text}" is not a number of days from 1 to ${MAX_DAYS}`);
  }
  return days;
}

/** Flags that do nothing are mistakes: the message for them, or true. */
function misfits(given: Readonly<Record<string, unknown>>): string | true {
  const forRole = ["name", "san"];
  const forAll = ["server-san", "kubelet-san", "ca-days"];
  const hasRole = given["role"] !== undefined;
  const wrong = (hasRole ? forAll : forRole).find((flag) => given[flag] !== undefined);
  if (wrong === undefined) return true;
  return hasRole ? `--${wrong} is not for a single role` : `--${wrong} needs a role`;
}

type Wanted = GenerateCertificatesOptions &
  Omit<AddCertificateOptions, "role"> & { readonly role: CertificateRoleName | undefined };

async function writeCertificates(wanted: Wanted): Promise<readonly WrittenCertificate[]> {
  const { role } = wanted;
  if (role !== undefined) return [await addCertificate({ ...wanted, role })];
  const { authorities, leaves } = await generateCertificates(wanted);
  return [...Object.values(authorities), ...Object.values(leaves)];
}

function report(written: readonly WrittenCertificate[], outDir: string, nowMs: number): string {
  const count = written.length === 1 ? "a certificate" : `${written.length} certificates`;
  const sentence = `Wrote ${count} to ${outDir}, with a key (.key) beside each that only you can read.`;
  return `${sentence}\n\n${certificateTable(written, outDir, nowMs)}`;
}
