/**
 * Most bytes of a connection that are passed on as one: a read, a packet, a connection's turn.
 *
 * With the heads of its packet and frame (some 40 bytes) and of its TLS records (22 each) it leaves in one
 * write that the kernel sends as two segments, each of which holds 65,160 bytes (45 of 1,448) on Ethernet and
 * 65,483 on loopback. The rest of a longer one is a segment of its own, and where TCP paces what it sends
 * (BBR), the kernel sets a timer for each that follows another at once. Half of this, two of them in a write, takes
 * a twentieth more CPU per GiB.
 */
export const PIECE_BYTES = 126 * 1024;

/**
 * The most in one packet for a peer that may be an upstream program: 16 to 64 KiB are known to be fine for all of
 * them, and some keep up to 150 packets of a connection that nobody reads.
 */
export const UPSTREAM_PIECE_BYTES = 63 * 1024;
