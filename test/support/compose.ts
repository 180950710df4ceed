import { execFile, spawnSync } from "node:child_process";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const execute = promisify(execFile);

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** How Compose is called: `COMPOSE` in the environment, version 2 as a plugin, or what is there. */
const COMPOSE = composeCommand();

function composeCommand(): readonly string[] {
  const given = process.env["COMPOSE"];
  if (given !== undefined) return given.split(" ");
  return succeeds("docker", "compose", "version") ? ["docker", "compose"] : ["docker-compose"];
}

/** Why tests with Compose cannot run here, or false: for the `skip` of node:test. */
export const composeMissing: string | false = whatIsMissing();

function whatIsMissing(): string | false {
  if (!succeeds("docker", "info")) {
    return "no Docker daemon answers (test/docker/with-docker.sh starts one)";
  }
  const [program = "", ...args] = COMPOSE;
  return succeeds(program, ...args, "version") ? false : "Docker Compose is not installed";
}

function succeeds(program: string, ...args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: "ignore", timeout: 30_000 }).status === 0;
}

/** How a run of a command ended. */
export interface CommandOutcome {
  readonly code: number;
  readonly stdout: string;
}

/** The containers of docker-compose.yml, in a project of its own; all of it goes with the test. */
export class ComposeProject {
  readonly #name: string;
  readonly #env: Readonly<Record<string, string | undefined>>;

  private constructor(env: Readonly<Record<string, string>>) {
    this.#name = `reachback-test-${process.pid}`;
    this.#env = { ...process.env, ...env };
  }

  /** Build the images and start everything. @param env - what docker-compose.yml asks for. */
  static async up(
    t: TestContext,
    images: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<ComposeProject> {
    const project = new ComposeProject(env);
    const made = images.filter((image) => !succeeds("docker", "image", "inspect", image));
    t.after(async () => {
      await project.compose("down", "--volumes", "--remove-orphans", "--timeout=1");
      for (const image of made) succeeds("docker", "image", "rm", image);
    });
    await project.#start();
    return project;
  }

  async #start(): Promise<void> {
    try {
      await this.compose("build");
      await this.compose("up", "--detach");
    } catch (error) {
      const { message, stdout } = error as CommandOutcome & Error;
      const logs = await this.compose("logs", "--no-color", "--tail=10").catch(() => "");
      const health = await this.#failedHealthChecks().catch(() => "");
      const text = [stdout.slice(-4_000), logs.slice(-16_000), health, message].join("\n");
      throw new Error(text, { cause: error });
    }
  }

  /** What the last health checks said of containers that are not healthy. */
  async #failedHealthChecks(): Promise<string> {
    const filter = `--filter=label=com.docker.compose.project=${this.#name}`;
    const ids = (await docker("ps", "--all", "--quiet", filter)).split("\n");
    const states = JSON.parse(await docker("inspect", ...ids)) as ContainerState[];
    return states
      .filter(({ State }) => State.Health?.Status === "unhealthy")
      .map(({ Name, State }) => `${Name} is unhealthy: ${State.Health?.Log.at(-1)?.Output}`)
      .join("\n");
  }

  /** @throws {Error} with what it has printed, if it fails. */
  async compose(...args: readonly string[]): Promise<string> {
    const [program = "", ...first] = COMPOSE;
    const options = { cwd: ROOT, env: this.#env, maxBuffer: 64 * 1024 * 1024 };
    const { stdout } = await execute(
      program,
      [...first, "--project-name", this.#name, ...args],
      options,
    );
    return stdout;
  }

  /** The walkthrough once more, now. */
  async walkthrough(): Promise<CommandOutcome> {
    return this.compose("run", "--rm", "--no-deps", "-T", "walkthrough").then(
      (stdout) => ({ code: 0, stdout }),
      (error: unknown) => error as CommandOutcome,
    );
  }

  /** The id of a service's container, also of one that has ended. */
  async container(service: string): Promise<string> {
    const label = (key: string, value: string) =>
      `--filter=label=com.docker.compose.${key}=${value}`;
    return docker(
      ...["ps", "--all", "--quiet", "--no-trunc"],
      ...[label("project", this.#name), label("service", service), label("oneoff", "False")],
    );
  }

  async inspect(service: string): Promise<ContainerState> {
    const [state] = JSON.parse(
      await docker("inspect", await this.container(service)),
    ) as ContainerState[];
    if (state === undefined) throw new Error(`${service} has no container`);
    return state;
  }

  /** A service's address on one of the networks. */
  async address(service: string, network: string): Promise<string> {
    const { Networks } = (await this.inspect(service)).NetworkSettings;
    const found = Networks[`${this.#name}_${network}`];
    if (found === undefined) throw new Error(`${service} is not on ${network}`);
    return found.IPAddress;
  }

  /** Who is on a network: the services, in order. */
  async servicesOn(network: string, services: readonly string[]): Promise<string[]> {
    const name = `${this.#name}_${network}`;
    const states = await Promise.all(
      services.map(async (service) => ({ service, state: await this.inspect(service) })),
    );
    return states
      .filter(({ state }) => name in state.NetworkSettings.Networks)
      .map(({ service }) => service);
  }

  /** What comes of a connection from a service's container: "connected", or why not. */
  async connect(service: string, host: string, port: number): Promise<string> {
    const script = `
      const socket = require("node:net").connect({ host: "${host}", port: ${port}, timeout: 2000 });
      const done = (text) => { console.log(text); process.exit(); };
      socket.on("connect", () => done("connected"));
      socket.on("timeout", () => done("silent"));
      socket.on("error", ({ code }) => done(code));`;
    return docker("exec", await this.container(service), "node", "-e", script);
  }
}

/** What is looked at of `docker inspect`. */
export interface ContainerState {
  readonly Name: string;
  readonly State: {
    readonly Health?: {
      readonly Status: string;
      readonly Log: readonly { readonly Output: string }[];
    };
  };
  readonly Config: { readonly User: string };
  readonly HostConfig: {
    readonly ReadonlyRootfs: boolean;
    readonly CapDrop: readonly string[];
    readonly Memory: number;
    readonly PidsLimit: number;
  };
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly IPAddress: string }>>;
  };
}

/** What a container has printed last. */
export async function lastLinesOf(container: string): Promise<string> {
  const { stdout, stderr } = await execute("docker", ["logs", "--tail=30", container]);
  return stdout + stderr;
}

/** Run docker. @throws {Error} with what it has printed, if it fails. */
export async function docker(...args: readonly string[]): Promise<string> {
  const { stdout } = await execute("docker", args);
  return stdout.trim();
}
