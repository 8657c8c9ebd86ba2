/** `[tandem] trusted_proxies`: proxies whose `X-Forwarded-For` is trusted. */
import { BlockList, isIP } from "node:net";

/** Parses addresses and ranges such as `10.0.0.0/8`. `wrong` is the first invalid item. */
export function parseProxies(items: readonly string[]): BlockList | { readonly wrong: string } {
  const proxies = new BlockList();
  for (const item of items) {
    const [address = "", prefix, ...rest] = item.split("/");
    const version = isIP(address);
    const bitCount = version === 4 ? 32 : 128;
    const isPrefix = prefix === undefined || (/^\d{1,3}$/.test(prefix) && +prefix <= bitCount);
    if (version === 0 || !isPrefix || rest.length > 0) return { wrong: item };
    proxies.addSubnet(address, Number(prefix ?? bitCount), version === 4 ? "ipv4" : "ipv6");
  }
  return proxies;
}
