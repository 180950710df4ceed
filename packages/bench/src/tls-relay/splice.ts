import type { Duplex } from "node:stream";

/** Carry everything both ways between two streams, ends included; if one breaks, so does the other. */
export function splice(a: Duplex, b: Duplex): void {
  a.pipe(b);
  b.pipe(a);
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    from.on("error", () => {
      to.destroy();
    });
  }
}
