import { intType } from "@reachback/common";
import type { FlagTable } from "@reachback/common";

const LIMITS = "Limits: what is beyond one is refused at once; 0 means none";

/** How much of everything a server takes. */
export const LIMIT_FLAGS = {
  "max-pending-dials": {
    type: intType,
    placeholder: "count",
    default: 10_000,
    group: LIMITS,
    help: "Requests that may wait for agents at a time.",
  },
  "max-connections": {
    type: intType,
    placeholder: "count",
    default: 65_536,
    group: LIMITS,
    help: "Connections, pending ones included, that this server may have at a time.",
  },
  "max-connections-per-agent": {
    type: intType,
    placeholder: "count",
    default: 16_384,
    group: LIMITS,
    help: "The same for one tunnel of an agent. Beyond it other agents are chosen, as long as there are any.",
  },
  "max-tunnels-per-identity": {
    type: intType,
    placeholder: "count",
    default: 10_000,
    group: LIMITS,
    help: "Tunnels that agents of one identity may have together. That is their certificate's name; without certificates their token's user, which all agents usually share: raise it where there are about as many nodes. Set it low if each agent has a certificate of its own name.",
  },
} as const satisfies FlagTable;
