/** What each row of the demo's table has to look like, in order. README shows the same. */
export const DEMO_ROWS: readonly RegExp[] = [
  /^ok {4}pod request +gRPC +node-b +[\d.]+ m?s +200, "hello from the pod"$/m,
  /^ok {4}pod request +CONNECT +node-b +[\d.]+ m?s +200, "hello from the pod"$/m,
  /^ok {4}log stream +gRPC +node-a +[\d.]+ m?s +6 lines as they were written: first after \d+ ms,/m,
  /^ok {4}kubelet, TLS end to end +CONNECT +node-a +[\d.]+ m?s +200 from system:node:kubelet,/m,
  /^ok {4}impostor kubelet refused +gRPC +node-b +[\d.]+ m?s +its certificate is not signed by/m,
  /^ok {4}agent of another CA refused +- +- +[\d.]+ m?s +server: wrong CA: the client's/m,
  /^ok {4}nobody listens +CONNECT +node-a +[\d.]+ m?s +dial tcp 127\.0\.0\.1:\d+: connect: connection/m,
  /^ok {4}server killed, restarted +both +both +[\d.]+ m?s +server up after \d+ ms, both agents/m,
];
