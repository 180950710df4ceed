import type { Child, ChildProcesses } from "./child-processes.ts";
import { RoleChannel } from "./role-channel.ts";
import type { RoleName, Roles } from "./roles.ts";

const START_TIMEOUT_MS = 10_000;

type Info<Name extends RoleName> = Roles[Name]["info"];
type Commands<Name extends RoleName> = Roles[Name]["commands"];
type CommandName<Name extends RoleName> = keyof Commands<Name> & string;
type Argument<Command> = Command extends (argument: infer Given) => unknown ? Given : never;
type Result<Command> = Command extends (argument: never) => infer Given ? Awaited<Given> : never;

/** One of the bench's own processes, seen from the bench. */
export class RoleProcess<Name extends RoleName> {
  readonly child: Child;
  /** What it told when it had started. */
  readonly info: Info<Name>;
  readonly #channel: RoleChannel;

  private constructor(child: Child, channel: RoleChannel, info: Info<Name>) {
    this.child = child;
    this.info = info;
    this.#channel = channel;
  }

  static async start<Name extends RoleName>(
    children: ChildProcesses,
    name: Name,
    config: Roles[Name]["config"],
    cores?: string,
  ): Promise<RoleProcess<Name>> {
    const child = await children.fork([name], cores);
    const channel = new RoleChannel(child, name);
    try {
      const info = (await channel.request("start", config, START_TIMEOUT_MS)) as Info<Name>;
      return new RoleProcess(child, channel, info);
    } catch (error) {
      await children.stop(child);
      throw error;
    }
  }

  get pid(): number {
    return this.child.pid;
  }

  async call<Command extends CommandName<Name>>(
    command: Command,
    argument: Argument<Commands<Name>[Command]>,
    timeoutMs: number,
  ): Promise<Result<Commands<Name>[Command]>> {
    return (await this.#channel.request(command, argument, timeoutMs)) as Result<
      Commands<Name>[Command]
    >;
  }
}
