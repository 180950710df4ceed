import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync, writeFileSync } from "node:fs";
import { userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { Child } from "../processes/child-processes.ts";
import { freePort } from "../processes/free-port.ts";
import { descendantsOf } from "../processes/process-tree.ts";
import { UnavailableError } from "./subject.ts";
import type { LabSite, SubjectFamily } from "./subject.ts";
import { listens, waitUntil } from "./wait-until.ts";

const run = promisify(execFile);

const TOOL_TIMEOUT_MS = 10_000;

/**
 * `ssh -L` to a throw-away sshd on loopback: the tunnel that everybody has. Cipher AES-128-GCM, as
 * the others; no compression.
 */
export const openssh: SubjectFamily = {
  ids: ["openssh"],
  start: async (site) => {
    const { endpointPorts, folder } = site;
    const tools = { ssh: findTool("ssh"), sshd: findTool("sshd"), keygen: findTool("ssh-keygen") };
    await makeKey(tools.keygen, join(folder, "host_key"));
    await makeKey(tools.keygen, join(folder, "user_key"));

    const sshdPort = await freePort();
    const sshd = await startSshd(site, tools.sshd, sshdPort);
    const paths = { main: join(folder, "ssh.sock"), beside: join(folder, "ssh-beside.sock") };
    const ssh = await startSsh(site, tools.ssh, await site.link(sshdPort), [
      `${paths.main}:127.0.0.1:${endpointPorts.main}`,
      `${paths.beside}:127.0.0.1:${endpointPorts.beside}`,
    ]);
    await waitUntil("ssh", ssh, () => listens({ path: paths.beside }));
    return [
      {
        id: "openssh",
        routes: {
          main: { kind: "unix", path: paths.main },
          beside: { kind: "unix", path: paths.beside },
        },
        processes: [
          { name: "ssh", pid: ssh.pid },
          // One process listens; the one or two that serve the session are its children.
          ...[sshd.pid, ...descendantsOf(sshd.pid)].map((pid) => ({ name: "sshd", pid })),
        ],
      },
    ];
  },
};

/** sshd is seldom in a user's PATH, and wants to be called by its whole path. */
function findTool(name: string): string {
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  for (const folder of [...folders, "/usr/sbin", "/usr/local/sbin"]) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not here.
    }
  }
  throw new UnavailableError(`no ${name}`);
}

async function makeKey(keygen: string, path: string): Promise<void> {
  await run(keygen, ["-q", "-t", "ed25519", "-N", "", "-f", path], { timeout: TOOL_TIMEOUT_MS });
}

async function startSshd({ folder, spawn }: LabSite, sshd: string, port: number): Promise<Child> {
  const configPath = join(folder, "sshd_config");
  const authorizedKeysPath = join(folder, "user_key.pub");
  writeFileSync(
    configPath,
    `\
ListenAddress 127.0.0.1:${port}
HostKey ${join(folder, "host_key")}
AuthorizedKeysFile ${authorizedKeysPath}
PidFile none
# The folder of the keys is one in /tmp.
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding local
Ciphers aes128-gcm@openssh.com
Compression no
LogLevel ERROR
`,
  );
  try {
    await run(sshd, ["-t", "-f", configPath], { timeout: TOOL_TIMEOUT_MS });
  } catch (error) {
    const { stderr } = error as { stderr?: string };
    throw new UnavailableError(`sshd says: ${stderr?.trim().split("\n")[0] ?? String(error)}`);
  }
  const child = await spawn("far", sshd, ["-D", "-e", "-f", configPath]);
  await waitUntil("sshd", child, () => listens({ host: "127.0.0.1", port }));
  return child;
}

async function startSsh(
  { folder, spawn }: LabSite,
  ssh: string,
  port: number,
  forwards: readonly string[],
): Promise<Child> {
  const hostKey = readFileSync(join(folder, "host_key.pub"), "utf8");
  const knownHostsPath = join(folder, "known_hosts");
  writeFileSync(knownHostsPath, `* ${hostKey}`);
  const options = [
    "BatchMode=yes",
    "Ciphers=aes128-gcm@openssh.com",
    "Compression=no",
    "ControlPath=none",
    "ExitOnForwardFailure=yes",
    "GlobalKnownHostsFile=none",
    "IdentitiesOnly=yes",
    "StrictHostKeyChecking=yes",
    `UserKnownHostsFile=${knownHostsPath}`,
  ];
  return spawn("near", ssh, [
    ...["-F", "none", "-N", "-p", String(port), "-i", join(folder, "user_key")],
    ...options.flatMap((option) => ["-o", option]),
    ...forwards.flatMap((forward) => ["-L", forward]),
    `${userInfo().username}@127.0.0.1`,
  ]);
}
