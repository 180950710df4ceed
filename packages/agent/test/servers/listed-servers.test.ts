import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PacketType } from "@reachback/common";
import type { DialId } from "@reachback/common";
import { setup } from "./set-setup.ts";

/** Each host is a server of its name. */
const byName = (host: string) => ({ id: host, count: 1 });

describe("a server set in which each address is a server", () => {
  it("has a tunnel to each, whatever number they announce, and rests then", async () => {
    const { clock, servers, set, pass } = setup({ hosts: ["a", "b", "c"] });
    servers.answerAt = byName;
    set.start();
    await pass(0);
    assert.deepEqual([set.tunnelCount, set.serverCount], [3, 3]);
    assert.equal(clock.pendingTimers, 0);
    await pass(3_600_000, 60_000);
    assert.equal(servers.attemptCount, 3);
  });

  it("is not delayed at one address by others that are mute or refuse", async () => {
    const { servers, set, pass, lose } = setup({ hosts: ["mute", "gone", "a", "b"] });
    servers.answerAt = (host) => {
      if (host === "mute") return "silence";
      return host === "gone" ? new Error("refused") : byName(host);
    };
    set.start();
    await pass(30_000);
    assert.deepEqual([set.tunnelCount, set.serverCount], [2, 4]);
    assert.ok(servers.pendingCount > 0 && servers.pendingCount <= 3);
    const at = servers.opened.findIndex(({ serverId }) => serverId === "b");
    lose(at);
    await pass(1_000);
    assert.equal(set.tunnelCount, 2);
  });

  it("is content when two addresses lead to one server, until its tunnel is lost", async () => {
    const { servers, set, pass, lose, logged } = setup({ hosts: ["10.0.0.1", "fd00::1"] });
    servers.answer = { id: "same", count: 1 };
    set.start();
    await pass(30_000);
    assert.deepEqual([set.tunnelCount, set.serverCount, servers.attemptCount], [1, 1, 2]);
    assert.match(String(logged("tunnel.duplicate")[0]?.fields["hint"]), /--server-id/);
    const lost = servers.opened.findIndex(({ isEnded }) => !isEnded);
    lose(lost);
    servers.answerAt = byName;
    await pass(2_000);
    assert.deepEqual([set.tunnelCount, set.serverCount], [2, 2]);
  });

  it("follows addresses that come and go, and lets what is carried come to its end", async () => {
    const { servers, set, pass, addresses, logged } = setup({ hosts: ["a"] });
    servers.answerAt = byName;
    set.start();
    await pass(100);
    const [a] = servers.opened;
    a!.tunnel.control({
      type: PacketType.DIAL_REQ,
      dialId: 1 as DialId,
      protocol: "tcp",
      address: "h:1",
    });
    addresses.change(["a", "b", "c"]);
    await pass(100);
    assert.deepEqual([set.tunnelCount, set.serverCount], [3, 3]);

    addresses.change(["b", "c"]);
    assert.deepEqual([set.connectedCount, set.serverCount], [2, 2]);
    assert.deepEqual(a?.carrier.sent, ["DRAIN"]);
    await pass(60_000);
    assert.equal(a.isEnded, false, "something is being dialed");
    a.tunnel.control({ type: PacketType.DIAL_CLS, dialId: 1 as DialId });
    a.events.connectionGone();
    assert.equal(a.isEnded, true);
    assert.equal(logged("tunnel.surplus").length, 1);
    assert.equal(servers.attemptCount, 3);
  });

  it("keeps a tunnel as long as one of its server's addresses is left", async () => {
    const { servers, set, pass, addresses } = setup({ hosts: ["10.0.0.1", "fd00::1"] });
    servers.answer = { id: "same", count: 1 };
    set.start();
    await pass(100);
    addresses.change(["fd00::1"]);
    await pass(10_000);
    addresses.change(["10.0.0.1", "fd00::1"]);
    await pass(10_000);
    assert.deepEqual([set.tunnelCount, set.connectedCount], [1, 1]);
    assert.equal(servers.opened.filter(({ isEnded }) => !isEnded).length, 1);
  });

  it("opens a new tunnel to a server whose old one drains away", async () => {
    const { servers, set, pass, addresses } = setup({ hosts: ["a", "b"] });
    servers.answerAt = byName;
    set.start();
    await pass(100);
    addresses.change(["b"]);
    addresses.change(["a", "b"]);
    await pass(2_000);
    assert.equal(set.connectedCount, 2);
    assert.deepEqual(
      servers.opened.map(({ serverId, isEnded }) => `${serverId} ${isEnded}`),
      ["a true", "b false", "a false"],
    );
  });

  it("asks for the addresses anew when one fails or a tunnel is lost", async () => {
    const { servers, set, pass, addresses, lose } = setup({ hosts: ["a", "b"] });
    servers.answerAt = (host) => (host === "a" ? byName(host) : new Error("refused"));
    set.start();
    await pass(100);
    assert.equal(addresses.suspicions, 1);
    lose(0);
    assert.equal(addresses.suspicions, 2);
  });

  it("pauses longer and longer between attempts to go back to a server that drains", async () => {
    const { servers, set, pass, logged } = setup({ hosts: ["a"] });
    servers.answerAt = byName;
    set.start();
    await pass(20_000);
    servers.opened[0]!.events.serverLeaving("drain");
    await pass(30_000);
    assert.ok(servers.attemptCount <= 9, String(servers.attemptCount));
    assert.deepEqual([set.tunnelCount, set.connectedCount], [1, 0]);
    const [refused] = logged("tunnel.refused");
    assert.equal(refused?.fields["error"], "answer: the server is about to leave");
  });

  it("makes no attempt while no address is known", async () => {
    const { servers, set, pass, addresses } = setup({ hosts: [] });
    servers.answerAt = byName;
    set.start();
    await pass(10_000);
    assert.deepEqual([servers.attemptCount, set.serverCount], [0, 1]);
    addresses.change(["a"]);
    await pass(0);
    assert.equal(set.tunnelCount, 1);
  });
});
