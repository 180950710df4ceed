import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";
import { connect as connectTls } from "node:tls";
import type { ConnectionOptions } from "node:tls";
import { createTestPki } from "./pki.ts";

const PATIENCE_MS = 10_000;

/** A client that says exactly what a test tells it to, and keeps all that comes back. */
export class RawSocket {
  readonly socket: Socket;
  /** How the other side finished, as soon as it has. */
  fate: "open" | "ended" | "reset" = "open";
  readonly #pieces: Buffer[] = [];
  #length = 0;
  #onChange: (() => void) | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (piece: Buffer) => {
      this.#pieces.push(piece);
      this.#length += piece.length;
      this.#onChange?.();
    });
    socket.on("end", () => {
      this.#finished("ended");
    });
    socket.on("error", () => {
      this.#finished("reset");
    });
    socket.on("close", () => {
      this.#finished("ended");
    });
  }

  /** Everything received so far. */
  get received(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  get text(): string {
    return this.received.toString("latin1");
  }

  get receivedBytes(): number {
    return this.#length;
  }

  write(bytes: string | Buffer): this {
    this.socket.write(bytes);
    return this;
  }

  /** Resolves once the other side has finished, in whatever way. */
  async whenFinished(): Promise<this> {
    await this.#until(() => this.fate !== "open", "the end");
    return this;
  }

  /** Resolves once so many bytes have come. */
  async whenReceived(bytes: number): Promise<Buffer> {
    await this.#until(() => this.#length >= bytes, `${bytes} bytes`);
    return this.received;
  }

  /** Resolves once this text has come. */
  async whenSaid(text: string): Promise<string> {
    await this.#until(() => this.text.includes(text), JSON.stringify(text));
    return this.text;
  }

  #finished(fate: "ended" | "reset"): void {
    if (this.fate === "open") this.fate = fate;
    this.#onChange?.();
  }

  #until(condition: () => boolean, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      if (condition()) {
        resolve();
        return;
      }
      const timer = setTimeout(() => {
        const got = JSON.stringify(this.text.slice(0, 300));
        reject(new Error(`waited in vain for ${what}: ${this.fate}, got ${got}`));
      }, PATIENCE_MS);
      this.#onChange = () => {
        if (condition()) {
          clearTimeout(timer);
          this.#onChange = undefined;
          resolve();
        } else if (this.fate !== "open") {
          clearTimeout(timer);
          const got = JSON.stringify(this.text.slice(0, 300));
          reject(new Error(`${this.fate} before ${what} came: got ${got}`));
        }
      };
    });
  }
}

/**
 * Connect to a Unix socket, or to a port on loopback.
 *
 * @param allowHalfOpen - Keep this side open when the other has finished.
 */
export async function connectRaw(
  t: TestContext,
  place: string | number,
  { allowHalfOpen = false } = {},
): Promise<RawSocket> {
  const socket =
    typeof place === "string"
      ? connect({ path: place, allowHalfOpen })
      : connect({ port: place, host: "127.0.0.1", allowHalfOpen, noDelay: true });
  t.after(() => {
    socket.destroy();
  });
  await once(socket, "connect");
  return new RawSocket(socket);
}

/** Connect to a frontend on TCP by mutual TLS; `options` differ where a test wants them to. */
export async function connectRawTls(
  t: TestContext,
  port: number,
  options: ConnectionOptions = {},
): Promise<RawSocket> {
  const { frontendCa, frontendClient } = createTestPki();
  const socket = connectTls({
    port,
    host: "127.0.0.1",
    servername: "localhost",
    ca: frontendCa.cert,
    cert: frontendClient.cert,
    key: frontendClient.key,
    ...options,
  } as ConnectionOptions);
  t.after(() => {
    socket.destroy();
  });
  const raw = new RawSocket(socket);
  await once(socket, "secureConnect");
  socket.setNoDelay(true);
  return raw;
}
