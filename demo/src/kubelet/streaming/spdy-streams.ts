import type { SpdyConnection } from "../../spdy/spdy-connection.ts";
import type { SpdyStream } from "../../spdy/spdy-stream.ts";
import type { CommandStreams, StreamChoice } from "./command-streams.ts";

/** kubectl before 1.31, and newer ones where WebSockets are refused, offer it. */
export const SPDY_COMMAND_PROTOCOL = "v4.channel.k8s.io";

/** Collects the streams that a client of exec or attach opens, until all are there. */
export class SpdyStreamCollector {
  /** Resolves with them; never if the client does not open them all. */
  readonly complete: Promise<CommandStreams>;
  readonly #choice: StreamChoice;
  readonly #streams = new Map<string, SpdyStream>();
  #resolve: (streams: CommandStreams) => void = () => undefined;

  constructor(choice: StreamChoice) {
    this.#choice = choice;
    this.complete = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  add(stream: SpdyStream, connection: SpdyConnection): void {
    const type = stream.headers["streamtype"] ?? "";
    this.#streams.set(type, stream);
    // The client only listens to these; without a reader its end would never be noticed.
    if (["error", "stdout", "stderr"].includes(type)) stream.resume();
    if (this.#wantedTypes().every((wanted) => this.#streams.has(wanted))) {
      this.#resolve(this.#commandStreams(connection));
    }
  }

  #wantedTypes(): string[] {
    const { tty, ...wanted } = this.#choice;
    const types = Object.entries(wanted).flatMap(([type, isWanted]) => (isWanted ? [type] : []));
    return ["error", ...types, ...(tty ? ["resize"] : [])];
  }

  #commandStreams(connection: SpdyConnection): CommandStreams {
    const stream = (type: string) => this.#streams.get(type);
    return {
      stdin: stream("stdin"),
      stdout: stream("stdout"),
      stderr: stream("stderr"),
      resize: stream("resize"),
      closed: connection.closed,
      finish: (status) => {
        stream("error")?.end(JSON.stringify(status), () => {
          connection.close();
        });
      },
    };
  }
}
