import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { ConnectError, systemClock } from "@reachback/common";
import type { Clock } from "@reachback/common";
import { ManualClock } from "@reachback/common/testing";
import { startBlackHole } from "../../../../test/support/http2-peer.ts";
import { DialError, dialErrorFrom } from "../../src/endpoint/dial-error.ts";
import { TcpEndpointDialer } from "../../src/endpoint/endpoint-dialer.ts";
import { LookupError } from "../../src/lookup/host-lookup.ts";
import type { HostLookup } from "../../src/lookup/host-lookup.ts";

const OPTIONS = { timeoutMs: 5_000, nextAddressMs: 250 };

/** Knows some names, has failed to find others, and never answers for the rest. */
class FakeLookup implements HostLookup {
  readonly asked: string[] = [];
  readonly #names: Readonly<Record<string, readonly string[] | Error>>;

  constructor(names: Readonly<Record<string, readonly string[] | Error>> = {}) {
    this.#names = names;
  }

  lookup(name: string, signal: AbortSignal): Promise<readonly string[]> {
    this.asked.push(name);
    const known = this.#names[name];
    if (known instanceof Error) return Promise.reject(known);
    if (known !== undefined) return Promise.resolve(known);
    return new Promise((_, reject) => {
      signal.addEventListener("abort", () => {
        reject(signal.reason as Error);
      });
    });
  }
}

function setup(names?: ConstructorParameters<typeof FakeLookup>[0], clock: Clock = systemClock) {
  const lookup = new FakeLookup(names);
  const dialer = new TcpEndpointDialer(OPTIONS, clock, lookup);
  const controller = new AbortController();
  const dial = async (address: string, protocol = "tcp") => {
    const socket = await dialer.dial(protocol, address, controller.signal);
    socket.destroy();
    return socket.remoteAddress;
  };
  /** How a dial fails: its text with the name server masked, and the reason for the metric. */
  const failure = async (address: string, protocol = "tcp") => {
    try {
      await dial(address, protocol);
    } catch (error) {
      assert.ok(error instanceof DialError, String(error));
      return `${error.message.replace(/ on \S+: /, " on <ns>: ")} (${error.reason})`;
    }
    throw new Error("the dial did not fail");
  };
  return { lookup, controller, dial, failure };
}

/** A port that is open on one loopback address, and closed on all others. */
async function startListener(t: TestContext, host = "127.0.0.1"): Promise<number> {
  const server = createServer((socket) => socket.destroy());
  server.listen(0, host);
  await once(server, "listening");
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

describe("TcpEndpointDialer", () => {
  it("connects to an address without looking anything up", async (t) => {
    const port = await startListener(t);
    const { dial, lookup } = setup();
    await dial(`127.0.0.1:${port}`);
    await dial(`:${port}`);
    assert.deepEqual(lookup.asked, []);
  });

  it("connects to an IPv6 address", async (t) => {
    const port = await startListener(t, "::1");
    const { dial } = setup();
    await dial(`[::1]:${port}`);
  });

  it("dials addresses at once while every look-up is stuck", async (t) => {
    const port = await startListener(t);
    const { dial, controller } = setup({}, new ManualClock());
    const stuck = Array.from({ length: 100 }, (_, index) => dial(`stuck-${index}:80`));
    // Without a moment passing on the clock, so none of them has been given up.
    await dial(`127.0.0.1:${port}`);
    controller.abort(new Error("enough"));
    const outcomes = await Promise.allSettled(stuck);
    assert.ok(outcomes.every(({ status }) => status === "rejected"));
  });

  it("says in Go's words what is wrong with an address", async () => {
    const { failure } = setup({ "127.1": new LookupError("not-found", "x") });
    const port = await closedPort();
    const texts: [address: string, protocol: string, expected: string][] = [
      [`127.0.0.1:${port}`, "tcp", `dial tcp 127.0.0.1:${port}: connect: connection refused`],
      [`[::1]:${port}`, "tcp", `dial tcp [::1]:${port}: connect: connection refused`],
      [`:${port}`, "tcp", `dial tcp :${port}: connect: connection refused`],
      ["127.0.0.1:0", "tcp", "dial tcp 127.0.0.1:0: connect: connection refused"],
      ["127.0.0.1:", "tcp", "dial tcp 127.0.0.1:0: connect: connection refused"],
      ["foo", "tcp", "dial tcp: address foo: missing port in address"],
      ["", "tcp", "dial tcp: address : missing port in address"],
      ["::1:80", "tcp", "dial tcp: address ::1:80: too many colons in address"],
      ["[::1]", "tcp", "dial tcp: address [::1]: missing port in address"],
      ["[::1:80", "tcp", "dial tcp: address [::1:80: missing ']' in address"],
      ["a:99999", "tcp", "dial tcp: address 99999: invalid port"],
      ["a:65536", "tcp", "dial tcp: address 65536: invalid port"],
      ["a:http!", "tcp", "dial tcp: lookup tcp/http!: unknown port"],
      ["127.1:80", "tcp", "dial tcp: lookup 127.1 on <ns>: no such host"],
      ["127.0.0.1:80", "foo", "dial foo: unknown network foo"],
      ["127.0.0.1:80", "", "dial: unknown network "],
      ["/x.sock", "unix", "dial unix: unknown network unix"],
      ["127.0.0.1:80", "udp", "dial udp: unknown network udp"],
      ["127.0.0.1:80", "tcp4", "dial tcp4: unknown network tcp4"],
      ["127.0.0.1:80", "TCP", "dial TCP: unknown network TCP"],
    ];
    for (const [address, protocol, expected] of texts) {
      assert.equal(await failure(address, protocol), `${expected} (unknown)`);
    }
  });

  it("says in Go's words why a name led nowhere", async () => {
    const { failure } = setup({
      "nope.example.": new LookupError("not-found", "x"),
      "broken.example": new LookupError("failed", "x"),
      "mute.example": new LookupError("timeout", "x"),
    });
    assert.deepEqual(
      [
        await failure("nope.example.:80"),
        await failure("broken.example:80"),
        await failure("mute.example:80"),
      ],
      [
        "dial tcp: lookup nope.example. on <ns>: no such host (unknown)",
        "dial tcp: lookup broken.example on <ns>: server misbehaving (unknown)",
        "dial tcp: lookup mute.example on <ns>: i/o timeout (timeout)",
      ],
    );
  });

  it("names the address that failed, not the name", async () => {
    const port = await closedPort();
    const { failure } = setup({ "web.example": ["127.0.0.2", "127.0.0.3"] });
    assert.equal(
      await failure(`web.example:${port}`),
      `dial tcp 127.0.0.2:${port}: connect: connection refused (unknown)`,
    );
  });

  it("gives an address up after five seconds", async (t) => {
    const clock = new ManualClock();
    const port = await startBlackHole(t);
    const { failure } = setup({ "web.example": ["127.0.0.1"] }, clock);
    const failures = Promise.all([failure(`127.0.0.1:${port}`), failure(`web.example:${port}`)]);
    let isOver = false;
    void failures.then(() => {
      isOver = true;
    });
    await nextTurn();
    clock.advance(4_999);
    await nextTurn();
    assert.equal(isOver, false);
    clock.advance(1);
    assert.deepEqual(await failures, [
      `dial tcp 127.0.0.1:${port}: i/o timeout (timeout)`,
      `dial tcp 127.0.0.1:${port}: i/o timeout (timeout)`,
    ]);
    assert.equal(clock.pendingTimers, 0);
  });

  it("gives a look-up up after five seconds", async () => {
    const clock = new ManualClock();
    const { failure } = setup({}, clock);
    const failed = failure("stuck.example:80");
    await nextTurn();
    clock.advance(5_000);
    assert.equal(await failed, "dial tcp: lookup stuck.example on <ns>: i/o timeout (timeout)");
    assert.equal(clock.pendingTimers, 0);
  });

  it("connects within half a second to the one address of three that is alive", async (t) => {
    const port = await startListener(t);
    await startBlackHole(t, { host: "127.0.0.2", port });
    await startBlackHole(t, { host: "127.0.0.3", port });
    const clock = new ManualClock();
    const addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.1"];
    const { dial } = setup({ "web.example": addresses }, clock);
    const dialed = dial(`web.example:${port}`);
    await nextTurn();
    clock.advance(2 * OPTIONS.nextAddressMs);
    await dialed;
    assert.equal(clock.pendingTimers, 0);
  });

  it("ends with the caller's reason, in every phase", async (t) => {
    const clock = new ManualClock();
    const port = await startBlackHole(t);
    for (const address of [`127.0.0.1:${port}`, `web.example:${port}`, "stuck.example:80"]) {
      const { dial, controller } = setup({ "web.example": ["127.0.0.1"] }, clock);
      const dialed = dial(address);
      await nextTurn();
      const reason = new Error("the frontend left");
      controller.abort(reason);
      await assert.rejects(dialed, reason);
      await assert.rejects(dial(address), reason);
      assert.equal(clock.pendingTimers, 0);
    }
  });
});

describe("dialErrorFrom", () => {
  it("words every error of the system as Go does", () => {
    const codes: [code: string, errno: number, expected: string][] = [
      ["ECONNREFUSED", -111, "connect: connection refused"],
      ["EHOSTUNREACH", -113, "connect: no route to host"],
      ["ENETUNREACH", -101, "connect: network is unreachable"],
      ["ECONNRESET", -104, "connect: connection reset by peer"],
      ["EACCES", -13, "connect: permission denied"],
      ["EADDRNOTAVAIL", -99, "connect: cannot assign requested address"],
      ["EMFILE", -24, "socket: too many open files"],
      ["ENFILE", -23, "socket: too many open files in system"],
      ["ETIMEDOUT", -110, "i/o timeout"],
    ];
    for (const [code, errno, expected] of codes) {
      const cause = Object.assign(new Error(`connect ${code}`), {
        code,
        errno,
        syscall: "connect",
      });
      const error = new ConnectError("connect", cause.message, false, cause);
      const dialError = dialErrorFrom(error, { host: "10.9.9.9", port: 80 });
      assert.equal(dialError.message, `dial tcp 10.9.9.9:80: ${expected}`);
      assert.equal(dialError.reason, code === "ETIMEDOUT" ? "timeout" : "unknown");
      assert.equal(dialError.cause, error);
    }
  });

  it("has words for what it does not know", () => {
    const error = dialErrorFrom(new RangeError("odd"), { host: "a", port: 1 });
    assert.equal(error.message, "dial tcp: RangeError: odd");
  });
});
