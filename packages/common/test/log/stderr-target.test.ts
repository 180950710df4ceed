import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";

const isLinux = process.platform === "linux";

const START = `
  import { systemClock } from "../../src/clock.ts";
  import { createLogger } from "../../src/log/pino-logger.ts";
  const logger = createLogger(
    { verbosity: 4, logToStderr: true, logFile: "", logFileMaxSizeMegabytes: 0,
      alsoLogToStderr: false, logDir: "", ignored: [] },
    { program: "p", version: "1" },
    { clock: systemClock },
  );
`;

/** Run `program` with `logger` in scope and `stderr` as its standard error. */
function start(t: TestContext, program: string, stderr: number | "pipe"): ChildProcess {
  const child = spawn(
    process.execPath,
    [...process.execArgv, "--input-type=module", "-e", START + program],
    { cwd: import.meta.dirname, stdio: ["ignore", "pipe", stderr] },
  );
  t.after(() => child.kill("SIGKILL"));
  return child;
}

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "reachback-stderr-"));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  return folder;
}

/** A pipe of 64 KiB whose reader, the test, reads only when it wants to. */
function openPipe(t: TestContext): { readonly writeEnd: number; readonly readAll: () => string } {
  const path = join(temporaryFolder(t), "pipe");
  execFileSync("mkfifo", [path]);
  // Two descriptions: that of the child's standard error is made to block.
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writeEnd = openSync(path, constants.O_WRONLY);
  t.after(() => {
    closeSync(readEnd);
    closeSync(writeEnd);
  });
  return {
    writeEnd,
    readAll() {
      const buffer = Buffer.alloc(1 << 20);
      let length = 0;
      try {
        for (;;) length += readSync(readEnd, buffer, length, buffer.length - length, null);
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, "EAGAIN");
      }
      return buffer.toString("utf8", 0, length);
    },
  };
}

const numbersIn = (text: string) =>
  Array.from(text.matchAll(/"n":(\d+)/g), ([, number]) => Number(number));

describe("standard error", () => {
  it(
    "neither holds up a program nor its exit when nobody reads it",
    { skip: !isLinux },
    async (t) => {
      const pipe = openPipe(t);
      const child = start(
        t,
        `
      const startedAt = performance.now();
      for (let n = 0; n < 5000; n++) logger.info("tunnel.opened", { n });
      console.log(Math.round(performance.now() - startedAt));
      logger.flushSync();
      process.exit(3);
    `,
        pipe.writeEnd,
      );
      let stdout = "";
      child.stdout?.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
      const [code] = (await once(child, "close")) as [number];
      assert.equal(code, 3);
      assert.ok(Number(stdout) < 2_000, `logging took ${stdout.trim()} ms`);
      // Nothing that left before the pipe was full is lost.
      const numbers = numbersIn(pipe.readAll());
      assert.ok(numbers.length > 400, `${numbers.length} lines`);
      assert.deepEqual(
        numbers,
        numbers.map((_, index) => index),
      );
    },
  );

  it("has every line of a program that exits without waiting", { skip: !isLinux }, async (t) => {
    const pipe = openPipe(t);
    const child = start(
      t,
      `for (let n = 0; n < 300; n++) logger.info("tunnel.opened", { n }); process.exit(0);`,
      pipe.writeEnd,
    );
    await once(child, "close");
    assert.equal(numbersIn(pipe.readAll()).length, 300);
  });

  it("is waited for by a program that closes its log", { skip: !isLinux }, async (t) => {
    const pipe = openPipe(t);
    const child = start(
      t,
      `
      for (let n = 0; n < 3000; n++) logger.info("tunnel.opened", { n });
      console.log("full");
      await logger.close();
      process.exit(4);
    `,
      pipe.writeEnd,
    );
    let text = "";
    const exited = once(child, "close");
    await once(child.stdout!, "data");
    while (child.exitCode === null) {
      text += pipe.readAll();
      await new Promise((resolve) => setImmediate(resolve));
    }
    text += pipe.readAll();
    assert.deepEqual(await exited, [4, null]);
    assert.equal(numbersIn(text).length, 3_000);
  });

  it("has every line where it is a socket or a file", async (t) => {
    const program = `
      for (let n = 0; n < 3000; n++) logger.info("tunnel.opened", { n });
      await logger.close();
      process.exit(0);
    `;
    const overSocket = start(t, program, "pipe");
    let stderr = "";
    overSocket.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
    await once(overSocket, "close");
    assert.equal(numbersIn(stderr).length, 3_000);

    const path = join(temporaryFolder(t), "stderr.log");
    const file = openSync(path, "a");
    await once(start(t, program, file), "close");
    closeSync(file);
    assert.equal(numbersIn(readFileSync(path, "utf8")).length, 3_000);
  });

  it("may go away without ending the program", async (t) => {
    const child = start(
      t,
      `
      const logOnceClosed = setInterval(() => logger.info("tunnel.opened"), 1);
      process.stdout.on("error", () => undefined);
      setTimeout(() => { clearInterval(logOnceClosed); console.log("alive"); }, 100);
    `,
      "pipe",
    );
    child.stderr?.destroy();
    let stdout = "";
    child.stdout?.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
    const [code] = (await once(child, "close")) as [number];
    assert.deepEqual([code, stdout], [0, "alive\n"]);
  });
});
