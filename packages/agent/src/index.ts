export { Agent } from "./agent.ts";
export type { AgentPorts } from "./agent.ts";
export { LookupError } from "./lookup/host-lookup.ts";
export type { HostLookup, LookupFailure } from "./lookup/host-lookup.ts";
export { agentProgram, resolveAgentOptions } from "./options.ts";
export type { AgentOptions } from "./options.ts";
