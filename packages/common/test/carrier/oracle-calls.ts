import { once } from "node:events";
import type { TestContext } from "node:test";
import { Client, Metadata } from "@grpc/grpc-js";
import type { ClientDuplexStream, ClientOptions, StatusObject } from "@grpc/grpc-js";
import { OracleClient } from "../../../../test/support/grpc-oracle.ts";
import type { OracleCall, OraclePacket } from "../../../../test/support/grpc-oracle.ts";
import type { Listening } from "./grpc-setup.ts";

export interface OracleOutcome<Message> {
  readonly messages: readonly Message[];
  readonly status: StatusObject;
  /** Names of the response's metadata to their values; none if there was only the status. */
  readonly metadata: Metadata | undefined;
}

/** What becomes of a call of grpc-js. */
export function outcomeOf<Message>(
  call: ClientDuplexStream<never, Message>,
): Promise<OracleOutcome<Message>> {
  const messages: Message[] = [];
  let metadata: Metadata | undefined;
  call.on("data", (message: Message) => messages.push(message));
  call.on("metadata", (received: Metadata) => {
    metadata = received;
  });
  call.on("error", () => undefined);
  return new Promise((resolve) => {
    call.on("status", (status: StatusObject) => {
      resolve({ messages, status, metadata });
    });
  });
}

export function packetOutcome(call: OracleCall): Promise<OracleOutcome<OraclePacket>> {
  return outcomeOf(call as unknown as ClientDuplexStream<never, OraclePacket>);
}

/** A client of grpc-js that is closed when the test ends. */
export function oracleClient(
  t: TestContext,
  { oracleAddress, oracleCredentials }: Listening,
  service: "ProxyService" | "AgentService" = "ProxyService",
  options: ClientOptions = {},
): OracleClient {
  const client = new OracleClient(service, oracleAddress, oracleCredentials, options);
  t.after(() => {
    client.close();
  });
  return client;
}

export type RawCall = ClientDuplexStream<Buffer, Buffer>;

/** Calls of grpc-js whose messages are bytes, on a connection of their own. */
export function rawCaller(
  t: TestContext,
  { oracleAddress, oracleCredentials }: Listening,
  options: ClientOptions = {},
): (path: string, metadata?: Metadata, deadlineMs?: number) => RawCall {
  const client = new Client(oracleAddress, oracleCredentials, options);
  t.after(() => {
    client.close();
  });
  const same = (bytes: Buffer) => bytes;
  return (path, metadata = new Metadata(), deadlineMs) =>
    client.makeBidiStreamRequest(
      path,
      same,
      same,
      metadata,
      deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs },
    );
}

export function rawOutcome(call: RawCall): Promise<OracleOutcome<Buffer>> {
  return outcomeOf(call as unknown as ClientDuplexStream<never, Buffer>);
}

/** Write to a call of grpc-js, waiting for it to take more where it asks for that. */
export async function writeAll<Message>(
  call: ClientDuplexStream<Message, unknown>,
  messages: Iterable<Message>,
): Promise<void> {
  for (const message of messages) if (!call.write(message)) await once(call, "drain");
}
