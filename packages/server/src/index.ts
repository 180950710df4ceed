export { resolveServerOptions, serverProgram } from "./options.ts";
export type { ServerOptions } from "./options.ts";
export { Server } from "./server.ts";
export type { ServerPorts } from "./server.ts";
