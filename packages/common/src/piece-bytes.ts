/**
 * Most bytes of a connection that are passed on as one: a read, a packet, a connection's turn.
 *
 * With the heads of its packet and frame (some 40 bytes) and of its TLS records (22 each) it leaves in one
 * write that the kernel sends as one segment, which holds 65,160 bytes (45 of 1,448) on Ethernet and 65,483
 * on loopback. The rest of a longer one is a segment of its own, and where TCP paces what it sends
 * (BBR), the kernel sets a timer for each that follows another at once: an eighth of the CPU of a bulk
 * transfer. Without pacing, writes of this size cost no more than larger ones.
 */
export const PIECE_BYTES = 63 * 1024;
