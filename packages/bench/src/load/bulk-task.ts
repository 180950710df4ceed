import { ByteSource } from "../endpoint/byte-source.ts";
import { acknowledgedBytes, encodeRequest } from "../endpoint/endpoint-request.ts";
import type { LoadConnection } from "./load-connection.ts";
import type { OpenTask, TaskResult, TaskSpec } from "./load-task.ts";
import { openConnections } from "./open-connections.ts";

type Result = TaskResult<"bulk">;

export async function openBulk(spec: TaskSpec<"bulk">): Promise<OpenTask<Result>> {
  const connections = await openConnections(spec.route, spec.connections);
  return {
    run: () => runBulk(spec, connections),
    close: () => {
      for (const connection of connections) connection.destroy();
    },
  };
}

/** One connection's share of the bytes. */
interface Share {
  start(): void;
  /** Bytes known to have arrived. */
  arrivedBytes(): number;
}

function runBulk(spec: TaskSpec<"bulk">, connections: readonly LoadConnection[]): Promise<Result> {
  const shareBytes = Math.ceil(spec.byteCount / connections.length);
  const toShare = spec.direction === "download" ? downloadShare : uploadShare;
  return new Promise((resolve, reject) => {
    let unfinished = connections.length;
    const onFinished = () => {
      if (--unfinished === 0) finish();
    };
    const finish = () => {
      clearTimeout(limit);
      const seconds = (performance.now() - startedAtMs) / 1000;
      for (const connection of connections) connection.destroy();
      const byteCount = shares.reduce((sum, share) => sum + share.arrivedBytes(), 0);
      resolve({ byteCount, seconds });
    };
    const shares = connections.map((connection) =>
      toShare(connection, shareBytes, onFinished, (reason) => {
        clearTimeout(limit);
        reject(new Error(`lost in the middle of a ${spec.direction}: ${reason}`));
      }),
    );
    const limit = setTimeout(finish, spec.limitMs);
    const startedAtMs = performance.now();
    for (const share of shares) share.start();
  });
}

function downloadShare(
  connection: LoadConnection,
  byteCount: number,
  onFinished: () => void,
  onLost: (reason: string) => void,
): Share {
  let arrivedBytes = 0;
  connection.handler = {
    received: (count) => {
      arrivedBytes += count;
      if (arrivedBytes === byteCount) onFinished();
    },
    closed: (reason) => {
      if (arrivedBytes < byteCount) onLost(reason);
    },
  };
  return {
    start: () => connection.send(encodeRequest({ service: "source", byteCount })),
    arrivedBytes: () => arrivedBytes,
  };
}

function uploadShare(
  connection: LoadConnection,
  byteCount: number,
  onFinished: () => void,
  onLost: (reason: string) => void,
): Share {
  let ackCount = 0;
  const arrivedBytes = () => acknowledgedBytes(ackCount, byteCount);
  const source = new ByteSource(byteCount, (bytes) => connection.send(bytes));
  connection.handler = {
    received: (count) => {
      ackCount += count;
      if (arrivedBytes() === byteCount) onFinished();
    },
    room: () => {
      source.pump();
    },
    closed: (reason) => {
      if (arrivedBytes() < byteCount) onLost(reason);
    },
  };
  return {
    start: () => {
      connection.send(encodeRequest({ service: "sink", byteCount }));
      source.pump();
    },
    arrivedBytes,
  };
}
