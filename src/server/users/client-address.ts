/** The address of the client whose request came through trusted proxies. */
import { type BlockList, isIP } from "node:net";
import type { ApiRequest } from "../../api/index.ts";

const FORWARDED_FOR = "x-forwarded-for";

/**
 * Returns the last address that does not belong to a trusted proxy. Each proxy appends the address
 * of its peer; earlier addresses may be forged by the client.
 */
export function clientAddress({ peer, headers }: ApiRequest, proxies: BlockList): string {
  let client = peer;
  const forwarded = (headers.get(FORWARDED_FOR) ?? "").split(",").filter((item) => item.trim());
  while (isTrusted(client, proxies)) {
    const before = addressOf(forwarded.pop() ?? "");
    if (isIP(before) === 0) return client;
    client = before;
  }
  return client;
}

function isTrusted(address: string, proxies: BlockList): boolean {
  const version = isIP(address);
  return version !== 0 && proxies.check(address, version === 4 ? "ipv4" : "ipv6");
}

/** Removes the port that some proxies add. */
function addressOf(text: string): string {
  const trimmed = text.trim();
  const [, bracketed, plain] = /^\[(.*)\](?::\d+)?$|^([\d.]+):\d+$/.exec(trimmed) ?? [];
  return bracketed ?? plain ?? trimmed;
}
