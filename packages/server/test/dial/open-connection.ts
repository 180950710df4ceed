import assert from "node:assert/strict";
import { PacketType } from "@reachback/common";
import type { ControlPacket, Extension } from "@reachback/common";
import { ManualClock, readExposition } from "@reachback/common/testing";
import { FakeFrontend, TEST_LIMITS, connectionId, dialId, fakeAgent } from "../fake-agent.ts";

export const WINDOW = TEST_LIMITS.initialBytes;
const BOTH: readonly Extension[] = ["flow-control", "half-close"];

/** A connection whose dial was answered, with id 1. */
export function openConnection({ extensions = BOTH, frontendHasHalfClose = true } = {}) {
  const clock = new ManualClock();
  const agent = fakeAgent({ clock, extensions });
  const { backend, carrier, registry } = agent;
  const frontend = new FakeFrontend();
  frontend.hasHalfClose = frontendHasHalfClose;
  const request = { dialId: dialId(7), protocol: "tcp", address: "endpoint:80" };
  const connection = agent.dial(request, frontend, 0);
  backend.control({
    type: PacketType.DIAL_RSP,
    dialId: dialId(7),
    connectionId: connectionId(1),
    error: "",
  });
  carrier.sent.length = 0;
  frontend.told.length = 0;

  const fromAgent = (packet: Exclude<ControlPacket, { type: 1 }> | { type: number }) => {
    backend.control({ connectionId: connectionId(1), ...packet } as ControlPacket);
  };
  return {
    clock,
    connection,
    frontend,
    carrier,
    backend,
    told: frontend.told,
    fin: () => {
      fromAgent({ type: PacketType.FINISH });
    },
    closed: (error = "") => {
      backend.control({ type: PacketType.CLOSE_RSP, connectionId: connectionId(1), error });
    },
    credit: (bytes: number) => {
      backend.control({ type: PacketType.CREDIT, connectionId: connectionId(1), bytes });
    },
    receive: (data: string | Buffer) => {
      backend.data(connectionId(1), Buffer.from(data), true);
    },
    /** Use up what the agent takes, and then so many bytes more. */
    fill: (moreBytes = 10) => {
      connection.send(Buffer.alloc(WINDOW));
      connection.send(Buffer.alloc(moreBytes));
      carrier.sent.length = 0;
    },
    /** What the agent was sent, in one line each: `FINISH`, `CLOSE_REQ`, `RESET "why"`, `DATA 5`. */
    sent: () =>
      carrier.sent.map((packet) => {
        if ("data" in packet) return `DATA ${packet.data.length}`;
        const [name] = Object.entries(PacketType).find(([, type]) => type === packet.type)!;
        const error = "error" in packet ? ` "${packet.error}"` : "";
        return `${name}${"bytes" in packet ? ` ${packet.bytes}` : ""}${error}`;
      }),
    /** The connection is over, for this reason, and nothing of it is left. */
    assertOver: async (reason: string) => {
      assert.equal(connection.isClosed, true);
      assert.equal(backend.connectionCount, 0);
      assert.equal(backend.isReadingPaused, false);
      assert.equal(agent.endedCount(), 1);
      assert.equal(clock.pendingTimers, 0);
      const ended = readExposition(await registry.exposition())
        .filter(({ name }) => name === "reachback_server_connections_closed_total")
        .map(({ labels, value }) => `${labels["reason"]} ${value}`);
      assert.deepEqual(ended, [`${reason} 1`]);
    },
  };
}
