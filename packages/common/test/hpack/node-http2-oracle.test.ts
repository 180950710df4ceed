import assert from "node:assert/strict";
import http2 from "node:http2";
import type { OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { duplexPair } from "node:stream";
import { describe, it } from "node:test";
import fc from "fast-check";
import type { HeaderField, HeaderList } from "../../src/hpack/header-list.ts";
import { HpackDecoder } from "../../src/hpack/hpack-decoder.ts";
import { HpackEncoder } from "../../src/hpack/hpack-encoder.ts";
import { huffmanBytes, writeHuffman } from "../../src/hpack/huffman.ts";
import { STATIC_TABLE } from "../../src/hpack/static-table.ts";
import { decodedHeaders } from "./decoder-probe.ts";
import { RawHttp2Peer } from "./raw-http2-peer.ts";

const PSEUDO_HEADERS: HeaderList = [
  [":method", "POST"],
  [":scheme", "http"],
  [":authority", "oracle.test"],
  [":path", "/AgentService/Connect"],
];

/** Static names that HTTP/2 gives no meaning of their own, and Node no limit to one value. */
const STATIC_REQUEST_NAMES = [
  "accept-encoding",
  "accept-language",
  "authorization",
  "cache-control",
  "content-type",
  "cookie",
  "user-agent",
  "via",
];

/** Octets that HTTP allows inside a value: visible ones and everything above ASCII. */
const VALUE_OCTETS = Array.from({ length: 256 }, (_, octet) => octet).filter(
  (octet) => octet >= 0x21 && octet !== 0x7f,
);

const value = fc.oneof(
  fc.integer({ min: 0, max: 12 }).map((repeat) => String(repeat).repeat(repeat * repeat)),
  fc
    .array(fc.constantFrom(...VALUE_OCTETS), { maxLength: 80 })
    .map((octets) => Buffer.from(octets).toString("latin1")),
);

const name = fc.oneof(
  fc.constantFrom(...STATIC_REQUEST_NAMES),
  fc.integer({ min: 0, max: 30 }).map((suffix) => `x-${suffix}`),
  fc.constant("x-auth-token"),
);

/** Fields behind the pseudo-headers, each name once: Node would move those of one name together. */
const ordinaryFields = fc.uniqueArray(fc.tuple(name, value), {
  maxLength: 30,
  selector: ([fieldName]) => fieldName,
});

const pseudoHeaders = fc
  .tuple(fc.nat(5), fc.constantFrom("POST", "GET", "PUT"), fc.nat(200))
  .map(([host, method, path]): HeaderList => [
    [":method", method],
    [":scheme", "http"],
    [":authority", `node-${host}.test`],
    [":path", path === 0 ? "/" : `/${"p".repeat(path)}`],
  ]);

const request = fc
  .tuple(pseudoHeaders, ordinaryFields)
  .map(([pseudo, fields]): HeaderList => [...pseudo, ...fields]);

const tableBytes = fc.oneof(fc.constantFrom(0, 64, 4096, 65_536), fc.nat(5000));

/** A field that occurs more than once becomes an array, as Node wants it. */
function outgoing(headers: HeaderList): OutgoingHttpHeaders {
  const object: Record<string, string | string[]> = {};
  for (const [fieldName, fieldValue] of headers) {
    const known = object[fieldName];
    object[fieldName] = known === undefined ? fieldValue : [known, fieldValue].flat();
  }
  return object;
}

function pairs(rawHeaders: readonly string[]): HeaderList {
  const fields: HeaderField[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    fields.push([rawHeaders[at]!, rawHeaders[at + 1]!]);
  }
  return fields;
}

/** A `node:http2` client, and what our decoder makes of the blocks it sends. */
class ClientUnderObservation {
  readonly #session: http2.ClientHttp2Session;
  readonly #peer: RawHttp2Peer;
  readonly #decoder: HpackDecoder;
  #acknowledged = false;

  constructor(maxTableBytes = 4096) {
    const [near, far] = duplexPair();
    this.#session = http2.connect("http://oracle.test", { createConnection: () => near });
    this.#session.on("error", () => undefined);
    this.#peer = new RawHttp2Peer(far, "server");
    this.#decoder = new HpackDecoder({ maxTableBytes });
    this.#peer.open(maxTableBytes);
  }

  /** Send one request and return what arrived of it: as a block, and decoded. */
  async exchange(headers: HeaderList): Promise<{ block: Buffer; received: HeaderList }> {
    const stream = this.#session.request(outgoing(headers), { endStream: true });
    stream.on("error", () => undefined);
    stream.resume();
    while (true) {
      const event = await this.#peer.nextEvent();
      if (event.type === "settings") this.#peer.acknowledgeSettings();
      else if (event.type === "settingsAcknowledged") {
        this.#acknowledged = true;
        this.#decoder.settingsAcknowledged();
      } else {
        this.#peer.sendBlock(event.streamId, Buffer.from([0x88]));
        return { block: event.block, received: decodedHeaders(this.#decoder, event.block) };
      }
    }
  }

  get acknowledged(): boolean {
    return this.#acknowledged;
  }

  close(): void {
    this.#session.destroy();
    this.#peer.close();
  }
}

/** A `node:http2` server, and what it makes of the blocks that our encoder writes. */
class ServerUnderObservation {
  readonly #session: http2.ServerHttp2Session;
  readonly #peer: RawHttp2Peer;
  readonly #encoder: HpackEncoder;
  readonly #decoder = new HpackDecoder();
  #nextStreamId = 1;
  #onStream: (raw: HeaderList, sensitive: readonly string[]) => HeaderList = () => [];

  constructor(ownMaxTableBytes: number, serverTableBytes: number) {
    const [near, far] = duplexPair();
    this.#session = http2.performServerHandshake(near, {
      settings: { headerTableSize: serverTableBytes },
    });
    this.#session.on("error", () => undefined);
    this.#session.on("stream", (...[stream, headers, , rawHeaders]: unknown[]) => {
      const sensitive = (headers as Record<symbol, string[]>)[http2.sensitiveHeaders] ?? [];
      const response = this.#onStream(pairs(rawHeaders as string[]), sensitive);
      (stream as ServerHttp2Stream).respond(outgoing(response), { endStream: true });
    });
    this.#peer = new RawHttp2Peer(far, "client");
    this.#encoder = new HpackEncoder({ maxTableBytes: ownMaxTableBytes });
    this.#peer.open();
  }

  /** Have the server announce another SETTINGS_HEADER_TABLE_SIZE. */
  changeTableBytes(headerTableSize: number): void {
    this.#session.settings({ headerTableSize });
  }

  /** Send one request, answer it with `response`, and return what either end received. */
  async exchange(headers: HeaderList, response: HeaderList = [[":status", "204"]]) {
    const arrived: { request?: HeaderList; sensitive?: readonly string[] } = {};
    this.#onStream = (raw, sensitive) => {
      Object.assign(arrived, { request: raw, sensitive });
      return response;
    };
    this.#peer.sendBlock(this.#nextStreamId, this.#encoder.encode(headers));
    this.#nextStreamId += 2;
    while (true) {
      const event = await this.#peer.nextEvent();
      if (event.type === "settings") {
        if (event.headerTableBytes !== undefined) {
          this.#encoder.setMaxTableBytes(event.headerTableBytes);
        }
        this.#peer.acknowledgeSettings();
      } else if (event.type === "block") {
        return { ...arrived, response: decodedHeaders(this.#decoder, event.block) };
      }
    }
  }

  close(): void {
    this.#session.destroy();
    this.#peer.close();
  }
}

describe("HpackDecoder, fed by node:http2", () => {
  it("reads what the client sends, over whole connections and with any table size", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { minLength: 2, maxLength: 40 }),
        tableBytes,
        async (requests, maxTableBytes) => {
          const client = new ClientUnderObservation(maxTableBytes);
          try {
            for (const headers of requests) {
              assert.deepEqual((await client.exchange(headers)).received, headers);
            }
            assert.ok(client.acknowledged);
          } finally {
            client.close();
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("reads a thousand requests of one connection while entries come and go", async (t) => {
    const client = new ClientUnderObservation();
    t.after(() => {
      client.close();
    });
    for (const headers of fc.sample(request, { numRuns: 1000, seed: 7541 })) {
      assert.deepEqual((await client.exchange(headers)).received, headers);
    }
  });

  it("keeps several fields of one name in order", async (t) => {
    const client = new ClientUnderObservation();
    t.after(() => {
      client.close();
    });
    const headers: HeaderList = [...PSEUDO_HEADERS, ["x-a", "2"], ["x-a", "1"], ["x-a", "2"]];
    assert.deepEqual((await client.exchange(headers)).received, headers);
  });

  it("reads a block that fills several frames", async (t) => {
    const client = new ClientUnderObservation();
    t.after(() => {
      client.close();
    });
    const headers: HeaderList = [...PSEUDO_HEADERS, ["x-long", "~".repeat(40_000)]];
    assert.deepEqual((await client.exchange(headers)).received, headers);
  });

  it("agrees on the Huffman code of every octet that Node can send", async (t) => {
    const client = new ClientUnderObservation();
    t.after(() => {
      client.close();
    });
    // Node's client puts a NUL between fields; the RFC's own table stands in for that octet.
    for (let octet = 1; octet <= 0xff; octet++) {
      // With this much cheap text around it, even a code of thirty bits is worth using.
      const text = `0${String.fromCharCode(octet)}${"0".repeat(40)}`;
      const headers: HeaderList = [...PSEUDO_HEADERS, ["x-octet", text]];
      const { block, received } = await client.exchange(headers);
      assert.deepEqual(received, headers);
      const ours = Buffer.alloc(huffmanBytes(text));
      writeHuffman(text, ours, 0);
      assert.ok(block.includes(ours), `octet ${octet}`);
    }
  });
});

describe("HpackEncoder, read by node:http2", () => {
  it("is understood by the server, over whole connections and with changing table sizes", async () => {
    const step = fc.record({
      headers: request,
      changes: fc.oneof(
        { weight: 3, arbitrary: fc.constant<number[]>([]) },
        { weight: 1, arbitrary: fc.array(tableBytes, { minLength: 1, maxLength: 3 }) },
      ),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 40 }),
        fc.constantFrom(0, 500, 4096, 16_384),
        tableBytes,
        async (steps, ownMaxTableBytes, serverTableBytes) => {
          const server = new ServerUnderObservation(ownMaxTableBytes, serverTableBytes);
          try {
            for (const { headers, changes } of steps) {
              for (const bytes of changes) server.changeTableBytes(bytes);
              assert.deepEqual((await server.exchange(headers)).request, headers);
            }
          } finally {
            server.close();
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  it("gives the server every field of the static table, in order", async (t) => {
    const server = new ServerUnderObservation(4096, 4096);
    t.after(() => {
      server.close();
    });
    // Those that a request may not have, or HTTP/2 checks the value of.
    const unfit = ["host", "transfer-encoding", "content-length"];
    const fields = STATIC_TABLE.filter(
      ([fieldName]) => !fieldName.startsWith(":") && !unfit.includes(fieldName),
    );
    const headers: HeaderList = [...PSEUDO_HEADERS, ...fields];
    assert.deepEqual((await server.exchange(headers)).request, headers);
  });

  it("agrees with the server on every pseudo-header of the static table", async (t) => {
    const server = new ServerUnderObservation(4096, 4096);
    t.after(() => {
      server.close();
    });
    // Written out, so that it is not our table that is asked for what it should hold.
    for (const status of ["200", "204", "206", "304", "400", "404", "500"]) {
      const { response } = await server.exchange(PSEUDO_HEADERS, [[":status", status]]);
      assert.deepEqual(response[0], [":status", status]);
    }
    for (const method of ["GET", "POST"]) {
      for (const scheme of ["http", "https"]) {
        for (const path of ["/", "/index.html"]) {
          const headers: HeaderList = [
            [":method", method],
            [":scheme", scheme],
            [":authority", "oracle.test"],
            [":path", path],
          ];
          assert.deepEqual((await server.exchange(headers)).request, headers);
        }
      }
    }
  });

  it("gives the server every octet that HTTP allows in a value", async (t) => {
    const server = new ServerUnderObservation(4096, 4096);
    t.after(() => {
      server.close();
    });
    const fields = VALUE_OCTETS.map((octet): HeaderField => {
      const character = String.fromCharCode(octet);
      return [`x-${octet}`, `0${character}${"0".repeat(40)}`];
    });
    for (let at = 0; at < fields.length; at += 50) {
      const headers: HeaderList = [...PSEUDO_HEADERS, ...fields.slice(at, at + 50)];
      assert.deepEqual((await server.exchange(headers)).request, headers);
    }
  });

  it("lets the server see which fields are never to be indexed", async (t) => {
    const server = new ServerUnderObservation(4096, 4096);
    t.after(() => {
      server.close();
    });
    const headers: HeaderList = [
      ...PSEUDO_HEADERS,
      ["user-agent", "grpc-go/1.83.0"],
      ["authorization", "Bearer abc"],
      ["agentid", "4f6c"],
      ["x-auth-token", "abc"],
    ];
    const { sensitive } = await server.exchange(headers);
    assert.deepEqual(sensitive, ["authorization", "x-auth-token"]);
  });

  it("shares a connection with a decoder that reads the server's answers", async (t) => {
    const server = new ServerUnderObservation(4096, 4096);
    t.after(() => {
      server.close();
    });
    for (const fields of fc.sample(ordinaryFields, { numRuns: 200, seed: 9113 })) {
      const sent: HeaderList = [[":status", "200"], ...fields];
      const { response } = await server.exchange(PSEUDO_HEADERS, sent);
      assert.deepEqual(
        response.filter(([fieldName]) => fieldName !== "date"),
        sent,
      );
    }
  });
});
