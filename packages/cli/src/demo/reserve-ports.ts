import { once } from "node:events";
import { createServer } from "node:net";
import type { Server } from "node:net";
import type { Random } from "@reachback/common";
import { LOOPBACK } from "./loopback.ts";

/** Ports for one demo, which no other demo takes until they are released. */
export interface ReservedPorts {
  readonly ports: readonly number[];
  readonly release: () => void;
}

/**
 * Where to look. Below it are the ports of well-known services; above it, from 32768 on Linux, those
 * that systems give to outgoing connections, which could take one between our look and its use.
 */
const FIRST_PORT = 20_000;
const LAST_PORT = 31_999;

/** Blocks are the same for everyone, or those of different callers would overlap unseen. */
const BLOCK_SIZE = 32;
const MAX_PORTS = BLOCK_SIZE - 1;

/**
 * Reserve ports on loopback that nobody listens on: a block of neighbours, with a listener on the
 * one before them for as long as they are reserved. Other demos find it, and leave the block alone.
 *
 * @param count - 31 at most.
 */
export async function reservePorts(count: number, random: Random): Promise<ReservedPorts> {
  if (count > MAX_PORTS) throw new RangeError(`${count} ports, where a block has ${MAX_PORTS}`);
  const blockCount = Math.floor((LAST_PORT - FIRST_PORT + 1) / BLOCK_SIZE);
  const start = Math.floor(random.fraction() * blockCount);
  for (let i = 0; i < blockCount; i++) {
    const lockPort = FIRST_PORT + ((start + i) % blockCount) * BLOCK_SIZE;
    const lock = await tryToListen(lockPort);
    if (lock === undefined) continue;
    const ports = Array.from({ length: count }, (_, offset) => lockPort + 1 + offset);
    if (await areFree(ports)) return { ports, release: () => lock.close() };
    lock.close();
  }
  throw new Error(`no ${count} free ports in a row from ${FIRST_PORT} to ${LAST_PORT}`);
}

async function areFree(ports: readonly number[]): Promise<boolean> {
  const servers = await Promise.all(ports.map(tryToListen));
  for (const server of servers) server?.close();
  return servers.every((server) => server !== undefined);
}

async function tryToListen(port: number): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  server.listen({ port, host: LOOPBACK });
  try {
    await once(server, "listening");
    return server;
  } catch {
    return undefined;
  }
}
