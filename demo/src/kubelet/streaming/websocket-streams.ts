import { Readable, Writable } from "node:stream";
import type { RawData, WebSocket } from "ws";
import type { Status } from "../../cluster/status.ts";
import type { CommandStreams, StreamChoice } from "./command-streams.ts";

/** Best first. What v5 adds is that a client can close its standard input. */
export const COMMAND_SUBPROTOCOLS = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

/** The first byte of each message says which stream it belongs to. */
const Channel = { STDIN: 0, STDOUT: 1, STDERR: 2, ERROR: 3, RESIZE: 4, CLOSE: 255 } as const;

/** The streams of exec and attach as channels of a WebSocket. */
export function websocketStreams(socket: WebSocket, choice: StreamChoice): CommandStreams {
  const input = () =>
    new Readable({
      read: () => {
        socket.resume();
      },
    });
  const output = (channel: number) => {
    const stream = new Writable({
      write: (piece: Buffer, _encoding, done) => {
        socket.send(Buffer.concat([Buffer.of(channel), piece]), done);
      },
    });
    // That the client has left: `closed` says so.
    stream.on("error", () => undefined);
    return stream;
  };
  const inputs = new Map<number, Readable>();
  if (choice.stdin) inputs.set(Channel.STDIN, input());
  if (choice.tty) inputs.set(Channel.RESIZE, input());

  socket.on("message", (data: RawData) => {
    const message = messageBytes(data);
    const channel = message[0] ?? -1;
    const payload = message.subarray(1);
    if (channel === Channel.CLOSE) {
      inputs.get(payload[0] ?? -1)?.push(null);
    } else if (payload.length > 0 && inputs.get(channel)?.push(payload) === false) {
      socket.pause();
    }
  });
  const stdout = choice.stdout ? output(Channel.STDOUT) : undefined;
  const stderr = choice.stderr ? output(Channel.STDERR) : undefined;
  const closed = new Promise<void>((resolve) => {
    // "close" follows an error.
    socket.on("error", () => undefined);
    socket.once("close", () => {
      for (const stream of [...inputs.values(), stdout, stderr]) stream?.destroy();
      resolve();
    });
  });

  return {
    stdin: inputs.get(Channel.STDIN),
    resize: inputs.get(Channel.RESIZE),
    stdout,
    stderr,
    closed,
    finish: (status: Status) => {
      socket.send(Buffer.concat([Buffer.of(Channel.ERROR), Buffer.from(JSON.stringify(status))]));
      socket.close(1000);
    },
  };
}

function messageBytes(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data);
  return Buffer.isBuffer(data) ? data : Buffer.from(data);
}
