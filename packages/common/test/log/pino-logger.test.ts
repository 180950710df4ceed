import assert from "node:assert/strict";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TestContext } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { createLogger } from "../../src/log/pino-logger.ts";
import type { LoggingOptions } from "../../src/log/logging-options.ts";

type Line = Readonly<Record<string, unknown>>;

const DEFAULTS: LoggingOptions = {
  verbosity: 4,
  logToStderr: true,
  logFile: "",
  logFileMaxSizeMegabytes: 1800,
  alsoLogToStderr: false,
  logDir: "",
  ignored: [],
};

const IDENTITY = { program: "reachback-server", version: "1.2.3" };

function linesOf(text: string): readonly Line[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}

function setup(options: Partial<LoggingOptions> = {}) {
  const clock = new ManualClock(Date.UTC(2026, 10, 21, 3, 4, 5, 678));
  let written = "";
  const logger = createLogger({ ...DEFAULTS, ...options }, IDENTITY, {
    clock,
    stderr: {
      write(chunk, done) {
        written += chunk.toString();
        done(null, chunk.length);
      },
      writeSync: (chunk) => chunk.length,
      close: () => undefined,
    },
  });
  return { clock, logger, stderr: () => linesOf(written), lastLine: () => linesOf(written).at(-1) };
}

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "reachback-log-"));
  t.after(() => {
    rmSync(path, { recursive: true });
  });
  return path;
}

describe("createLogger", () => {
  it("writes one JSON object per line", () => {
    const { logger, stderr } = setup();
    logger.info("tunnel.opened", { agentId: "a", serverCount: 3, draining: false });
    assert.deepEqual(stderr(), [
      {
        level: "info",
        time: "2026-11-21T03:04:05.678Z",
        program: "reachback-server",
        version: "1.2.3",
        event: "tunnel.opened",
        agentId: "a",
        serverCount: 3,
        draining: false,
      },
    ]);
  });

  const levels: readonly (readonly [number, readonly string[]])[] = [
    [-1, ["warn", "error"]],
    [0, ["warn", "error"]],
    [1, ["warn", "error"]],
    [2, ["info", "warn", "error"]],
    [4, ["info", "warn", "error"]],
    [5, ["debug", "info", "warn", "error"]],
    [10, ["debug", "info", "warn", "error"]],
  ];
  for (const [verbosity, expected] of levels) {
    it(`writes ${expected.join(", ")} at --v=${verbosity}`, () => {
      const { logger, stderr } = setup({ verbosity });
      logger.debug("connection.opened");
      logger.info("tunnel.opened");
      logger.warn("tunnel.lost");
      logger.error("program.failed", new Error("x"));
      assert.deepEqual(
        stderr().map(({ level }) => level),
        expected,
      );
      assert.equal(logger.debugEnabled, expected.includes("debug"));
    });
  }

  it("gives of an error its message, code and cause, and the stack only with debug lines", () => {
    const error = Object.assign(new Error("dial failed", { cause: new Error("refused") }), {
      code: "ECONNREFUSED",
    });
    const usual = setup();
    usual.logger.error("program.failed", error, { port: 1 });
    const { error: message, code, cause, stack, port } = usual.lastLine() ?? {};
    assert.deepEqual(
      { message, code, cause, stack, port },
      { message: "dial failed", code: "ECONNREFUSED", cause: "refused", stack: undefined, port: 1 },
    );

    const verbose = setup({ verbosity: 5 });
    verbose.logger.error("program.failed", error);
    assert.match(String(verbose.lastLine()?.["stack"]), /Error: dial failed\n\s+at /);
  });

  it("has words for whatever may be thrown", () => {
    const { logger, lastLine } = setup();
    logger.error("program.failed", "plain text");
    assert.equal(lastLine()?.["error"], "plain text");
    logger.error("program.failed", undefined, { code: 7 });
    assert.equal(lastLine()?.["error"], "undefined");
    assert.equal(lastLine()?.["code"], 7);
    logger.error("program.failed", new AggregateError([new Error("a"), new Error("b")]));
    assert.equal(lastLine()?.["error"], "a; b");
  });

  it("adds a child's fields once, the nearest winning", () => {
    const { logger, lastLine } = setup();
    logger
      .child({ agentId: "a", tunnel: 1 })
      .child({ tunnel: 2 })
      .info("tunnel.lost", { tunnel: 3 });
    const { agentId, tunnel } = lastLine() ?? {};
    assert.deepEqual({ agentId, tunnel }, { agentId: "a", tunnel: 3 });
  });

  it("never lets a field take the place of the line's own, nor writes one twice", () => {
    const { logger, lastLine } = setup();
    logger.info("tunnel.opened", { version: "9", event: "x", level: "y", agentId: undefined });
    const line = lastLine() ?? {};
    assert.equal(line["version"], "1.2.3");
    assert.equal(line["event"], "tunnel.opened");
    assert.equal(line["version_"], "9");
    assert.equal("agentId" in line, false);
  });

  it("cuts a text that a peer made too long, and keeps any on one line", () => {
    const { logger, lastLine, stderr } = setup();
    logger.warn("dial.failed", { error: `a\n"${"é".repeat(5_000_000)}` });
    assert.equal(stderr().length, 1);
    assert.match(String(lastLine()?.["error"]), /^a\n"é+\.\.\. \(5000003 characters\)$/);
  });

  it("names the ignored flags in one line", () => {
    const { stderr } = setup({ ignored: ["vmodule", "one-output"] });
    assert.deepEqual(
      stderr().map(({ event, flags }) => [event, flags]),
      [["flag.ignored", "--vmodule --one-output"]],
    );
  });

  it("counts repeated warnings, of children too, and writes the rest when it is closed", async () => {
    const { clock, logger, stderr } = setup();
    for (let n = 0; n < 100; n++) logger.child({ dialId: String(n) }).warn("dial.failed", { n });
    assert.equal(stderr().length, 1);
    await logger.close();
    const { event, repeated, n, level } = stderr()[1] ?? {};
    assert.deepEqual(
      { event, repeated, n, level },
      { event: "dial.failed", repeated: 99, n: 99, level: "warn" },
    );
    assert.equal(clock.pendingTimers, 0);
  });
});

describe("the log file", () => {
  it("takes every line; standard error has the errors", async (t) => {
    const logFile = join(folder(t), "server.log");
    writeFileSync(logFile, '{"event":"older"}\n');
    const { logger, stderr } = setup({ logToStderr: false, logFile });
    logger.info("tunnel.opened");
    logger.error("program.failed", new Error("x"));
    await logger.close();
    assert.deepEqual(
      linesOf(readFileSync(logFile, "utf8")).map(({ event }) => event),
      ["older", "tunnel.opened", "program.failed"],
    );
    assert.deepEqual(
      stderr().map(({ event }) => event),
      ["program.failed"],
    );
  });

  it("is not touched with --logtostderr, as upstream's manifests give both", (t) => {
    const logFile = join(folder(t), "server.log");
    const { logger, stderr } = setup({ logFile });
    logger.info("tunnel.opened");
    assert.equal(stderr().length, 1);
    assert.throws(() => statSync(logFile), /ENOENT/);
  });

  it("shares every line with standard error if asked to", async (t) => {
    const logFile = join(folder(t), "server.log");
    const { logger, stderr } = setup({ logToStderr: false, alsoLogToStderr: true, logFile });
    logger.info("tunnel.opened");
    await logger.close();
    assert.equal(stderr().length, 1);
    assert.equal(linesOf(readFileSync(logFile, "utf8")).length, 1);
  });

  it("is named after the program in --log-dir", async (t) => {
    const logDir = folder(t);
    const { logger } = setup({ logToStderr: false, logDir });
    logger.info("tunnel.opened");
    await logger.close();
    assert.equal(linesOf(readFileSync(join(logDir, "reachback-server.log"), "utf8")).length, 1);
  });

  it("is standard error after all if no file is named", () => {
    const { logger, stderr } = setup({ logToStderr: false });
    logger.info("tunnel.opened");
    assert.equal(stderr().length, 1);
  });

  it("stops the start with path and reason if it cannot be opened", () => {
    assert.throws(
      () => setup({ logToStderr: false, logFile: "/nonexistent/server.log" }),
      /^Error: failed to open the log file: open \/nonexistent\/server\.log: no such file or directory$/,
    );
    assert.throws(() => setup({ logToStderr: false, logFile: tmpdir() }), /: is a directory$/);
  });

  it("is opened anew after it was renamed", async (t) => {
    const logFile = join(folder(t), "server.log");
    const { logger } = setup({ logToStderr: false, logFile });
    logger.info("tunnel.opened");
    renameSync(logFile, `${logFile}.1`);
    logger.reopen();
    logger.info("tunnel.lost");
    await logger.close();
    const events = (path: string) =>
      linesOf(readFileSync(path, "utf8")).map(({ event }) => event as string);
    assert.deepEqual(
      [...events(`${logFile}.1`), ...events(logFile)],
      ["tunnel.opened", "log.reopened", "tunnel.lost"],
    );
    assert.ok(events(logFile).includes("tunnel.lost"));
  });

  it("goes on in the old file, and says so, if the new one cannot be opened", async (t) => {
    const path = folder(t);
    const logFile = join(path, "logs");
    const { logger, stderr } = setup({ logToStderr: false, logFile });
    logger.info("tunnel.opened");
    renameSync(logFile, `${logFile}.1`);
    mkdirSync(logFile);
    logger.reopen();
    logger.info("tunnel.lost");
    await logger.close();
    assert.ok(
      linesOf(readFileSync(`${logFile}.1`, "utf8")).some(({ event }) => event === "tunnel.lost"),
    );
    assert.deepEqual(
      stderr().map(({ event }) => event),
      ["log.failed"],
    );
  });

  it("is cut to nothing when it reaches its limit, and says what went", async (t) => {
    const logFile = join(folder(t), "server.log");
    writeFileSync(logFile, "x".repeat(1024 * 1024 - 10));
    const { logger } = setup({ logToStderr: false, logFile, logFileMaxSizeMegabytes: 1 });
    logger.info("tunnel.opened");
    await logger.close();
    const lines = linesOf(readFileSync(logFile, "utf8"));
    assert.deepEqual(
      lines.map(({ event, bytes }) => [event, bytes]),
      [
        ["tunnel.opened", undefined],
        ["log.truncated", 1024 * 1024 - 10],
      ],
    );
  });

  it("grows without limit at size 0", async (t) => {
    const logFile = join(folder(t), "server.log");
    writeFileSync(logFile, `${"x".repeat(3 * 1024 * 1024)}\n`);
    const { logger } = setup({ logToStderr: false, logFile, logFileMaxSizeMegabytes: 0 });
    logger.info("tunnel.opened");
    await logger.close();
    assert.ok(statSync(logFile).size > 3 * 1024 * 1024);
  });

  it("has the last lines even if the program exits without waiting", async (t) => {
    const logFile = join(folder(t), "server.log");
    const { logger } = setup({ logToStderr: false, logFile });
    for (let n = 0; n < 1_000; n++) logger.info("tunnel.opened", { n });
    logger.flushSync();
    const queued = linesOf(readFileSync(logFile, "utf8")).map(({ n }) => n);
    assert.equal(queued.at(-1), 999);
    await logger.close();
  });
});
