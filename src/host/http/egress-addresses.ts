/** Hosts, addresses and address ranges for the egress rules. */
import { BlockList, isIP, isIPv4, isIPv6 } from "node:net";

/** Addresses with a common prefix. */
export interface AddressRange {
  readonly first: string;
  /** Length of the common prefix in bits. */
  readonly prefixLength: number;
  readonly addresses: BlockList;
}

/**
 * Normalizes a host: lower case, no brackets or trailing dot, and addresses in canonical form, even
 * if written in another notation of the URL standard (`0x7f.1`). Returns `undefined` for an invalid
 * host.
 */
export function normalHost(host: string): string | undefined {
  const isPlain = !/[:/?#@\\\s*]/.test(host);
  if (!isPlain && !isIPv6(host)) return undefined;
  try {
    const { hostname } = new URL(`http://${isPlain ? host : `[${host}]`}/`);
    return hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.+$/, "") || undefined;
  } catch {
    return undefined;
  }
}

/** Parses `address` or `address/length`; undefined for anything else. */
export function parseRange(text: string): AddressRange | undefined {
  const [first = "", length, ...more] = text.split("/");
  if (isIP(first) === 0 || first.includes("%") || more.length > 0) return undefined;
  const bitCount = isIPv4(first) ? 32 : 128;
  if (length !== undefined && !/^\d{1,3}$/.test(length)) return undefined;
  const prefixLength = length === undefined ? bitCount : Number(length);
  if (prefixLength > bitCount) return undefined;
  const addresses = new BlockList();
  addresses.addSubnet(first, prefixLength, isIPv4(first) ? "ipv4" : "ipv6");
  return { first, prefixLength, addresses };
}

/** Whether the range contains one of the addresses. */
export function hasAny({ addresses }: AddressRange, forms: readonly string[]): boolean {
  return forms.some((form) => addresses.check(form, isIPv4(form) ? "ipv4" : "ipv6"));
}

/** Whether `inner` is contained in `outer`. */
export function liesWithin(inner: AddressRange, outer: AddressRange): boolean {
  if (isIP(inner.first) !== isIP(outer.first)) return false;
  return inner.prefixLength >= outer.prefixLength && hasAny(outer, [inner.first]);
}

/** Returns the address, and the other addresses through which a packet can reach the same host. */
export function formsOf(address: string): readonly string[] {
  const bare = address.replace(/%.*$/, "");
  if (isIPv4(bare)) return bare === "0.0.0.0" ? [bare, "127.0.0.1"] : [bare];
  const groups = groupsOf(bare);
  // Packets to the unspecified address reach this machine.
  if (groups.every((group) => group === 0)) return [bare, "::1", "127.0.0.1"];
  return [bare, ...embeddedAddresses(groups).flatMap(formsOf)];
}

/**
 * IPv4 addresses embedded in an IPv6 address: mapped, compatible, translated (RFC 2765), NAT64 (RFC
 * 6052, RFC 8215), 6to4 (RFC 3056), ISATAP (RFC 5214) or Teredo (RFC 4380).
 */
function embeddedAddresses(groups: readonly number[]): readonly string[] {
  const [first, second, third, fourth, fifth, sixth, seventh, eighth] = groups as Groups;
  const last = dotted(seventh, eighth);
  if (first === 0x2002) return [dotted(second, third)];
  if (first === 0x2001 && second === 0) return [dotted(seventh ^ 0xffff, eighth ^ 0xffff)];
  if (first === 0x64 && second === 0xff9b && third <= 1) {
    // A 48-bit prefix is followed by two bytes of the IPv4 address, a zero byte, and the other two
    // bytes (RFC 6052).
    const around = ((fifth & 255) << 8) | (sixth >> 8);
    return third === 0 ? [last] : [last, dotted(fourth, around)];
  }
  if ((fifth & 0xfdff) === 0 && sixth === 0x5efe) return [last];
  const isLow = [first, second, third, fourth].every((group) => group === 0);
  const isMapped = fifth === 0 && sixth === 0xffff;
  const isCompatible = fifth === 0 && sixth === 0 && seventh !== 0;
  const isTranslated = fifth === 0xffff && sixth === 0;
  return isLow && (isMapped || isCompatible || isTranslated) ? [last] : [];
}

type Groups = [number, number, number, number, number, number, number, number];

function dotted(high: number, low: number): string {
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

/** The eight 16-bit groups of an IPv6 address. */
function groupsOf(address: string): readonly number[] {
  // The URL parser converts dotted notation to groups.
  const plain = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = [], tail = []] = plain
    .split("::")
    .map((part) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16))));
  return [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}
