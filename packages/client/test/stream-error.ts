import { once } from "node:events";
import type { Duplex } from "node:stream";
import { ClientError } from "../src/client-error.ts";

/** The error that the stream fails with. @throws unless it is one of this library. */
export async function streamError(stream: Duplex): Promise<ClientError> {
  const [error] = (await once(stream, "error")) as [Error];
  if (!(error instanceof ClientError)) throw new Error("no error of ours", { cause: error });
  return error;
}
