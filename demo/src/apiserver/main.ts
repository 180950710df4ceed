import { stringType } from "@reachback/common";
import { readCluster } from "../cluster/cluster.ts";
import {
  BIND_ADDRESS,
  fileFlag,
  healthPortFlag,
  portFlag,
  runProgram,
  startHealth,
} from "../program.ts";
import { startApiserver } from "./apiserver.ts";
import { frontendFromText } from "./frontend-flag.ts";

await runProgram({
  name: "demo-apiserver",
  summary:
    "A test double of kube-apiserver: enough for kubectl get, logs, exec, attach and port-forward. " +
    "It reaches kubelets and pods through a Reachback server only.",
  examples:
    "demo/bin/apiserver.js --cluster=demo/cluster.json --frontend=grpc,unix:/tmp/reachback.sock\n" +
    "kubectl --kubeconfig demo/kubeconfig get pods",
  flags: {
    "bind-address": BIND_ADDRESS,
    port: portFlag(6443, "Port for kubectl."),
    "health-port": healthPortFlag(6440),
    cluster: fileFlag("Cluster", "demo/cluster.json", "Nodes, pods and services: JSON."),
    kubeconfig: fileFlag(
      "Cluster",
      "demo/kubeconfig",
      "Written at each start, with a new token in it.",
    ),
    "advertise-url": {
      type: stringType,
      default: "",
      defaultText: "https://127.0.0.1 and --port",
      group: "Cluster",
      placeholder: "url",
      help: "Where the kubeconfig says that the apiserver is.",
    },
    frontend: {
      type: stringType,
      default: "grpc,unix:/tmp/reachback.sock",
      group: "Tunnel",
      placeholder: "protocol,address",
      help: "A frontend of reachback-server: grpc or http-connect, and unix:PATH or HOST:PORT.",
    },
    "frontend-ca-file": fileFlag("Tunnel", "certs/frontend/ca.crt", "CA of a TCP frontend."),
    "frontend-cert-file": fileFlag(
      "Tunnel",
      "certs/frontend/client.crt",
      "Certificate to show to a TCP frontend.",
    ),
    "frontend-key-file": fileFlag("Tunnel", "certs/frontend/client.key", "Its key."),
    "tls-cert-file": fileFlag("TLS", "certs/frontend/apiserver.crt", "Serving certificate."),
    "tls-private-key-file": fileFlag("TLS", "certs/frontend/apiserver.key", "Its key."),
    "tls-ca-file": fileFlag("TLS", "certs/frontend/ca.crt", "Its CA, for the kubeconfig."),
    "kubelet-certificate-authority": fileFlag(
      "Kubelets",
      "certs/kubelet/ca.crt",
      "CA of kubelets' certificates.",
    ),
    "kubelet-client-certificate": fileFlag(
      "Kubelets",
      "certs/kubelet/client.crt",
      "Certificate to show to kubelets.",
    ),
    "kubelet-client-key": fileFlag("Kubelets", "certs/kubelet/client.key", "Its key."),
  },
  start: async (flags, log) => {
    const bindAddress = flags["bind-address"];
    const frontend = frontendFromText(flags.frontend);
    const tls = {
      caPath: flags["frontend-ca-file"],
      certPath: flags["frontend-cert-file"],
      keyPath: flags["frontend-key-file"],
    };
    const url = flags["advertise-url"];
    const apiserver = await startApiserver(
      {
        cluster: readCluster(flags.cluster),
        frontend: frontend.address.kind === "tcp" ? { ...frontend, tls } : frontend,
        bindAddress,
        port: flags.port,
        certPath: flags["tls-cert-file"],
        keyPath: flags["tls-private-key-file"],
        caPath: flags["tls-ca-file"],
        kubeletCaPath: flags["kubelet-certificate-authority"],
        kubeletClientCertPath: flags["kubelet-client-certificate"],
        kubeletClientKeyPath: flags["kubelet-client-key"],
        kubeconfigPath: flags.kubeconfig,
        advertisedUrl: url === "" ? `https://127.0.0.1:${flags.port}` : url,
      },
      log,
    );
    const health = await startHealth(flags["health-port"], bindAddress);
    return {
      stop: () => {
        health.stop();
        apiserver.stop();
      },
    };
  },
});
