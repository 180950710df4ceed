// Preloaded into a process under test, which was started with a channel: answers what is asked about
// its inside. Workers of a server that is under test are started alike, but by that.

import { writeHeapSnapshot } from "node:v8";
import { openHandles } from "./handles.ts";

/** To be answered with the handles, or with nothing once the heap is in that file. */
export type ProbeRequest = "handles" | { readonly snapshotPath: string };

const soakPid = new URL(import.meta.url).searchParams.get("soak");

if (process.ppid === Number(soakPid)) {
  process.on("message", (request: ProbeRequest) => {
    if (request === "handles") {
      process.send?.(openHandles());
    } else {
      writeHeapSnapshot(request.snapshotPath);
      process.send?.({});
    }
  });
  // Listening there must not keep the process alive.
  process.channel?.unref();
}
