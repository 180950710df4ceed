import { createSocket } from "node:dgram";
import type { RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { isIPv4 } from "node:net";
import type { TestContext } from "node:test";

/** What the server knows of a name; `mute` never answers, `broken` answers SERVFAIL. */
export type Zone = Readonly<
  Record<string, { v4?: string[] | "mute" | "broken"; v6?: string[] | "mute" | "broken" }>
>;

export interface FakeNameServer {
  /** `address:port` */
  readonly address: string;
  /** `A name` and `AAAA name`, in the order in which they came. */
  readonly questions: string[];
}

const NXDOMAIN = 3;
const SERVFAIL = 2;

/** A name server on loopback, by hand: enough of RFC 1035 for one question per datagram. */
export async function startNameServer(t: TestContext, zone: Zone): Promise<FakeNameServer> {
  const socket = createSocket("udp4");
  const questions: string[] = [];
  t.after(() => socket.close());
  socket.on("message", (query: Buffer, peer: RemoteInfo) => {
    const { name, end } = readName(query);
    const type = query.readUInt16BE(end);
    const family = type === 28 ? "v6" : "v4";
    questions.push(`${family === "v6" ? "AAAA" : "A"} ${name}`);
    const known = zone[name];
    const records = known?.[family] ?? [];
    if (records === "mute") return;
    const code = known === undefined ? NXDOMAIN : records === "broken" ? SERVFAIL : 0;
    const addresses = records === "broken" ? [] : records;
    const head = Buffer.from(query.subarray(0, end + 4));
    head.writeUInt16BE(0x8180 | code, 2);
    head.writeUInt16BE(addresses.length, 6);
    head.writeUInt16BE(0, 8);
    head.writeUInt16BE(0, 10);
    socket.send(Buffer.concat([head, ...addresses.map(record)]), peer.port, peer.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return { address: `127.0.0.1:${socket.address().port}`, questions };
}

function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
}

/** An answer that points to the question's name. */
function record(address: string): Buffer {
  const bytes = isIPv4(address)
    ? Buffer.from(address.split(".").map(Number))
    : Buffer.from(
        address
          .split(":")
          .map((group) => group.padStart(4, "0"))
          .join(""),
        "hex",
      );
  const head = Buffer.from("c00c00000001000000000000", "hex");
  head.writeUInt16BE(isIPv4(address) ? 1 : 28, 2);
  head.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([head, bytes]);
}
