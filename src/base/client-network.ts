/** Bits of an IPv6 address that a client chooses freely: all below a network of 64. */
const NETWORK_GROUPS = 4;

/**
 * Returns what one client cannot change at will: its IPv4 address, or the network of its IPv6 address. Whatever is counted or
 * limited by address is counted by this.
 */
export function clientNetwork(address: string): string {
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? [];
  if (mapped !== undefined) return mapped;
  if (!address.includes(":") || address.includes(".")) return address;
  const [head = "", tail] = address.toLowerCase().split("::");
  const groups = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const gap = 8 - groups.length - after.length;
  const zeros = Array.from({ length: tail === undefined ? 0 : gap }, () => "0");
  const network = [...groups, ...zeros, ...after].slice(0, NETWORK_GROUPS);
  return `${network.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}
