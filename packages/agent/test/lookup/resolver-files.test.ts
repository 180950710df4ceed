import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseHostsFile } from "../../src/lookup/hosts-file.ts";
import { candidateNames, parseResolverConfig } from "../../src/lookup/resolver-config.ts";

describe("parseHostsFile", () => {
  it("finds every name of every line, without regard to case and final dots", () => {
    const hosts = parseHostsFile(
      "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1 localhost ip6-localhost # six\n" +
        "10.0.0.7  Node1.Example. node1\r\n\nnot-an-address x\n10.0.0.8\n",
    );
    assert.deepEqual(Object.fromEntries(hosts), {
      localhost: ["127.0.0.1", "::1"],
      "ip6-localhost": ["::1"],
      "node1.example": ["10.0.0.7"],
      node1: ["10.0.0.7"],
    });
  });
});

describe("candidateNames", () => {
  const pod = parseResolverConfig(
    "nameserver 10.96.0.10\nsearch default.svc.cluster.local svc.cluster.local cluster.local.\noptions timeout:1 ndots:5\n",
  );

  it("looks for a short name in the search domains first", () => {
    assert.deepEqual(candidateNames("web", pod), [
      "web.default.svc.cluster.local",
      "web.svc.cluster.local",
      "web.cluster.local",
      "web",
    ]);
  });

  it("looks for a name with enough dots as it is first", () => {
    const config = parseResolverConfig("search example.com");
    assert.deepEqual(candidateNames("a.b", config), ["a.b", "a.b.example.com"]);
    assert.deepEqual(candidateNames("a", config), ["a.example.com", "a"]);
    assert.deepEqual(candidateNames("a.b.c.d.e.f", pod)[0], "a.b.c.d.e.f");
  });

  it("takes a name with a final dot for complete", () => {
    assert.deepEqual(candidateNames("web.", pod), ["web"]);
  });

  it("leaves out what is too long, or nothing at all", () => {
    const long = `${"a.".repeat(120)}example`;
    assert.deepEqual(candidateNames(long, parseResolverConfig("search example.com")), [long]);
    assert.deepEqual(candidateNames("x".repeat(254), parseResolverConfig("")), []);
    assert.deepEqual(candidateNames(".", pod), []);
    assert.deepEqual(candidateNames("", parseResolverConfig("")), []);
  });

  it("takes the last word of the file, and knows the older keyword", () => {
    assert.deepEqual(parseResolverConfig("search a b\nsearch c\n; search d\n# search e\n"), {
      search: ["c"],
      ndots: 1,
    });
    assert.deepEqual(parseResolverConfig("domain a.example ignored\noptions ndots:99"), {
      search: ["a.example"],
      ndots: 15,
    });
    assert.deepEqual(candidateNames("a", parseResolverConfig("search .")), ["a"]);
  });
});
