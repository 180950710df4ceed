import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { openHandles } from "../../src/soak/handles.ts";

it("handles are listeners, sockets and files, for as long as they are open", async () => {
  const before = openHandles();
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { files = 0, TCPServerWrap: listeners = 0 } = before;
  assert.deepEqual(openHandles(), { ...before, files: files + 1, TCPServerWrap: listeners + 1 });
  server.close();
  await once(server, "close");
  // libuv lets go of it at the end of a turn.
  for (let turn = 0; turn < 2; turn++) await nextTurn();
  assert.deepEqual(openHandles(), before);
});
