import type { DelayRelayCommands, DelayRelayConfig } from "../delay-relay/delay-relay.ts";
import type { LoadCommands } from "../load/load-task.ts";
import type { FarRelayConfig, NearRelayConfig } from "../tls-relay/tls-relay.ts";

type NoCommands = Readonly<Record<string, never>>;

/** The bench's own processes: what each is started with, tells at the start, and can be asked. */
export interface Roles {
  load: { config: undefined; info: undefined; commands: LoadCommands };
  endpoint: { config: undefined; info: { readonly port: number }; commands: NoCommands };
  "near-relay": { config: NearRelayConfig; info: undefined; commands: NoCommands };
  "far-relay": {
    config: FarRelayConfig;
    info: { readonly ports: readonly number[] };
    commands: NoCommands;
  };
  "delay-relay": { config: DelayRelayConfig; info: undefined; commands: DelayRelayCommands };
}

export type RoleName = keyof Roles;

/** What a role's process answers with once it runs. */
export interface RunningRole<Name extends RoleName> {
  readonly info: Roles[Name]["info"];
  readonly commands: Roles[Name]["commands"];
}

/** From the bench to one of its processes: first a start, then commands. */
export interface RoleRequest {
  readonly requestId: number;
  /** `"start"`, or the name of a command. */
  readonly command: string;
  readonly argument: unknown;
}

export interface RoleReply {
  readonly requestId: number;
  readonly result?: unknown;
  /** Present if it failed. */
  readonly error?: string;
}
