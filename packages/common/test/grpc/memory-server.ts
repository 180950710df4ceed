import type { TestContext } from "node:test";
import { ManualClock } from "@reachback/common/testing";
import { GrpcServer } from "../../src/grpc/grpc-server.ts";
import type { GrpcServices } from "../../src/grpc/grpc-service.ts";
import type { HeaderList } from "../../src/hpack/header-list.ts";
import { CLIENT_PREFACE, FrameFlag, FrameType } from "../../src/http2/frame.ts";
import { LIMITS } from "../carrier/grpc-setup.ts";
import { RawPeer } from "../http2/raw-peer.ts";

export const KEEPALIVE = { intervalMs: 30_000, timeoutMs: 10_000 };
export const FIRST_REQUEST_TIMEOUT_MS = 5_000;

export interface MemoryServer {
  readonly server: GrpcServer;
  readonly clock: ManualClock;
  /** Connect one more client, which has said nothing yet. */
  readonly connect: () => RawPeer;
  /** Connect one that has exchanged prefaces. */
  readonly connectEstablished: () => Promise<RawPeer>;
}

/** A gRPC server on sockets in memory and a clock that stands still. */
export function memoryServer(t: TestContext, services: GrpcServices): MemoryServer {
  const clock = new ManualClock();
  const server = new GrpcServer(
    {
      services,
      limits: LIMITS,
      keepalive: KEEPALIVE,
      firstRequestTimeoutMs: FIRST_REQUEST_TIMEOUT_MS,
    },
    clock,
  );
  t.after(() => {
    server.destroy();
  });
  const connect = () => {
    const peer = new RawPeer("client");
    server.accept(peer.socket.asSocket);
    return peer;
  };
  return {
    server,
    clock,
    connect,
    async connectEstablished() {
      const peer = connect();
      peer.socket.receive(CLIENT_PREFACE);
      peer.sendSettings();
      peer.send(FrameType.SETTINGS, FrameFlag.ACK, 0);
      await peer.frames();
      return peer;
    },
  };
}

/** The request headers of a call, in the order of Go's clients. */
export function callHeaders(path: string, metadata: HeaderList = []): HeaderList {
  return [
    [":method", "POST"],
    [":scheme", "http"],
    [":path", path],
    [":authority", "localhost"],
    ["content-type", "application/grpc"],
    ["user-agent", "grpc-go/1.83.0"],
    ["te", "trailers"],
    ...metadata,
  ];
}

/** A gRPC message: flag, length, bytes. */
export function grpcMessage(bytes: Uint8Array, compressed = 0): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(compressed, 0);
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

/** The message of a DATA packet for connection 1. */
export function dataMessage(payload: Uint8Array): Buffer {
  const length = varint(payload.length);
  const inner = Buffer.concat([Buffer.from("08011a", "hex"), length, payload]);
  return Buffer.concat([Buffer.from("080422", "hex"), varint(inner.length), inner]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest & 0x7f) | 0x80);
    rest >>>= 7;
  }
  return Buffer.from([...bytes, rest]);
}

/** The message of a DRAIN packet. */
export const DRAIN_MESSAGE = Buffer.from("08064200", "hex");
