import type { TestContext } from "node:test";
import { ManualClock, RecordingLogger } from "@reachback/common/testing";
import { OpsListener } from "../../src/ops/ops-listener.ts";
import type { OpsListenerLimits } from "../../src/ops/ops-listener.ts";
import type { OpsRoute } from "../../src/ops/ops-route.ts";
import { RawClient } from "./raw-client.ts";

/** The Date header of every answer of {@link openOps}, as its clock stands still. */
export const DATE = "Date: Tue, 14 Nov 2023 22:13:20 GMT";

/** A listener on a free port of the loopback interface, closed when the test ends. */
export async function openOps(
  t: TestContext,
  routes: readonly OpsRoute[],
  limits: Partial<OpsListenerLimits> = {},
) {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  const listener = await OpsListener.open(
    { name: "health server", host: "127.0.0.1", port: 0, routes, limits },
    { clock, logger },
  );
  t.after(() => listener.close());
  return {
    clock,
    logger,
    listener,
    connect: () => RawClient.connect(t, listener.port),

    /** The answer to one request on a connection of its own. */
    ask: async (request: string): Promise<string> => {
      const client = await RawClient.connect(t, listener.port);
      return await client.send(request).readResponse(request.startsWith("HEAD") ? "HEAD" : "other");
    },
  };
}

export function get(path: string, ...headers: string[]): string {
  return [`GET ${path} HTTP/1.1`, "Host: a:8092", ...headers, "", ""].join("\r\n");
}
