import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { describe, it } from "node:test";
import { listenForStop } from "../src/signals.ts";
import type { ProcessPort, ProcessSignal } from "../src/signals.ts";

class FakeProcess extends EventEmitter implements ProcessPort {
  readonly seen: string[] = [];

  exit(code: number): void {
    this.seen.push(`exit ${code}`);
  }

  signal(signal: ProcessSignal): void {
    this.emit(signal, signal);
  }
}

function setup() {
  const fake = new FakeProcess();
  const dispose = listenForStop(fake, {
    onStop: (signal) => fake.seen.push(`stop ${signal}`),
    secondExitCode: 1,
    onExit: () => fake.seen.push("last words"),
  });
  return { fake, dispose };
}

describe("listenForStop", () => {
  it("stops at the first signal and exits at the second, whichever they are", () => {
    const { fake } = setup();
    fake.signal("SIGTERM");
    assert.deepEqual(fake.seen, ["stop SIGTERM"]);
    fake.signal("SIGINT");
    assert.deepEqual(fake.seen, ["stop SIGTERM", "last words", "exit 1"]);
  });

  it("takes no notice of other signals", () => {
    const { fake } = setup();
    fake.signal("SIGHUP");
    assert.deepEqual(fake.seen, []);
  });

  it("leaves no listener behind", () => {
    const { fake, dispose } = setup();
    dispose();
    assert.deepEqual(fake.eventNames(), []);
  });

  it("takes Node's process", () => {
    const port: ProcessPort = process;
    listenForStop(port, { onStop: () => undefined, secondExitCode: 0 })();
  });
});
