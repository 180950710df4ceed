export { Client } from "./client.ts";
export { ClientError } from "./client-error.ts";
export type { ClientErrorCode } from "./client-error.ts";
export type { ClientOptions, ClientTlsFiles, DialOptions } from "./client-options.ts";
