import { join } from "node:path";
import type { SubjectFamily } from "./subject.ts";

/** The reference: see tls-relay/tls-relay.ts. */
export const tlsRelay: SubjectFamily = {
  ids: ["relay"],
  start: async ({ folder, certificates, endpointPorts, link, startRole }) => {
    const caPath = certificates.authorities.agent.certPath;
    const { "agent-server": server, agent: client } = certificates.leaves;
    const far = await startRole("far", "far-relay", {
      tls: { caPath, certPath: server.certPath, keyPath: server.keyPath },
      targetPorts: [endpointPorts.main, endpointPorts.beside],
    });
    const [mainPort = 0, besidePort = 0] = far.info.ports;
    const paths = { main: join(folder, "relay.sock"), beside: join(folder, "relay-beside.sock") };
    const near = await startRole("near", "near-relay", {
      tls: { caPath, certPath: client.certPath, keyPath: client.keyPath },
      routes: [
        { path: paths.main, farPort: await link(mainPort) },
        { path: paths.beside, farPort: await link(besidePort) },
      ],
    });
    return [
      {
        id: "relay",
        routes: {
          main: { kind: "unix", path: paths.main },
          beside: { kind: "unix", path: paths.beside },
        },
        processes: [
          { name: "near", pid: near.pid },
          { name: "far", pid: far.pid },
        ],
      },
    ];
  },
};
