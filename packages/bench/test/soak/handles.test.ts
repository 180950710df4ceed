import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { openHandles } from "../../src/soak/handles.ts";

/** A process still closes files of its own while it starts. */
const ATTEMPTS = 20;

async function handlesAroundListener() {
  const before = openHandles();
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const during = openHandles();
  server.close();
  await once(server, "close");
  // libuv lets go of it at the end of a turn.
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  return { before, during, after: openHandles() };
}

it("handles are listeners, sockets and files, for as long as they are open", async () => {
  let handles = await handlesAroundListener();
  for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
    if (isDeepStrictEqual(handles.after, handles.before)) break;
    handles = await handlesAroundListener();
  }
  const { before, during, after } = handles;
  assert.deepEqual(after, before);
  const { files = 0, TCPServerWrap: listeners = 0 } = before;
  assert.deepEqual(during, { ...before, files: files + 1, TCPServerWrap: listeners + 1 });
});
