import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocketServer, createWebSocketStream } from "ws";
import { SpdyConnection } from "../../spdy/spdy-connection.ts";
import type { Container } from "../container.ts";
import { streamChoice } from "./command-streams.ts";
import type { CommandStreams, StreamChoice } from "./command-streams.ts";
import { PORT_FORWARD_PROTOCOL, PortForward, TUNNELLED_PORT_FORWARD } from "./port-forward.ts";
import { runAttach, runExec } from "./run-command.ts";
import { SPDY_COMMAND_PROTOCOL, SpdyStreamCollector } from "./spdy-streams.ts";
import { COMMAND_SUBPROTOCOLS, websocketStreams } from "./websocket-streams.ts";

/** What can be streamed, by the first step of the kubelet's path. */
export type StreamingVerb = "exec" | "attach" | "portForward";

/** A request to change the protocol of its connection, and that connection. */
export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Duplex;
  /** What came behind the request. */
  readonly head: Buffer;
}

const commandSockets = new WebSocketServer({
  noServer: true,
  handleProtocols: (offered) => COMMAND_SUBPROTOCOLS.find((known) => offered.has(known)) ?? false,
});

const tunnelSockets = new WebSocketServer({ noServer: true }).on("headers", (headers) => {
  headers.push(`Sec-WebSocket-Protocol: ${TUNNELLED_PORT_FORWARD}`);
});

/** Serve a streaming request that names an existing container, over whichever protocol it asks for. */
export function serveStreaming(
  verb: StreamingVerb,
  query: URLSearchParams,
  container: Container,
  upgrade: Upgrade,
): void {
  const { request, socket } = upgrade;
  const protocol = request.headers.upgrade?.toLowerCase();
  const choice = streamChoice(query);
  const run = (streams: CommandStreams) =>
    verb === "exec"
      ? runExec(query.getAll("command"), choice, container, streams)
      : runAttach(container, streams);

  if (protocol === "websocket") {
    if (verb === "portForward") {
      acceptTunnel(upgrade, container);
    } else {
      commandSockets.handleUpgrade(request, socket, upgrade.head, (websocket) => {
        void run(websocketStreams(websocket, choice));
      });
    }
  } else if (protocol === "spdy/3.1") {
    if (verb === "portForward") {
      acceptSpdy(upgrade, PORT_FORWARD_PROTOCOL);
      forwardOver(socket, container);
    } else {
      acceptSpdy(upgrade, SPDY_COMMAND_PROTOCOL);
      void commandStreams(socket, choice).then(run);
    }
  } else {
    refuseUpgrade(socket, 400, "the request must be upgraded to WebSocket or SPDY/3.1");
  }
}

/** Answer as plain HTTP, and end the connection. */
export function refuseUpgrade(socket: Duplex, status: number, message: string): void {
  const body = `${message}\n`;
  socket.end(
    `HTTP/1.1 ${status} Refused\r\nconnection: close\r\ncontent-type: text/plain\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

function acceptSpdy({ socket, head }: Upgrade, protocol: string): void {
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n" +
      `x-stream-protocol-version: ${protocol}\r\n\r\n`,
  );
  if (head.length > 0) socket.unshift(head);
}

function commandStreams(socket: Duplex, choice: StreamChoice): Promise<CommandStreams> {
  const collector = new SpdyStreamCollector(choice);
  const connection = new SpdyConnection(socket, (stream) => {
    collector.add(stream, connection);
  });
  return collector.complete;
}

function acceptTunnel({ request, socket, head }: Upgrade, container: Container): void {
  if (request.headers["sec-websocket-protocol"] !== TUNNELLED_PORT_FORWARD) {
    refuseUpgrade(socket, 400, `port-forward needs the subprotocol ${TUNNELLED_PORT_FORWARD}`);
    return;
  }
  // RFC 6455 has no "/" in the name of a subprotocol, so the library refuses this one.
  delete request.headers["sec-websocket-protocol"];
  tunnelSockets.handleUpgrade(request, socket, head, (websocket) => {
    forwardOver(createWebSocketStream(websocket), container);
  });
}

function forwardOver(socket: Duplex, container: Container): void {
  const portForward = new PortForward(container.pod.ip);
  new SpdyConnection(socket, (stream) => {
    portForward.add(stream);
  });
}
