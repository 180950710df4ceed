import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../processes/free-port.ts";
import type { LabSite, Subject, SubjectFamily } from "./subject.ts";
import { answersOk, waitUntil } from "./wait-until.ts";

const SERVER = fileURLToPath(new URL("../../../server/bin/reachback-server.js", import.meta.url));
const AGENT = fileURLToPath(new URL("../../../agent/bin/reachback-agent.js", import.meta.url));

/** The executables, with default flags but for addresses and certificates. */
export const reachback: SubjectFamily = {
  ids: ["reachback", "reachback-grpc"],
  start: async (site) => {
    const connectPath = join(site.folder, "connect.sock");
    const grpcPath = join(site.folder, "grpc.sock");
    const agentPort = await freePort();
    const serverPid = await startServer(site, connectPath, grpcPath, agentPort);
    const agentPid = await startAgent(site, await site.link(agentPort));

    const endpoint = (port: number) => `127.0.0.1:${port}`;
    const main = endpoint(site.endpointPorts.main);
    const beside = endpoint(site.endpointPorts.beside);
    const processes = [
      { name: "server", pid: serverPid },
      { name: "agent", pid: agentPid },
    ];
    const subjects: Subject[] = [
      {
        id: "reachback",
        routes: {
          main: { kind: "connect", path: connectPath, endpoint: main },
          beside: { kind: "connect", path: connectPath, endpoint: beside },
        },
        processes,
      },
      {
        id: "reachback-grpc",
        routes: {
          main: { kind: "grpc", path: grpcPath, endpoint: main },
          beside: { kind: "grpc", path: grpcPath, endpoint: beside },
        },
        processes,
      },
    ];
    return subjects;
  },
};

async function startServer(
  { certificates, spawn }: LabSite,
  connectPath: string,
  grpcPath: string,
  agentPort: number,
): Promise<number> {
  const healthPort = await freePort();
  const { certPath, keyPath } = certificates.leaves["agent-server"];
  const server = await spawn("near", SERVER, [
    "--mode=http-connect",
    `--uds-name=${connectPath}`,
    "--server-port=0",
    `--frontend=grpc,unix:${grpcPath}`,
    "--agent-bind-address=127.0.0.1",
    `--agent-port=${agentPort}`,
    "--health-bind-address=127.0.0.1",
    `--health-port=${healthPort}`,
    `--admin-port=${await freePort()}`,
    `--cluster-cert=${certPath}`,
    `--cluster-key=${keyPath}`,
    `--cluster-ca-cert=${certificates.authorities.agent.certPath}`,
  ]);
  await waitUntil("reachback-server", server, () => answersOk(healthPort, "/healthz"));
  return server.pid;
}

async function startAgent({ certificates, spawn }: LabSite, serverPort: number): Promise<number> {
  const healthPort = await freePort();
  const { certPath, keyPath } = certificates.leaves.agent;
  const agent = await spawn("far", AGENT, [
    "--proxy-server-host=127.0.0.1",
    `--proxy-server-port=${serverPort}`,
    `--ca-cert=${certificates.authorities.agent.certPath}`,
    `--agent-cert=${certPath}`,
    `--agent-key=${keyPath}`,
    "--health-server-host=127.0.0.1",
    `--health-server-port=${healthPort}`,
    `--admin-server-port=${await freePort()}`,
  ]);
  await waitUntil("reachback-agent", agent, () => answersOk(healthPort, "/readyz"));
  return agent.pid;
}
