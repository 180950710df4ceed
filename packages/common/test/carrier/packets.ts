import { int64FromBigInt } from "../../src/packet/int64.ts";
import { PacketType } from "../../src/packet/packet.ts";
import type { ConnectionId, ControlPacket, DialId } from "../../src/packet/packet.ts";
import type { OraclePacket } from "../../../../test/support/grpc-oracle.ts";

export const connectionId = (value: number): ConnectionId => value as ConnectionId;
export const dialId = (value: bigint): DialId => int64FromBigInt(value) as DialId;

/** Control packets of every type, as we see them and as proto-loader does. */
export const CONTROL_PACKETS: readonly (readonly [ControlPacket, OraclePacket])[] = [
  [
    {
      type: PacketType.DIAL_REQ,
      dialId: dialId(2n ** 63n - 1n),
      protocol: "tcp",
      address: "10.0.0.1:80",
    },
    {
      type: "DIAL_REQ",
      dialRequest: { protocol: "tcp", address: "10.0.0.1:80", random: "9223372036854775807" },
    },
  ],
  [
    { type: PacketType.DIAL_REQ, dialId: dialId(-1n), protocol: "", address: "ä:1" },
    { type: "DIAL_REQ", dialRequest: { protocol: "", address: "ä:1", random: "-1" } },
  ],
  [
    { type: PacketType.DIAL_RSP, dialId: dialId(5n), connectionId: connectionId(1), error: "" },
    { type: "DIAL_RSP", dialResponse: { error: "", connectID: "1", random: "5" } },
  ],
  [
    { type: PacketType.DIAL_RSP, dialId: dialId(5n), connectionId: connectionId(0), error: "no" },
    { type: "DIAL_RSP", dialResponse: { error: "no", connectID: "0", random: "5" } },
  ],
  [
    { type: PacketType.CLOSE_REQ, connectionId: connectionId(7) },
    { type: "CLOSE_REQ", closeRequest: { connectID: "7" } },
  ],
  [
    { type: PacketType.CLOSE_RSP, connectionId: connectionId(300), error: "Unknown connectID" },
    { type: "CLOSE_RSP", closeResponse: { error: "Unknown connectID", connectID: "300" } },
  ],
  [
    { type: PacketType.DIAL_CLS, dialId: dialId(0n) },
    { type: "DIAL_CLS", closeDial: { random: "0" } },
  ],
  [{ type: PacketType.DRAIN }, { type: "DRAIN", drain: {} }],
];

/** The bytes of a DATA packet's message in front of a payload of some megabytes, id below 128. */
export const LARGE_DATA_HEAD_BYTES = 2 + 1 + 4 + 2 + 1 + 4;
