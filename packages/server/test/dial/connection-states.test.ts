import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import { connectionId } from "../fake-agent.ts";
import { openConnection } from "./open-connection.ts";

type Opened = ReturnType<typeof openConnection>;
type State = "open" | "client done" | "endpoint done" | "closing";
type Event =
  | "DATA"
  | "FINISH"
  | "CLOSE_RSP"
  | "RESET"
  | "frontend finishes"
  | "frontend closes"
  | "frontend leaves"
  | "frontend fails";

interface Effect {
  /** What the agent is sent. */
  readonly sent?: readonly string[];
  /** What the frontend is told. */
  readonly told?: readonly string[];
  readonly over?: boolean;
}

const nothing: Effect = {};
const passedOn: Effect = { told: ["receive bytes"] };
const failed: Effect = { sent: ['RESET "client_lost"'], told: ["closed client_lost"], over: true };
const reset: Effect = { told: ["closed endpoint_error broken"], over: true };
/** The second one says that nobody wants what is still to come: "Ends and resets", rule 4. */
const CLOSE_AND_DROP = ["CLOSE_REQ", "CLOSE_REQ"];

/** The tables of PROTOCOL.md, "States at the server", for an agent with all extensions. */
const EXPECTED: Record<State, Record<Event, Effect>> = {
  open: {
    DATA: passedOn,
    FINISH: { told: ["finish"] },
    CLOSE_RSP: { told: ["closed endpoint_closed"], over: true },
    RESET: reset,
    "frontend finishes": { sent: ["FINISH"] },
    "frontend closes": { sent: ["CLOSE_REQ"] },
    "frontend leaves": { sent: CLOSE_AND_DROP, told: ["closed client_closed"], over: true },
    "frontend fails": failed,
  },
  "client done": {
    DATA: passedOn,
    FINISH: { told: ["finish"] },
    CLOSE_RSP: { told: ["closed client_closed"], over: true },
    RESET: reset,
    "frontend finishes": nothing,
    "frontend closes": { sent: ["CLOSE_REQ"] },
    "frontend leaves": { sent: CLOSE_AND_DROP, told: ["closed client_closed"], over: true },
    "frontend fails": failed,
  },
  "endpoint done": {
    DATA: nothing,
    FINISH: nothing,
    CLOSE_RSP: { told: ["closed endpoint_closed"], over: true },
    RESET: reset,
    "frontend finishes": { sent: ["FINISH"] },
    "frontend closes": { sent: ["CLOSE_REQ"] },
    "frontend leaves": { sent: CLOSE_AND_DROP, told: ["closed endpoint_closed"], over: true },
    "frontend fails": failed,
  },
  closing: {
    DATA: passedOn,
    FINISH: nothing,
    CLOSE_RSP: { told: ["closed client_closed"], over: true },
    RESET: reset,
    "frontend finishes": nothing,
    "frontend closes": nothing,
    "frontend leaves": { sent: ["CLOSE_REQ"], told: ["closed client_closed"], over: true },
    "frontend fails": failed,
  },
};

const enter: Record<State, (opened: Opened) => void> = {
  open: () => undefined,
  "client done": ({ connection }) => connection.finish(),
  "endpoint done": ({ fin }) => {
    fin();
  },
  closing: ({ connection }) => {
    connection.requestClose("client_closed");
  },
};

const happen: Record<Event, (opened: Opened) => void> = {
  DATA: ({ receive }) => {
    receive("bytes");
  },
  FINISH: ({ fin }) => {
    fin();
  },
  CLOSE_RSP: ({ closed }) => {
    closed();
  },
  RESET: ({ backend }) => {
    backend.control({ type: PacketType.RESET, connectionId: connectionId(1), error: "broken" });
  },
  "frontend finishes": ({ connection }) => connection.finish(),
  "frontend closes": ({ connection }) => {
    connection.requestClose("client_closed");
  },
  "frontend leaves": ({ connection }) => {
    connection.abandon("client_closed");
  },
  "frontend fails": ({ connection }) => {
    connection.abandon("client_lost");
  },
};

describe("a connection with half-close, in each of its states", () => {
  for (const [state, row] of Object.entries(EXPECTED) as [State, Record<Event, Effect>][]) {
    for (const [event, effect] of Object.entries(row) as [Event, Effect][]) {
      it(`${state}, and then: ${event}`, () => {
        const opened = openConnection();
        const { carrier, clock, connection, sent, told } = opened;
        enter[state](opened);
        carrier.sent.length = 0;
        told.length = 0;
        happen[event](opened);
        assert.deepEqual(sent(), effect.sent ?? []);
        assert.deepEqual(told, effect.told ?? []);
        assert.equal(connection.isClosed, effect.over === true);
        if (effect.over === true) assert.equal(clock.pendingTimers, 0);
      });
    }
  }
});
