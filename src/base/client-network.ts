/** Networks of clients, which identify clients in counters and limits. */

/** Number of leading 16-bit groups of an IPv6 address that identify its /64 network. */
const NETWORK_GROUPS = 4;
const GROUPS = 8;
/** Prefix of IPv4-mapped IPv6 addresses. */
const MAPPED_GROUPS = [0, 0, 0, 0, 0, 0xffff];

/**
 * Returns the part of an address that a client cannot change at will: its IPv4 address, or the /64
 * network of its IPv6 address. It identifies the client in counters and limits per address.
 */
export function clientNetwork(address: string): string {
  if (!address.includes(":")) return address;
  const groups = groupsOf(address);
  if (MAPPED_GROUPS.every((group, index) => groups[index] === group)) {
    return groups
      .slice(MAPPED_GROUPS.length)
      .flatMap((group) => [group >> 8, group & 0xff])
      .join(".");
  }
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${network.join(":")}::/64`;
}

function groupsOf(address: string): readonly number[] {
  const [head = [], tail] = address
    .replace(/%.*$/, "")
    .replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes: string[]) => {
      const [a = 0, b = 0, c = 0, d = 0] = bytes.map(Number);
      return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
    })
    .split("::")
    .map((part) => (part === "" ? [] : part.split(":")))
    .map((part) => part.map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return head;
  const zeros = Array.from({ length: GROUPS - head.length - tail.length }, () => 0);
  return [...head, ...zeros, ...tail];
}
