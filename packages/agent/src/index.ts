export { Agent } from "./agent.ts";
export type { AgentPorts } from "./agent.ts";
export { agentProgram, resolveAgentOptions } from "./options.ts";
export type { AgentOptions } from "./options.ts";
