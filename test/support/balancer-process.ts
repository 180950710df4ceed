import { fork } from "node:child_process";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { SeededRandom } from "@reachback/common/testing";
import { TcpBalancer } from "./tcp-balancer.ts";

/**
 * A {@link TcpBalancer} that chooses at random, as a process of its own: for tests whose own thread is
 * not to carry the bytes as well.
 */
export interface BalancerProcess {
  readonly port: number;
  /** How many connections came. */
  connectionCount(): Promise<number>;
}

interface Order {
  readonly targets: readonly number[];
  readonly seed: number;
}

/** Start it on loopback; it ends with the test. */
export async function startBalancerProcess(
  t: TestContext,
  targets: readonly number[],
  seed: number,
): Promise<BalancerProcess> {
  const child = fork(fileURLToPath(import.meta.url), { stdio: "inherit" });
  child.on("error", () => undefined);
  const ended = once(child, "exit");
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  // One question at a time: answers do not say what they answer.
  const ask = async (question: Order | "count") => {
    child.send(question);
    const [answer] = (await Promise.race([
      once(child, "message"),
      ended.then(() => Promise.reject(new Error("the balancer's process has ended"))),
    ])) as [number];
    return answer;
  };
  const port = await ask({ targets, seed });
  return { port, connectionCount: () => ask("count") };
}

/** What the process does: it answers an order with its port, and then each question. */
function serve(send: (answer: number) => void): void {
  let balancer: TcpBalancer | undefined;
  process.on("message", (question: Order | "count") => {
    if (question === "count") {
      send(balancer?.connectionCount ?? 0);
      return;
    }
    const random = new SeededRandom(question.seed);
    balancer = new TcpBalancer(question.targets, (count) => Math.floor(random.fraction() * count));
    // Never called: the process is killed.
    const test = { after: () => undefined } as unknown as TestContext;
    void balancer.listen(test).then(send);
  });
  process.on("disconnect", () => process.exit());
}

if (process.send !== undefined && process.argv[1] === fileURLToPath(import.meta.url)) {
  serve((answer) => process.send?.(answer));
}
