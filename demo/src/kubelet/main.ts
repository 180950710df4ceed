import { stringType } from "@reachback/common";
import { readCluster } from "../cluster/cluster.ts";
import { BIND_ADDRESS, fileFlag, healthPortFlag, runProgram, startHealth } from "../program.ts";
import { startKubelet } from "./kubelet.ts";

await runProgram({
  name: "demo-kubelet",
  summary:
    "A test double of the kubelet. Its containers are processes beside it, without any isolation.",
  examples: "demo/bin/kubelet.js --cluster=demo/cluster.json --node=node-a",
  flags: {
    "bind-address": BIND_ADDRESS,
    "health-port": healthPortFlag(10248),
    cluster: fileFlag("Cluster", "demo/cluster.json", "Nodes, pods and services: JSON."),
    node: {
      type: stringType,
      default: "node-a",
      group: "Cluster",
      placeholder: "name",
      help: "Whose kubelet this is. The cluster file says on which port it listens.",
    },
    "tls-cert-file": fileFlag("TLS", "certs/kubelet/server.crt", "Serving certificate."),
    "tls-private-key-file": fileFlag("TLS", "certs/kubelet/server.key", "Its key."),
    "client-ca-file": fileFlag("TLS", "certs/kubelet/ca.crt", "CA of those who may connect."),
  },
  start: async (flags, log) => {
    const bindAddress = flags["bind-address"];
    const kubelet = await startKubelet(
      {
        cluster: readCluster(flags.cluster),
        nodeName: flags.node,
        bindAddress,
        certPath: flags["tls-cert-file"],
        keyPath: flags["tls-private-key-file"],
        clientCaPath: flags["client-ca-file"],
      },
      log,
    );
    const health = await startHealth(flags["health-port"], bindAddress);
    return {
      stop: () => {
        health.stop();
        kubelet.stop();
      },
    };
  },
});
