import { PacketType } from "../packet/packet.ts";

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(PacketType).map(([name, type]) => [type, name]),
);

/** Label value for what never became a packet, such as a failed receive. */
export const UNKNOWN_PACKET_TYPE = "Unknown";

/** `packet_type` as upstream writes it: the name, or the number of a type that has none. */
export function packetTypeName(type: number): string {
  return NAMES.get(type) ?? String(type);
}
