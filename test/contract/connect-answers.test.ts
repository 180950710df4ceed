import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { TestContext } from "node:test";
import type { ServerOptions } from "@reachback/server";
import { startAgent, startEndpoint, startServer, statusOf, until } from "../support/cluster.ts";
import type { TestServer } from "../support/cluster.ts";
import { connectAsAgent, packets } from "../support/packet-stream.ts";
import type { PacketStream } from "../support/packet-stream.ts";
import { connectRaw, connectRawTls } from "../support/raw-socket.ts";
import type { RawSocket } from "../support/raw-socket.ts";

// Every answer that upstream's CONNECT frontend was recorded to give, byte for byte with the date
// masked: on a Unix socket and by mutual TLS. What upstream's agent said to the dial is said by a
// scripted one, and once more by ours where the machine does not matter.

interface RecordedAnswer {
  readonly request: string;
  readonly response: string;
  readonly connection: "closed" | "kept open";
}

const RECORDED = Object.entries(
  JSON.parse(
    readFileSync(new URL("../golden/connect-responses.json", import.meta.url), "utf8"),
  ) as Record<string, RecordedAnswer>,
);

/** What the agent is asked to dial, where that is not the request target. */
const DIALED: Readonly<Record<string, string>> = {
  connect_empty_authority: "x",
  connect_absolute_uri: "http:",
  connect_path_host_header: "127.0.0.1:29800",
  connect_userinfo: "127.0.0.1:29800",
};

/** Recorded with a peer that behaves in a way of its own; each has its test below. */
const SPECIAL = [
  "no_agent",
  "endpoint_hello_and_close",
  "backend_dial_timeout_1s",
  "agent_stream_lost_while_dialing",
  "dial_cls_from_agent",
];

const TRANSPORTS: Readonly<
  Record<string, (t: TestContext, server: TestServer) => Promise<RawSocket>>
> = {
  "a Unix socket": (t, server) => connectRaw(t, server.connectPath),
  "mutual TLS": (t, server) => connectRawTls(t, server.connectPort),
};

for (const [transport, open] of Object.entries(TRANSPORTS)) {
  test(`CONNECT answers over ${transport} are those recorded`, async (t) => {
    const server = await startServer(t);
    const agent = await connectAsAgent(t, server);

    for (const [name, recorded] of RECORDED) {
      if (SPECIAL.includes(name)) continue;
      await t.test(name, async (t) => {
        const dialed = answerAsRecorded(agent, bodyOf(recorded));
        const client = await open(t, server);
        client.write(requestOf(recorded));
        await assertAnswer(client, recorded);
        if (recorded.response.includes(" 200 Connection") || isDialError(recorded)) {
          const target = requestOf(recorded).split(" ")[1] ?? "";
          assert.deepEqual(dialed, [DIALED[name] ?? target]);
        } else {
          assert.deepEqual(dialed, []);
        }
      });
    }
  });

  test(`CONNECT answers over ${transport} to what only an agent can do`, async (t) => {
    const play = async (
      t: TestContext,
      name: string,
      onDial: (agent: PacketStream, random: string) => void,
      options: Partial<ServerOptions> = {},
    ) => {
      const server = await startServer(t, options);
      const agent = await connectAsAgent(t, server);
      agent.serve(({ type, dialRequest }) => {
        if (type === "DIAL_REQ") onDial(agent, dialRequest?.random ?? "");
      });
      const client = await open(t, server);
      const recorded = recordedAs(name);
      client.write(requestOf(recorded));
      await assertAnswer(client, recorded);
    };

    await t.test("no_agent", async (t) => {
      const client = await open(t, await startServer(t));
      client.write(requestOf(recordedAs("no_agent")));
      await assertAnswer(client, recordedAs("no_agent"));
    });
    await t.test("endpoint_hello_and_close", (t) =>
      play(t, "endpoint_hello_and_close", (agent, random) => {
        agent.send(packets.dialed(random, 1), packets.data(1, "HELLO-AND-BYE"), packets.closed(1));
      }),
    );
    await t.test("backend_dial_timeout_1s", (t) =>
      play(t, "backend_dial_timeout_1s", () => undefined, { backendDialTimeoutMs: 50 }),
    );
    await t.test("agent_stream_lost_while_dialing", (t) =>
      play(t, "agent_stream_lost_while_dialing", (agent) => {
        agent.cancel();
      }),
    );
    await t.test("agent_stream_lost_while_dialing, in an orderly way", (t) =>
      play(t, "agent_stream_lost_while_dialing", (agent) => {
        agent.end();
      }),
    );
    await t.test("dial_cls_from_agent", (t) =>
      play(t, "dial_cls_from_agent", (agent, random) => {
        agent.send(packets.dialClose(random));
      }),
    );
  });
}

test("CONNECT answers to real dials of our agent are those recorded from upstream's", async (t) => {
  const server = await startServer(t);
  await startAgent(t, server.agentPort);
  await until(async () => (await statusOf(server.healthPort, "/readyz")) === 200);
  const echo = await startEndpoint(t, (socket) => {
    socket.on("data", (piece) => socket.write(`echo:${String(piece)}`));
  });
  const hello = await startEndpoint(t, (socket) => {
    socket.end("HELLO-AND-BYE");
  });
  /** The ports of the recording, and those of this run. */
  const ports: Readonly<Record<string, string>> = {
    "29800": echo.slice(echo.indexOf(":") + 1),
    "29801": hello.slice(hello.indexOf(":") + 1),
    "29899": await freePort(),
  };
  const here = (text: string) => text.replace(/298\d\d/g, (port) => ports[port] ?? port);

  for (const name of [
    "success",
    "pipelined_bytes",
    "connect_with_content_length",
    "connect_path_host_header",
    "connect_userinfo",
    "http10",
    "endpoint_hello_and_close",
    "refused",
    "refused_http10",
    "missing_port",
    "missing_port_name",
    "connect_empty_authority",
    "port_too_big",
    "port_zero",
    "port_empty",
    "host_empty",
  ]) {
    await t.test(name, async (t) => {
      const { request, response, connection } = recordedAs(name);
      const client = await connectRaw(t, server.connectPath);
      const recorded = { request: here(request), response: here(response), connection };
      client.write(requestOf(recorded));
      await assertAnswer(client, recorded);
    });
  }
});

function recordedAs(name: string): RecordedAnswer {
  const recorded = RECORDED.find(([recordedName]) => recordedName === name)?.[1];
  assert.ok(recorded, name);
  return recorded;
}

/** Recorded texts hold line ends as escapes, and long runs as their length. */
function unescaped(text: string): string {
  return text
    .replaceAll("\\r", "\r")
    .replaceAll("\\n", "\n")
    .replace(/<(\d+) bytes of a>/, (_, length) => "a".repeat(Number(length)));
}

function requestOf({ request }: RecordedAnswer): string {
  return unescaped(request);
}

/** What follows the head of the recorded response. */
function bodyOf({ response }: RecordedAnswer): string {
  const text = unescaped(response);
  return text.slice(text.indexOf("\r\n\r\n") + 4);
}

/** Whether the answer passes on what an agent said. */
function isDialError({ response }: RecordedAnswer): boolean {
  return /^HTTP\/1.1 50[234] .*\\r\\nConnection: close\\r\\n/.test(response);
}

/** Let the agent answer every dial as the recording says, and echo. Returns what it is asked for. */
function answerAsRecorded(agent: PacketStream, body: string): string[] {
  const dialed: string[] = [];
  agent.serve(({ type, dialRequest, data, closeRequest }) => {
    if (type === "DIAL_REQ") {
      const { random = "", address = "" } = dialRequest ?? {};
      dialed.push(address);
      if (body === "" || body.startsWith("echo:")) agent.send(packets.dialed(random, 1));
      else agent.send(packets.dialFailed(random, body));
    } else if (type === "DATA") {
      agent.send(packets.data(1, `echo:${String(data?.data)}`));
    } else if (type === "CLOSE_REQ") {
      agent.send(packets.closed(closeRequest?.connectID ?? 0));
    }
  });
  return dialed;
}

/** The answer, and what becomes of the connection. */
async function assertAnswer(client: RawSocket, recorded: RecordedAnswer): Promise<void> {
  const expected = unescaped(recorded.response);
  if (recorded.connection === "closed") {
    assert.equal(masked((await client.whenFinished()).text), expected);
    assert.equal(client.fate, "ended");
    return;
  }
  const bytes = expected.replace("<IMF-fixdate>", new Date(0).toUTCString()).length;
  assert.equal(masked((await client.whenReceived(bytes)).toString("latin1")), expected);
  // Still open: it goes on answering.
  if (expected.includes("Connection Established")) {
    client.write("still open?");
    await client.whenSaid("echo:still open?");
  } else {
    client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    const both = masked(await client.whenSaid("CONNECT passthrough\n"));
    assert.ok(both.startsWith(expected), both);
    await until(() => client.text.slice(bytes).endsWith("CONNECT passthrough\n"));
  }
}

function masked(response: string): string {
  return response.replace(/Date: [A-Z][a-z]{2}, [^\r]* GMT/g, "Date: <IMF-fixdate>");
}

/** A port that nobody listens on. */
function freePort(): Promise<string> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => {
        resolve(String(port));
      });
    });
  });
}
