import type { TestContext } from "node:test";
import { systemRandom } from "@reachback/common";
import { reservePorts } from "../../packages/cli/src/demo/reserve-ports.ts";

/** Ports on loopback for programs of a test, which no other test is given until it ends. */
export async function freePorts(t: TestContext, count: number): Promise<number[]> {
  const { ports, release } = await reservePorts(count, systemRandom);
  t.after(release);
  return [...ports];
}
