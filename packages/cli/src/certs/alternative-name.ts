import { isIP } from "node:net";

/** Labels of letters, digits, `-` and `_`, the first of which may be `*`. */
const DNS_NAME =
  /^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/i;

/** Only digits and dots: no host has such a name, so it is an IP address with a typing error. */
const LOOKS_LIKE_IPV4 = /^[0-9.]+$/;

/** One entry of a certificate's subject alternative name. */
export interface AlternativeName {
  readonly kind: "dns" | "ip";
  readonly value: string;
}

/**
 * An IP address or a DNS name (with or without a leading `*.`) as it is written on a command line.
 *
 * @throws {Error} if `text` is neither.
 */
export function alternativeNameFromText(text: string): AlternativeName {
  if (isIP(text) !== 0) return { kind: "ip", value: text };
  if (text.length > 253 || LOOKS_LIKE_IPV4.test(text) || !DNS_NAME.test(text)) {
    throw new Error(`"${text}" is neither an IP address nor a DNS name`);
  }
  return { kind: "dns", value: text };
}
