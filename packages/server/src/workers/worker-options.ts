import type { ServerOptions } from "../options.ts";

/**
 * What one of the workers runs with: it is a server of its own to agents, and has its share of what the
 * process as a whole may take of memory and of the apiserver.
 *
 * @param slot - From 1.
 */
export function optionsOfWorker(options: ServerOptions, slot: number): ServerOptions {
  const { workers, flow, tokenAuthentication } = options;
  return {
    ...options,
    serverId: `${options.serverId}-${slot}`,
    serverCount: options.serverCount * workers,
    // The shares add up to exactly what there is.
    flow: {
      ...flow,
      processWindowBytes: Math.floor((flow.processWindowBytes + slot - 1) / workers),
    },
    tokenAuthentication:
      tokenAuthentication === undefined
        ? undefined
        : {
            ...tokenAuthentication,
            perSecond: tokenAuthentication.perSecond / workers,
            burst: Math.ceil(tokenAuthentication.burst / workers),
          },
  };
}
