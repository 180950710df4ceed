import type { Clock } from "../clock.ts";
import type { ApiAccess } from "./api-access.ts";
import { ApiAccessError, readSource } from "./api-access.ts";
import { runExecPlugin } from "./exec-plugin.ts";
import type { ExecCredential } from "./exec-plugin.ts";

/** What a request is sent with. */
export interface RequestIdentity {
  /** `Authorization` and impersonation. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly tls: TlsIdentity;
}

/** PEM of the TLS connection; equal fields mean that a connection may be used again. */
export interface TlsIdentity {
  readonly ca: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

/** Files are read again after so long: tokens and certificates are replaced while we run. */
const REREAD_MS = 10_000;

/** An exec plugin is run again so long before what it gave expires. */
const EARLY_MS = 10_000;

/** The credentials of an {@link ApiAccess}, kept fresh. */
export class ApiCredentials {
  readonly #access: ApiAccess;
  readonly #clock: Clock;
  readonly #env: Readonly<Record<string, string | undefined>>;
  #current: { readonly identity: RequestIdentity; readonly readAtMs: number } | undefined;
  #reading: Promise<RequestIdentity> | undefined;
  #executed: ExecCredential | undefined;

  constructor(access: ApiAccess, clock: Clock, env: Readonly<Record<string, string | undefined>>) {
    this.#access = access;
    this.#clock = clock;
    this.#env = env;
  }

  /**
   * What to send a request with now.
   *
   * @throws {ApiAccessError} if a file or the plugin is of no use.
   */
  async identity(): Promise<RequestIdentity> {
    const current = this.#current;
    if (current !== undefined && this.#clock.now() - current.readAtMs < REREAD_MS) {
      return current.identity;
    }
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** The apiserver did not accept these credentials: get others for the next request. */
  refuse(identity: RequestIdentity): void {
    if (this.#current?.identity !== identity) return;
    this.#current = undefined;
    this.#executed = undefined;
  }

  async #read(): Promise<RequestIdentity> {
    const { ca, clientCertificate, basic, impersonation } = this.#access;
    const executed = await this.#exec();
    const token = executed?.token ?? (await this.#token());
    const pair =
      executed?.clientCertificate ??
      (clientCertificate === undefined
        ? undefined
        : {
            cert: await readSource(clientCertificate.cert),
            key: await readSource(clientCertificate.key),
          });
    const authorization =
      token !== undefined
        ? `Bearer ${token}`
        : basic === undefined
          ? undefined
          : `Basic ${Buffer.from(`${basic.username}:${basic.password}`).toString("base64")}`;
    const identity: RequestIdentity = {
      headers: [
        ...(authorization === undefined ? [] : [["authorization", authorization] as const]),
        ...impersonation,
      ],
      tls: {
        ca: ca === undefined ? undefined : await readSource(ca),
        cert: pair?.cert,
        key: pair?.key,
      },
    };
    this.#current = { identity, readAtMs: this.#clock.now() };
    return identity;
  }

  async #token(): Promise<string | undefined> {
    const { token: source } = this.#access;
    if (source === undefined) return undefined;
    const token = (await readSource(source)).trim();
    if (!/^[\x21-\x7e]+$/.test(token)) {
      const where = "path" in source ? source.path : "of the kubeconfig's user";
      throw new ApiAccessError(`the token ${where} is empty or holds what no header can`);
    }
    return token;
  }

  async #exec(): Promise<ExecCredential | undefined> {
    const { exec } = this.#access;
    if (exec === undefined) return undefined;
    const { expiresAtMs = Infinity } = this.#executed ?? {};
    if (this.#executed === undefined || expiresAtMs - EARLY_MS < this.#clock.wallTimeMs()) {
      this.#executed = await runExecPlugin({ ...this.#access, exec }, this.#env);
    }
    return this.#executed;
  }
}
