import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import type { HostLookup } from "@reachback/agent";
import { SeededRandom } from "@reachback/common/testing";
import { startAgent, startCluster, startEndpoint, startServer, until } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { assertNothingLeft, whatIsHeld } from "../support/gauges.ts";
import { connectAsAgent, connectAsFrontend, packets } from "../support/packet-stream.ts";
import { connectRaw } from "../support/raw-socket.ts";

// Dials by the thousand, in real time.

const CONNECT = "CONNECT endpoint:80 HTTP/1.1\r\nHost: endpoint:80\r\n\r\n";

const pause = (timeMs: number) => new Promise((resolve) => setTimeout(resolve, timeMs));

/** Do `task` for 0, 1, ... below `count`, at most `concurrency` at a time. */
async function forEach(
  count: number,
  concurrency: number,
  task: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await task(next++);
  };
  await Promise.all(Array.from({ length: concurrency }, worker));
}

describe("an agent that accepts dials and never answers", () => {
  it("has 5,000 of them answered by the deadline and a second, and none is left", async (t) => {
    const timeoutMs = 15_000;
    const server = await startServer(t, { backendDialTimeoutMs: timeoutMs });
    const agent = await connectAsAgent(t, server);
    agent.serve(() => undefined);
    const shared = connectAsFrontend(t, server);
    const answers: string[] = [];
    let latestMs = 0;
    for (let asked = 0; asked < 5_000; asked += 100) {
      let askedAtMs = Infinity;
      const answered = (answer: string) => {
        latestMs = Math.max(latestMs, performance.now() - askedAtMs);
        answers.push(answer);
      };
      const frontend = shared.open();
      let left = 50;
      frontend.serve(({ dialResponse }) => {
        answered(dialResponse?.error ?? "");
        if (--left === 0) frontend.end();
      });
      for (let index = 0; index < 50; index++) {
        frontend.send(packets.dial(asked + index + 1));
        const client = await connectRaw(t, server.connectPath);
        client.write(CONNECT).socket.once("close", () => {
          answered(client.text.slice(0, 12));
        });
      }
      await until(
        async () => (await whatIsHeld(server.healthPort))["pendingDials"] === asked + 100,
      );
      // The server has them now: what this process takes to ask is not its business.
      askedAtMs = performance.now();
    }
    const patienceEndsMs = performance.now() + timeoutMs + 5_000;
    while (answers.length < 5_000 && performance.now() < patienceEndsMs) await pause(20);
    const expected = ["HTTP/1.1 504", "timed out waiting for backend dial"];
    assert.deepEqual([answers.length, [...new Set(answers)].sort()], [5_000, expected]);
    assert.ok(latestMs < timeoutMs + 1_000, `the last answer took ${Math.round(latestMs)} ms`);
    await assertNothingLeft(server);
  });
});

describe("a client that leaves during a dial", () => {
  it("leaves nothing on either side within a second", async (t) => {
    let lookups = 0;
    const hostLookup: HostLookup = {
      lookup: (_name, signal) =>
        new Promise((_resolve, reject) => {
          lookups++;
          signal.addEventListener("abort", () => {
            lookups--;
            reject(signal.reason as Error);
          });
        }),
    };
    const server = await startServer(t);
    const agent = await startAgent(t, server.agentPort, {}, { hostLookup });
    await until(() => agent.isReady);
    const shared = connectAsFrontend(t, server);
    for (let round = 0; round < 20; round++) {
      const frontends = Array.from({ length: 20 }, (_, index) =>
        shared.open().send(packets.dial(index + 1, `host-${index}:80`)),
      );
      const clients = await Promise.all(
        Array.from({ length: 20 }, () => connectRaw(t, server.connectPath)),
      );
      for (const [index, client] of clients.entries()) {
        client.write(`CONNECT name-${index}:80 HTTP/1.1\r\n\r\n`);
      }
      await until(() => lookups === 40);
      for (const [index, frontend] of frontends.entries()) {
        if (index % 2 === 0) frontend.cancel();
        else frontend.end();
      }
      for (const { socket } of clients) socket.destroy();
      const leftAtMs = performance.now();
      await until(() => lookups === 0);
      await until(async () => (await whatIsHeld(server.healthPort))["pendingDials"] === 0);
      assert.ok(performance.now() - leftAtMs < 1_000);
    }
    await assertNothingLeft(server);
  });
});

describe("10,000 dials that are given up while they are answered", () => {
  it("leave no socket behind", async (t) => {
    const open = new Set<Socket>();
    let opened = 0;
    const endpoint = await startEndpoint(t, (socket) => {
      opened++;
      open.add(socket);
      socket.on("end", () => socket.end());
      socket.on("close", () => open.delete(socket));
      socket.resume();
    });
    const server = await startCluster(t);
    const random = new SeededRandom(23);
    const shared = connectAsFrontend(t, server);
    await forEach(10_000, 64, (index) =>
      index % 2 === 0
        ? giveUpOverGrpc(shared, index, endpoint, random)
        : giveUpOverConnect(t, server, endpoint, random).then(() =>
            index % 16 === 1 ? serverHasCaughtUp(t, server) : undefined,
          ),
    );
    await until(() => open.size === 0).catch(() => undefined);
    assert.equal(open.size, 0);
    assert.ok(opened > 1_000, `only ${opened} were established`);
    await assertNothingLeft(server);
  });

  async function giveUpOverGrpc(
    shared: ReturnType<typeof connectAsFrontend>,
    index: number,
    endpoint: string,
    random: SeededRandom,
  ): Promise<void> {
    const frontend = shared.open().send(packets.dial(index + 1, endpoint));
    await pause(random.fraction() * 8);
    const choice = random.fraction();
    if (choice < 0.4) frontend.send(packets.dialClose(index + 1)).end();
    else if (choice < 0.6) frontend.end();
    else frontend.cancel();
    await frontend.status;
  }

  async function giveUpOverConnect(
    t: TestContext,
    server: TestServer,
    endpoint: string,
    random: SeededRandom,
  ): Promise<void> {
    const client = await connectRaw(t, server.connectPath);
    client.write(`CONNECT ${endpoint} HTTP/1.1\r\n\r\n`);
    await pause(random.fraction() * 8);
    if (random.fraction() < 0.5) client.socket.end();
    else client.socket.destroy();
  }
});

/** Everybody who connected before has been accepted: the system keeps 4,096 waiting and no more. */
async function serverHasCaughtUp(t: TestContext, server: TestServer): Promise<void> {
  const client = await connectRaw(t, server.connectPath);
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await client.whenSaid("405");
  client.socket.destroy();
}

describe("ten agents, one of them wedged and one slow", () => {
  it("serve every dial, and the wedged one is hardly ever asked", async (t) => {
    const server = await startServer(t);
    const dialCounts = new Map<string, number>();
    for (let index = 0; index < 10; index++) {
      const agentId = ["wedged", "slow"][index] ?? `agent-${index}`;
      const agent = await connectAsAgent(t, server, { agentId });
      let lastId = 0;
      agent.serve(({ type, dialRequest, closeRequest }) => {
        if (type === "CLOSE_REQ") agent.send(packets.closed(closeRequest?.connectID ?? 0));
        if (type !== "DIAL_REQ") return;
        dialCounts.set(agentId, (dialCounts.get(agentId) ?? 0) + 1);
        const answer = () => agent.send(packets.dialed(dialRequest?.random ?? 0, ++lastId));
        if (agentId === "slow") setTimeout(answer, 2_000);
        else if (agentId !== "wedged") answer();
      });
    }
    const shared = connectAsFrontend(t, server);
    let answered = 0;
    const dial = async (index: number) => {
      const frontend = shared.open().send(packets.dial(index + 1));
      const { dialResponse } = await frontend.nextPacket();
      assert.equal(dialResponse?.error, "");
      answered++;
      frontend.end();
      await frontend.status;
    };
    const dialEvery10Ms = async (from: number, count: number) => {
      const dials: Promise<void>[] = [];
      for (let index = 0; index < count; index++) {
        dials.push(dial(from + index));
        await pause(10);
      }
      return dials;
    };
    const warmUp = await dialEvery10Ms(0, 20);
    const before = dialCounts.get("wedged") ?? 0;
    const dials = await dialEvery10Ms(20, 1_500);
    await Promise.all([...warmUp, ...dials]);
    assert.equal(answered, 1_520);
    const wedged = (dialCounts.get("wedged") ?? 0) - before;
    assert.ok(wedged < 15, `${wedged} of 1,500 dials`);
    await assertNothingLeft(server, 10);
  });
});
