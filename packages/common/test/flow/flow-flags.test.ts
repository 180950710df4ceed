import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseFlags } from "../../src/flags/parse-flags.ts";
import { FLOW_FLAGS, resolveFlowOptions } from "../../src/flow/flow-flags.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;

async function resolve(argv: readonly string[], memoryLimitBytes = 8 * GIB, xfrChannelSize = 150) {
  const flags = await parseFlags(FLOW_FLAGS, {
    argv,
    env: {},
    onDeprecated: (line) => assert.fail(line),
  });
  return resolveFlowOptions(flags, xfrChannelSize, memoryLimitBytes);
}

describe("the flow control flags", () => {
  it("are what LIMITS.md says where there is memory enough", async () => {
    assert.deepEqual(await resolve([]), {
      limits: {
        initialBytes: 64 * KIB,
        maxBytes: 64 * MIB,
        tunnelWindowBytes: 512 * MIB,
        queueBytes: 600 * KIB,
        stallTimeoutMs: 1_000,
      },
      processWindowBytes: 1 * GIB,
      halfCloseTimeoutMs: 10_000,
    });
  });

  it("are shares of the memory limit where it is small", async () => {
    const { limits, processWindowBytes } = await resolve([], 96 * MIB);
    assert.equal(limits.maxBytes, 12 * MIB);
    assert.equal(limits.tunnelWindowBytes, 24 * MIB);
    assert.equal(processWindowBytes, 24 * MIB);
  });

  it("leave a connection its first window, however little memory there is", async () => {
    const { limits, processWindowBytes } = await resolve([], 1);
    assert.equal(limits.maxBytes, 64 * KIB);
    assert.equal(limits.tunnelWindowBytes, 64 * KIB);
    assert.equal(processWindowBytes, 64 * KIB);
  });

  it("say what they say, whatever the memory limit", async () => {
    const options = await resolve(
      [
        "--connection-window=1Mi",
        "--tunnel-window=2Gi",
        "--process-window=3Gi",
        "--stall-timeout=250ms",
        "--half-close-timeout=0",
      ],
      96 * MIB,
    );
    assert.equal(options.limits.maxBytes, 1 * MIB);
    assert.equal(options.limits.tunnelWindowBytes, 2 * GIB);
    assert.equal(options.processWindowBytes, 3 * GIB);
    assert.equal(options.limits.stallTimeoutMs, 250);
    assert.equal(options.halfCloseTimeoutMs, 0);
  });

  it("let upstream's packets of 4 KiB wait as --xfr-channel-size says, and 256 KiB at least", async () => {
    const queueBytes = async (size: number) => (await resolve([], GIB, size)).limits.queueBytes;
    assert.equal(await queueBytes(1), 256 * KIB);
    assert.equal(await queueBytes(64), 256 * KIB);
    assert.equal(await queueBytes(1_000), 4_000 * KIB);
  });
});
