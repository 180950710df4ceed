/**
 * In which order `count` take their turns in a round: over 2 * `count` rounds each comes as often after any of the others
 * (E. J. Williams, "Experimental designs balanced for the estimation of residual effects of treatments", 1949).
 * Otherwise one would always come after the one that leaves most behind.
 */
export function roundOrder(count: number, round: number): number[] {
  return Array.from({ length: count }, (_, position) => {
    // 0, 1, -1, 2, -2, ...; and in every other round the other way round.
    const step = position % 2 === 0 ? -position / 2 : (position + 1) / 2;
    const turn = (round % 2 === 0 ? step : -step) + Math.floor(round / 2);
    return ((turn % count) + count) % count;
  });
}
