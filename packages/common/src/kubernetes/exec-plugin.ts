import { execFile } from "node:child_process";
import type { ExecFileException } from "node:child_process";
import type { ApiAccess, ExecPlugin } from "./api-access.ts";
import { ApiAccessError, readSource } from "./api-access.ts";
import { recordOf, textOf } from "./json.ts";

/** What an exec plugin has printed. */
export interface ExecCredential {
  readonly token: string | undefined;
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined;
  /** Milliseconds since 1970; `undefined` if good until the apiserver says otherwise. */
  readonly expiresAtMs: number | undefined;
}

const PLUGIN_TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 1024 * 1024;

/**
 * Run the plugin of `access` once. It has 30 s.
 *
 * @param env - The plugin's environment, besides what its configuration adds.
 * @throws {ApiAccessError} naming the command and why it is of no use.
 */
export async function runExecPlugin(
  access: ApiAccess & { readonly exec: ExecPlugin },
  env: Readonly<Record<string, string | undefined>>,
): Promise<ExecCredential> {
  const { exec } = access;
  const info = JSON.stringify(await execInfo(access));
  const output = await new Promise<string>((resolve, reject) => {
    execFile(
      exec.command,
      exec.args,
      {
        env: { ...env, ...exec.env, KUBERNETES_EXEC_INFO: info },
        timeout: PLUGIN_TIMEOUT_MS,
        maxBuffer: MAX_OUTPUT_BYTES,
      },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(problem(exec, error, stderr));
      },
    );
  });
  return credentialFrom(exec, output);
}

async function execInfo(access: ApiAccess & { readonly exec: ExecPlugin }): Promise<unknown> {
  const { exec, ca } = access;
  const cluster = exec.providesClusterInfo
    ? {
        server: access.server,
        "tls-server-name": access.tlsServerName,
        "insecure-skip-tls-verify": access.skipsTlsVerification,
        "certificate-authority-data":
          ca === undefined ? undefined : Buffer.from(await readSource(ca)).toString("base64"),
      }
    : undefined;
  return {
    apiVersion: exec.apiVersion,
    kind: "ExecCredential",
    spec: { interactive: false, cluster },
  };
}

function problem(
  { command, installHint }: ExecPlugin,
  error: ExecFileException,
  stderr: string,
): ApiAccessError {
  const isMissing = error.code === "ENOENT";
  const said = stderr.trim().split("\n").at(-1) ?? "";
  const reason = isMissing
    ? `not found${installHint === "" ? "" : `: ${installHint.trim()}`}`
    : error.killed === true
      ? `did not end within ${PLUGIN_TIMEOUT_MS / 1000} s`
      : `failed with ${String(error.code)}${said === "" ? "" : `: ${said}`}`;
  return new ApiAccessError(`exec plugin ${command}: ${reason}`, { cause: error });
}

function credentialFrom({ command, apiVersion }: ExecPlugin, output: string): ExecCredential {
  let printed: Readonly<Record<string, unknown>>;
  try {
    printed = recordOf(JSON.parse(output));
  } catch (error) {
    throw new ApiAccessError(`exec plugin ${command}: it printed no JSON`, { cause: error });
  }
  if (printed["kind"] !== "ExecCredential" || printed["apiVersion"] !== apiVersion) {
    throw new ApiAccessError(
      `exec plugin ${command}: it printed no ExecCredential of ${apiVersion}`,
    );
  }
  const status = recordOf(printed["status"]);
  const token = textOf(status["token"]);
  const cert = textOf(status["clientCertificateData"]);
  const key = textOf(status["clientKeyData"]);
  if (token === "" && (cert === "" || key === "")) {
    throw new ApiAccessError(`exec plugin ${command}: it gave neither a token nor a certificate`);
  }
  const expiresAtMs = Date.parse(textOf(status["expirationTimestamp"]));
  return {
    token: token === "" ? undefined : token,
    clientCertificate: cert === "" || key === "" ? undefined : { cert, key },
    expiresAtMs: Number.isNaN(expiresAtMs) ? undefined : expiresAtMs,
  };
}
