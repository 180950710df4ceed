export { resolveServerOptions, serverProgram } from "./options.ts";
export type { ServerOptions } from "./options.ts";
export { startServer } from "./start-server.ts";
export type { RunningServer, StartPorts } from "./start-server.ts";
