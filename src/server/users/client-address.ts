/** The address of a client, even if its request came through trusted proxies. */
import { type BlockList, isIP } from "node:net";
import type { ApiRequest } from "../../api/index.ts";

const FORWARDED_FOR = "x-forwarded-for";

export interface ProxySettings {
  readonly trustedProxies: BlockList;
  /** Lower-case name of the header in which the proxies send the client's address. */
  readonly peerHeader: string | undefined;
}

/**
 * Returns the client's address. An address in `peerHeader` takes precedence. If trusted proxies are
 * configured, this header is read only in requests that come from one of them.
 *
 * Without such an address, the client is the peer or, if the peer is a trusted proxy, the last
 * address in `X-Forwarded-For` that does not belong to a trusted proxy. Each proxy appends the
 * address of its peer to `X-Forwarded-For`, so earlier addresses might be forged.
 */
export function clientAddress(
  { peer, headers }: Pick<ApiRequest, "peer" | "headers">,
  { trustedProxies: proxies, peerHeader }: ProxySettings,
): string {
  if (peerHeader !== undefined && (proxies.rules.length === 0 || isTrusted(peer, proxies))) {
    const named = (headers.get(peerHeader) ?? "").trim();
    if (isIP(named) > 0) return named;
  }
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
