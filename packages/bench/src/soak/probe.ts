// Preloaded into a process under test, which was started with a channel: answers what is asked about
// its inside.

import { writeHeapSnapshot } from "node:v8";
import { openHandles } from "./handles.ts";

/** To be answered with the handles, or with nothing once the heap is in that file. */
export type ProbeRequest = "handles" | { readonly snapshotPath: string };

process.on("message", (request: ProbeRequest | object) => {
  if (request === "handles") {
    process.send?.(openHandles());
  } else if (typeof request === "object" && "snapshotPath" in request) {
    writeHeapSnapshot(request.snapshotPath);
    process.send?.({});
  }
  // A worker of a server under test is started alike, and hears the server's messages.
});
// Listening there must not keep the process alive.
process.channel?.unref();
