import { ByteSource } from "../endpoint/byte-source.ts";
import { encodeRequest } from "../endpoint/endpoint-request.ts";
import type { LoadConnection } from "./load-connection.ts";
import type { OpenTask, TaskResult, TaskSpec } from "./load-task.ts";
import { openConnections } from "./open-connections.ts";

/** More than anyone buffers. */
const ENDLESS_BYTES = 2 ** 50;

/** How long it takes, on loopback, until everything on the way is full. */
const FILL_MS = 300;

export async function openStall(spec: TaskSpec<"stall">): Promise<OpenTask<TaskResult<"stall">>> {
  const [connection] = await openConnections(spec.route, 1);
  if (connection === undefined) throw new Error("no connection");
  let isOpen = true;
  const onClosed = () => {
    isOpen = false;
  };
  return {
    run: async () => {
      if (spec.direction === "download") stallDownload(connection, onClosed);
      else stallUpload(connection, onClosed);
      await new Promise((resolve) => setTimeout(resolve, FILL_MS));
      return { isOpen };
    },
    close: () => {
      connection.destroy();
    },
  };
}

function stallDownload(connection: LoadConnection, closed: () => void): void {
  connection.handler = {
    received: () => {
      connection.stopReading();
    },
    closed,
  };
  connection.send(encodeRequest({ service: "source", byteCount: ENDLESS_BYTES }));
}

function stallUpload(connection: LoadConnection, closed: () => void): void {
  const source = new ByteSource(ENDLESS_BYTES, (bytes) => connection.send(bytes));
  connection.handler = {
    received: () => undefined,
    room: () => {
      source.pump();
    },
    closed,
  };
  connection.send(encodeRequest({ service: "stall", byteCount: 0 }));
  source.pump();
}
