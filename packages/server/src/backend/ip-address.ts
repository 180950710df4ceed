import { isIPv4, isIPv6 } from "node:net";

/** An address as a number, so that all ways to write it are one. */
export interface IpAddress {
  readonly family: 4 | 6;
  readonly value: bigint;
}

/** The addresses that begin with the first `length` bits of {@link address}. */
export interface IpPrefix {
  readonly address: IpAddress;
  readonly length: number;
}

const BITS = { 4: 32, 6: 128 } as const;

/** `::ffff:0:0/96`, where IPv6 keeps IPv4 (RFC 4291, 2.5.5.2). */
const MAPPED_BITS = 96;
const MAPPED = 0xffffn;

/**
 * Read an address. An IPv4 address mapped into IPv6 is the IPv4 address.
 *
 * @returns `undefined` for anything else, an address with a zone (`fe80::1%eth0`) included: it means
 * something on one machine only.
 */
export function parseIpAddress(text: string): IpAddress | undefined {
  if (isIPv4(text)) return { family: 4, value: valueOfIpv4(text) };
  if (!isIPv6(text) || text.includes("%")) return undefined;
  const value = valueOfIpv6(text);
  return value >> 32n === MAPPED
    ? { family: 4, value: value & 0xffff_ffffn }
    : { family: 6, value };
}

/** The address as the prefix that only it has. */
export function wholePrefix(address: IpAddress): IpPrefix {
  return { address, length: BITS[address.family] };
}

/**
 * Read `10.0.0.0/8` or `fd00::/8`. As in Go, bits behind the prefix do not matter.
 *
 * @returns `undefined` for anything else.
 */
export function parseIpPrefix(text: string): IpPrefix | undefined {
  const [, host = "", digits = ""] = /^(.+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? [];
  const address = parseIpAddress(host);
  if (address === undefined) return undefined;
  const isMapped = address.family === 4 && host.includes(":");
  const length = Number(digits) - (isMapped ? MAPPED_BITS : 0);
  return length >= 0 && length <= BITS[address.family] ? { address, length } : undefined;
}

/** The first `length` bits of an address, as a number. */
export function leadingBits({ family, value }: IpAddress, length: number): bigint {
  return value >> BigInt(BITS[family] - length);
}

function valueOfIpv4(text: string): bigint {
  return text.split(".").reduce((value, part) => (value << 8n) | BigInt(part), 0n);
}

function valueOfIpv6(text: string): bigint {
  // The last 32 bits may be written as IPv4.
  const lastColon = text.lastIndexOf(":");
  const tail = text.slice(lastColon + 1);
  const groups = tail.includes(".")
    ? `${text.slice(0, lastColon + 1)}${hexGroups(valueOfIpv4(tail))}`
    : text;
  const [head = "", rest] = groups.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = rest === undefined || rest === "" ? [] : rest.split(":");
  const zeros = Array.from({ length: 8 - left.length - right.length }, () => "0");
  return [...left, ...zeros, ...right].reduce(
    (value, group) => (value << 16n) | BigInt(`0x${group}`),
    0n,
  );
}

function hexGroups(ipv4: bigint): string {
  return `${(ipv4 >> 16n).toString(16)}:${(ipv4 & 0xffffn).toString(16)}`;
}
