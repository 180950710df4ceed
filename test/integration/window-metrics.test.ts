import assert from "node:assert/strict";
import { it } from "node:test";
import { TEST_FLOW, startCluster, startEndpoint, until } from "../support/cluster.ts";
import { scrape } from "../support/gauges.ts";
import { echoed } from "../support/workers-server.ts";

const MIB = 1024 * 1024;

it("metrics show what the windows of both programs have grown by, while connections need it", async (t) => {
  const { healthPort, agent, clients } = await startCluster(t);
  const gauges = async (which: string) => {
    const texts = [await scrape(healthPort), await scrape(agent.ports.health)];
    const line = new RegExp(`^reachback_(?:server|agent)_window_${which} (.*)$`, "m");
    return texts.map((text) => Number(line.exec(text)?.[1]));
  };
  const { processWindowBytes } = TEST_FLOW;
  assert.deepEqual(await gauges("growth_limit_bytes"), [processWindowBytes, processWindowBytes]);
  assert.deepEqual(await gauges("growth_bytes"), [0, 0]);

  const endpoint = await startEndpoint(t, (socket) => socket.pipe(socket));
  const connection = await clients.connectUnix.dial(endpoint);
  await until(async () => {
    await echoed(connection, Buffer.alloc(MIB, "echo"));
    return (await gauges("growth_bytes")).every((bytes) => bytes > 0);
  });
  connection.destroy();
  await until(async () => (await gauges("growth_bytes")).every((bytes) => bytes === 0));
});
