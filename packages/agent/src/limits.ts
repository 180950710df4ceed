import type { Http2Limits, SocketEndLimits } from "@reachback/common";

// Every bound of the agent that is not a flag. LIMITS.md says what happens when one is reached.

const KIB = 1024;
const MIB = 1024 * KIB;

/**
 * HTTP/2 towards servers. The stream's window is what an upstream peer may have under way: 16 MiB carry
 * 300 MB/s over 50 ms. Ours are given as much as the connection's window, because credit bounds them; that window
 * is given back as bytes arrive, and bounds no memory. Frames hold a whole DATA packet of 126 KiB, the largest
 * that PROTOCOL.md has, with its head.
 */
export const SERVER_HTTP2: Http2Limits = {
  streamWindowBytes: 16 * MIB,
  connectionWindowBytes: 1024 * MIB,
  maxFrameBytes: 128 * KIB,
  maxStreams: 1,
  maxHeaderListBytes: 64 * KIB,
  writeHighWaterBytes: 256 * KIB,
};

/** Sockets to endpoints. */
export const ENDPOINT_SOCKET: SocketEndLimits = { closeStallMs: 10_000 };

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

/** Attempts to open a tunnel at one place, at a time, that are not slow yet. */
export const MAX_FRESH_ATTEMPTS = 3;

/** Further ones, which are. */
export const MAX_SLOW_ATTEMPTS = 2;

/**
 * When an attempt is slow. With 10 s for each step and two slow ones at a time, a server that has
 * been out of reach is tried every 3.3 s even if every attempt hangs.
 */
export const SLOW_ATTEMPT_MS = 3_300;

/** Servers that an attempt names as not wanted: 1.1 KiB of its first words. */
export const MAX_EXCEPTED_SERVERS = 32;

/** TLS handshakes at one place, at a time: attempts beyond are connected, and wait for their turn. */
export const MAX_HANDSHAKES = 3;

/** When a handshake, with the server's answer, is slow, so that the next one need not wait for it. */
export const SLOW_HANDSHAKE_MS = 1_000;

/** Addresses of servers that are found in DNS; what is beyond is left alone. */
export const MAX_SERVER_ADDRESSES = 64;

/** For a name to be looked up before the attempt counts as failed. */
export const SERVER_LOOKUP_TIMEOUT_MS = 5_000;

/** Pause before a name is looked up again because a server could not be reached. */
export const SUSPECT_LOOKUP_MS = 1_000;

/** What a tunnel that is not wanted any more has for dials that are on their way, before it is closed. */
export const SURPLUS_LINGER_MS = 1_000;

/** gRPC clients do not ping more often, whatever they are told. */
export const MIN_KEEPALIVE_MS = 10_000;

/**
 * Upstream's servers allow a ping every 30 s and take the third that is early for an attack. Pings
 * that were sent 30 s apart may arrive closer together.
 */
export const UPSTREAM_MIN_KEEPALIVE_MS = 35_000;

/** For an upstream server's answer to a keepalive ping; gRPC's default. */
export const UPSTREAM_MIN_KEEPALIVE_TIMEOUT_MS = 20_000;

/** From the end of a tunnel, by either side, until its socket must be closed. */
export const TUNNEL_LINGER_MS = 2_000;
