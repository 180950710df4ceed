import { systemErrorText } from "../system-error-text.ts";

/**
 * A listener that could not be opened, in the words of upstream's frontend and agent listeners:
 * `failed to run the health server: failed to listen on :8092: listen tcp :8092: bind: address
 * already in use`.
 *
 * @param listener - e.g. `health server`.
 * @param address - host and port as Go joins them, nothing before the colon for all interfaces.
 */
export function listenError(listener: string, address: string, cause: unknown): Error {
  const error = cause as NodeJS.ErrnoException;
  const isLookup = error.syscall === "getaddrinfo";
  const reason = isLookup
    ? `listen tcp: lookup ${address.slice(0, address.lastIndexOf(":"))}: no such host`
    : `listen tcp ${address}: bind: ${systemErrorText(error)}`;
  return new Error(`failed to run the ${listener}: failed to listen on ${address}: ${reason}`, {
    cause,
  });
}
