import { boolType, durationType, float32Type, intType, stringType } from "@reachback/common";
import type { FlagTable } from "@reachback/common";

const SECOND_MS = 1_000;

const TOKENS = "Agent authentication by service account token";
const LEASES = "Leases that announce this server";
const APISERVER = "The apiserver that reviews tokens and keeps leases";

/** The flags of what the server needs an apiserver's API for. */
export const APISERVER_FLAGS = {
  "agent-namespace": {
    type: stringType,
    placeholder: "namespace",
    default: "",
    group: TOKENS,
    help: "Namespace whose service account agents must run as. Setting it and the next two asks agents for a token, besides a certificate if --cluster-ca-cert is set, and instead of one if not.",
  },
  "agent-service-account": {
    type: stringType,
    placeholder: "name",
    default: "",
    group: TOKENS,
    help: "Service account agents must run as.",
  },
  "authentication-audience": {
    type: stringType,
    placeholder: "audience",
    default: "",
    group: TOKENS,
    help: "Audience that an agent's token must be made for.",
  },
  "token-review-timeout": {
    type: durationType,
    default: 30 * SECOND_MS,
    group: TOKENS,
    help: "How long an agent may wait for its token to be reviewed, be it that many come at once or that the apiserver is not there yet, before it is told why and tries again.",
  },
  "token-review-queue": {
    type: intType,
    placeholder: "count",
    default: 10_000,
    group: TOKENS,
    help: "Agents that may wait for a review at a time; more are told to try again.",
  },
  "token-review-cache-ttl": {
    type: durationType,
    default: 5 * 60 * SECOND_MS,
    group: TOKENS,
    help: "How long an accepted token, until it expires, is accepted again without a review; 0 means each tunnel is reviewed.",
  },
  kubeconfig: {
    type: stringType,
    placeholder: "path",
    default: "",
    group: APISERVER,
    help: "How to reach the apiserver that reviews tokens and keeps leases. Empty means the pod's own account.",
  },
  "kubeconfig-qps": {
    type: float32Type,
    placeholder: "rate",
    default: 0,
    group: APISERVER,
    help: "Token reviews per second asked of that apiserver; 0 means 50. Leases need next to nothing and are not held back.",
  },
  "kubeconfig-burst": {
    type: intType,
    placeholder: "count",
    default: 0,
    group: APISERVER,
    help: "Token reviews that may go out together after a pause; 0 means 50.",
  },
  "kube-api-content-type": {
    type: stringType,
    placeholder: "type",
    default: "application/vnd.kubernetes.protobuf",
    group: APISERVER,
    help: "Accepted and without effect: JSON is spoken, which every apiserver understands.",
  },

  "enable-lease-controller": {
    type: boolType,
    default: false,
    group: LEASES,
    help: "Publish a lease for this server, so that agents can count servers, and remove expired ones. Needs get, create, update, list and delete on leases.",
  },
  "lease-namespace": {
    type: stringType,
    placeholder: "namespace",
    default: "kube-system",
    group: LEASES,
    help: "Namespace of the leases.",
  },
  "lease-label": {
    type: stringType,
    placeholder: "labels",
    default: "k8s-app=konnectivity-server",
    group: LEASES,
    help: "Labels of the leases, KEY=VALUE separated by commas.",
  },
} as const satisfies FlagTable;
