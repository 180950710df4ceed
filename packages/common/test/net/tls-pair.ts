import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import type { TestContext } from "node:test";
import { connect, createServer } from "node:tls";
import type { TLSSocket } from "node:tls";

export interface TlsPair {
  readonly near: TLSSocket;
  readonly far: TLSSocket;
  /** What carries the near end. */
  readonly nearTcp: Socket;
}

/** Both ends of a TLS connection that needs no certificates. */
export async function tlsPair(t: TestContext): Promise<TlsPair> {
  const ciphers = "PSK-AES128-GCM-SHA256";
  const psk = Buffer.alloc(16, 7);
  const server = createServer({ ciphers, pskCallback: () => psk });
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const accepted = once(server, "secureConnection") as Promise<[TLSSocket]>;
  const nearTcp = connectTcp(port, "127.0.0.1");
  const near = connect({
    ciphers,
    socket: nearTcp,
    checkServerIdentity: () => undefined,
    pskCallback: () => ({ psk, identity: "test" }),
  });
  const [far] = await accepted;
  t.after(() => {
    near.destroy();
    far.destroy();
  });
  return { near, far, nearTcp };
}
