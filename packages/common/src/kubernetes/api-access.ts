import { readFile } from "node:fs/promises";
import { systemErrorText } from "../system-error-text.ts";

/** A text that is either in the configuration itself or in a file, which may change at any time. */
export type TextSource = { readonly text: string } | { readonly path: string };

/** A command that prints credentials (client.authentication.k8s.io). */
export interface ExecPlugin {
  readonly apiVersion: string;
  /** Absolute, or a name to be found in `PATH`. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Whether the command is told which cluster it is for. */
  readonly providesClusterInfo: boolean;
  /** What to tell whoever lacks the command. */
  readonly installHint: string;
}

/** Where an apiserver is, how it proves to be the right one, and as whom to talk to it. */
export interface ApiAccess {
  /** Without a slash at the end; may have a path. */
  readonly server: string;
  /** CAs of the apiserver's certificate; `undefined` for those that come with Node. */
  readonly ca: TextSource | undefined;
  readonly skipsTlsVerification: boolean;
  /** Whom the apiserver's certificate must be for, if not the host of {@link server}. */
  readonly tlsServerName: string | undefined;

  readonly clientCertificate: { readonly cert: TextSource; readonly key: TextSource } | undefined;
  readonly token: TextSource | undefined;
  readonly basic: { readonly username: string; readonly password: string } | undefined;
  readonly exec: ExecPlugin | undefined;
  /** `Impersonate-*` headers. */
  readonly impersonation: readonly (readonly [name: string, value: string])[];
}

/** Why an apiserver cannot be talked to, found before anything was sent. */
export class ApiAccessError extends Error {
  override readonly name = "ApiAccessError";
}

/**
 * The text itself, or what its file holds now.
 *
 * @throws {ApiAccessError} naming the file.
 */
export async function readSource(source: TextSource): Promise<string> {
  if ("text" in source) return source.text;
  try {
    return await readFile(source.path, "utf8");
  } catch (error) {
    const reason = systemErrorText(error as NodeJS.ErrnoException);
    throw new ApiAccessError(`cannot read ${source.path}: ${reason}`, { cause: error });
  }
}
