import { tuneGarbageCollection } from "@reachback/common";
import type { RoleName, RoleReply, RoleRequest, Roles, RunningRole } from "./roles.ts";

type Start<Name extends RoleName> = (config: Roles[Name]["config"]) => Promise<RunningRole<Name>>;

/** Loaded only when wanted: each process is to hold its own code and nothing else. */
const STARTERS: { readonly [Name in RoleName]: Start<Name> } = {
  load: async () => {
    // Pieces of gRPC downloads are garbage: marking it all the time would take a core from what is measured.
    tuneGarbageCollection();
    const { loadCommands } = await import("../load/load.ts");
    return { info: undefined, commands: loadCommands() };
  },
  endpoint: async () => {
    const { startEndpoint } = await import("../endpoint/endpoint.ts");
    return { info: await startEndpoint(), commands: {} };
  },
  "near-relay": async (config) => {
    const { startNearRelay } = await import("../tls-relay/tls-relay.ts");
    await startNearRelay(config);
    return { info: undefined, commands: {} };
  },
  "far-relay": async (config) => {
    const { startFarRelay } = await import("../tls-relay/tls-relay.ts");
    return { info: await startFarRelay(config), commands: {} };
  },
  "delay-relay": async (config) => {
    const { delayRelayCommands } = await import("../delay-relay/delay-relay.ts");
    return { info: undefined, commands: delayRelayCommands(config) };
  },
};

export function isRoleName(text: string): text is RoleName {
  return Object.hasOwn(STARTERS, text);
}

/** Be one of the bench's own processes, until the bench goes away. */
export function runRole(name: RoleName): void {
  let commands: Record<string, (argument: unknown) => unknown> = {
    start: async (config) => {
      const start = STARTERS[name] as Start<RoleName>;
      const running = await start(config as Roles[RoleName]["config"]);
      commands = running.commands as typeof commands;
      return running.info;
    },
  };
  const answer = async ({ requestId, command, argument }: RoleRequest): Promise<RoleReply> => {
    try {
      return { requestId, result: await commands[command]?.(argument) };
    } catch (error) {
      return { requestId, error: error instanceof Error ? error.message : String(error) };
    }
  };
  process.on("message", (request) => {
    void answer(request as RoleRequest).then((reply) => process.send?.(reply));
  });
  process.on("disconnect", () => {
    process.exit();
  });
  // Ctrl-C reaches every process of the terminal; this one ends when the bench has had its say.
  process.on("SIGINT", () => undefined);
}
