import { MAX_PROFILE_SECONDS } from "@reachback/common";
import type { Http2Limits, SocketEndLimits } from "@reachback/common";

// Every bound of the server that is not a flag. LIMITS.md says what happens when one is reached.

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * HTTP/2 towards agents. The stream's window is what an upstream peer may have under way: 16 MiB carry
 * 300 MB/s over 50 ms. Ours are given as much as the connection's window, because credit bounds them; that window
 * is given back as bytes arrive, and bounds no memory. Frames hold a whole DATA packet of 126 KiB, the largest
 * that PROTOCOL.md has, with its head. With 256 KiB that may wait the sources of eight connections stopped and went
 * on all the time: a twentieth more CPU for uploads, when pieces were half as large.
 */
export const AGENT_HTTP2: Http2Limits = {
  streamWindowBytes: 16 * MIB,
  connectionWindowBytes: 1024 * MIB,
  maxFrameBytes: 128 * KIB,
  maxStreams: 100,
  maxHeaderListBytes: 64 * KIB,
  writeHighWaterBytes: 576 * KIB,
};

/** HTTP/2 towards frontends: many streams, each paced on its own. */
export const FRONTEND_HTTP2: Http2Limits = {
  streamWindowBytes: 1 * MIB,
  connectionWindowBytes: 16 * MIB,
  maxFrameBytes: 128 * KIB,
  maxStreams: 16_384,
  maxHeaderListBytes: 64 * KIB,
  writeHighWaterBytes: 256 * KIB,
};

/**
 * What may wait for a peer that asks for answers without end, and does not read them. An answer takes ten times the
 * memory of its 14 bytes.
 */
export const UNREAD_ANSWERS_BYTES = 4 * MIB;

/** HTTP/2 between workers, a stream for each dial that is handed over. There is no way to bridge. */
export const NEIGHBOUR_HTTP2: Http2Limits = { ...FRONTEND_HTTP2, streamWindowBytes: 256 * KIB };

/** What waits at a worker for the client of a dial that it has handed over, before its stream waits. */
export const HANDED_QUEUE_BYTES = 64 * KIB;

/** To connect to another worker. */
export const NEIGHBOUR_CONNECT_TIMEOUT_MS = 2_000;

/** For a worker's answer to the primary; what it said last counts then. */
export const WORKER_ANSWER_TIMEOUT_MS = 2_000;

/** The same for a profile: the longest recording, and time to write down every object of a large heap. */
export const WORKER_PROFILE_TIMEOUT_MS = (MAX_PROFILE_SECONDS + 60) * 1_000;

/** Between questions to a worker how it does. */
export const WORKER_CHECK_INTERVAL_MS = 5_000;

/**
 * A worker that has answered nothing for so long is replaced, as kubelet restarts a server that is
 * alone and mute. It may be garbage collection or a profile, so that it is much.
 */
export const WORKER_MUTE_MS = 30_000;

/** From the start of a worker to its being ready. */
export const WORKER_START_TIMEOUT_MS = 30_000;

/** Before a worker that has died is replaced: the first wait, and the longest. */
export const WORKER_RESTART = { initialMs: 100, capMs: 10_000, factor: 2, jitter: 0.1 };

/** A worker that has lived so long died of something new. */
export const WORKER_SETTLED_MS = 60_000;

/** For a worker to end whatever it has open and itself; then it is killed. */
export const WORKER_END_TIMEOUT_MS = 8_000;

/** Accepted sockets that wait for one worker to take them; beyond, others get them. */
export const WORKER_MAX_WAITING_SOCKETS = 512;

/** Messages that wait for one worker; one that leaves as many unread is replaced. */
export const WORKER_MAX_WAITING_MESSAGES = 65_536;

/** Log lines of a worker that wait for the primary; beyond, they are dropped and counted. */
export const WORKER_MAX_WAITING_LINES = 4_096;

/** More workers than this help nobody. */
export const MAX_WORKERS = 64;

/** Sockets of CONNECT clients. */
export const CONNECT_SOCKET: SocketEndLimits = { closeStallMs: 10_000 };

/**
 * For a peer to take anything of what waits here for it: an endpoint once one side has finished or
 * left, the client of a gRPC stream once nothing of it is open. Longer than `--half-close-timeout` and
 * {@link CONNECT_SOCKET}, because a slow one is heard of only now and then: credit and windows come
 * back in large steps.
 */
export const STUCK_MS = 60_000;

/**
 * Longest address of a dial, in characters; beyond: refused here. Many times what a name may have,
 * and far below the 4 MiB message that would cost an agent its tunnel.
 */
export const MAX_ADDRESS_LENGTH = 64 * KIB;

/** Go's limit, 1 MiB and 4 KiB of slack. */
export const MAX_CONNECT_HEAD_BYTES = 1 * MIB + 4 * KIB;

/** From accept, or the answer before, to a whole HTTP request head; also upstream's. */
export const HEAD_TIMEOUT_MS = 60_000;

/** From accept to the first gRPC call on an HTTP/2 connection. */
export const FIRST_REQUEST_TIMEOUT_MS = 60_000;

export const TLS_HANDSHAKE_TIMEOUT_MS = 20_000;

/** For a gRPC frontend's answer to a keepalive ping; gRPC's default. */
export const FRONTEND_KEEPALIVE_TIMEOUT_MS = 20_000;

/** How long the last bytes of a refused HTTP request may take to leave. */
export const REFUSAL_LINGER_MS = 5_000;

/** How long sockets may take to get rid of their last bytes when the server stops. */
export const STOP_LINGER_MS = 2_000;
