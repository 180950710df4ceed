import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import type { TestContext } from "node:test";

/** Sends bytes and looks at the bytes that come back, without an HTTP client in between. */
export class RawClient {
  readonly socket: Socket;
  #received = "";
  #changed: (() => void)[] = [];
  #ended = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => {
      this.#received += text;
      this.#wake();
    });
    for (const event of ["end", "close", "error"]) {
      socket.on(event, () => {
        this.#ended = true;
        this.#wake();
      });
    }
  }

  static async connect(t: TestContext, port: number): Promise<RawClient> {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    t.after(() => socket.destroy());
    const client = new RawClient(socket);
    await once(socket, "connect");
    return client;
  }

  /** Whether the other end has finished sending or gone away. */
  get isEnded(): boolean {
    return this.#ended;
  }

  send(text: string): this {
    this.socket.write(text, "latin1");
    return this;
  }

  /** Everything up to the end of the connection. */
  async readToEnd(): Promise<string> {
    while (!this.#ended) await this.#change();
    return this.#take(this.#received.length);
  }

  /** One response with a `Content-Length`, head and body. */
  async readResponse(request: "HEAD" | "other" = "other"): Promise<string> {
    for (;;) {
      const headEnd = this.#received.indexOf("\r\n\r\n");
      if (headEnd >= 0) {
        const length = /content-length: (\d+)/i.exec(this.#received.slice(0, headEnd))?.[1] ?? "0";
        const end = headEnd + 4 + (request === "HEAD" ? 0 : Number(length));
        if (this.#received.length >= end) return this.#take(end);
      }
      if (this.#ended) throw new Error(`no complete response in ${JSON.stringify(this.#received)}`);
      await this.#change();
    }
  }

  #take(length: number): string {
    const taken = this.#received.slice(0, length);
    this.#received = this.#received.slice(length);
    return taken;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }

  #wake(): void {
    for (const resolve of this.#changed.splice(0)) resolve();
  }
}
