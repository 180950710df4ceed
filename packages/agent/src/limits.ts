import type { Http2Limits, SocketEndLimits } from "@reachback/common";

// Every bound of the agent that is not a flag. LIMITS.md says what happens when one is reached.

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * HTTP/2 towards servers. The windows are what a tunnel may have under way: 16 MiB carry 300 MB/s
 * over 50 ms. Frames hold a whole DATA packet of 64 KiB with its head.
 */
export const SERVER_HTTP2: Http2Limits = {
  streamWindowBytes: 16 * MIB,
  connectionWindowBytes: 16 * MIB,
  maxFrameBytes: 65 * KIB,
  maxStreams: 1,
  maxHeaderListBytes: 64 * KIB,
  writeHighWaterBytes: 256 * KIB,
};

/** Sockets to endpoints. */
export const ENDPOINT_SOCKET: SocketEndLimits = {
  writeHighWaterBytes: 256 * KIB,
  closeStallMs: 10_000,
};

/**
 * Bytes that endpoints of one tunnel may have left to take while their connections are being closed,
 * before the server has to wait for them.
 */
export const MAX_QUEUED_BYTES = 32 * MIB;

/** For an endpoint to be reached, look-up included; also upstream's. */
export const ENDPOINT_DIAL_TIMEOUT_MS = 5_000;

/** What one address of an endpoint has before its next one is tried as well (RFC 8305). */
export const NEXT_ADDRESS_MS = 250;

/** Names that are looked up at a time; each takes a UDP socket and some 20 KiB. */
export const MAX_LOOKUPS = 64;

/** For a server to be reached: look-up, TCP and TLS together. */
export const SERVER_CONNECT_TIMEOUT_MS = 10_000;

/** From there to the server's answer to `Connect`; upstream waits for ever. */
export const SERVER_ANSWER_TIMEOUT_MS = 10_000;

/**
 * The same where a token identifies the agent: a server that has it reviewed holds the call back, up
 * to 30 s (`--token-review-timeout`) when the apiserver is slow or many agents come at once, and then
 * says what is wrong.
 */
export const TOKEN_ANSWER_TIMEOUT_MS = 45_000;

/** gRPC clients do not ping more often, whatever they are told; Go servers would take offence. */
export const MIN_KEEPALIVE_MS = 10_000;

/** For the answer to a keepalive ping; gRPC's default. */
export const KEEPALIVE_TIMEOUT_MS = 20_000;

/** From the end of a tunnel, by either side, until its socket must be closed. */
export const TUNNEL_LINGER_MS = 2_000;
