/** Enforces the egress rules on requests. */
import { type LookupAddress, type LookupOptions, lookup as systemLookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { EgressRefusedError } from "../../http-client/index.ts";
import { normalHost } from "./egress-addresses.ts";
import type { EgressRules, EgressTarget } from "./egress-rules.ts";

/** Resolves a host to all its addresses, as `dns.lookup` does. */
export type Resolve = (
  host: string,
  options: LookupOptions & { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

const PORTS: Readonly<Record<string, number>> = { "http:": 80, "https:": 443, "socks5:": 1080 };

export class EgressGuard {
  readonly #rules: () => EgressRules;
  readonly #resolve: Resolve;

  /**
   * `rules` is called for each request, and must return the same object while the rules are
   * unchanged.
   */
  constructor(rules: () => EgressRules, resolve: Resolve = systemLookup) {
    this.#rules = rules;
    this.#resolve = resolve;
  }

  get rules(): EgressRules {
    return this.#rules();
  }

  /**
   * Throws an EgressRefusedError if the rules forbid a connection for `url`. If the request
   * connects to another server instead, such as a proxy, `viaUrl` is the URL of that server, and
   * the rules must permit both.
   */
  checkRequest(url: string, viaUrl: string | undefined): void {
    this.#check(url, viaUrl === undefined);
    if (viaUrl !== undefined) this.#check(viaUrl, true);
  }

  /** Returns a resolver for connections to `url` that yields only permitted addresses. */
  lookupFor(url: string): LookupFunction {
    const target = serverOf(url);
    return (name, options, callback) => {
      this.#resolve(name, { ...options, all: true }, (error, found) => {
        if (error !== null) return callback(error, "");
        const rules = this.#rules();
        const refusals = found.map(({ address }) => rules.refusalOfAddress(target, address));
        const [first, ...more] = found.filter((_, index) => refusals[index] === undefined);
        const refusal = refusals.find((reason) => reason !== undefined);
        if (first === undefined) {
          return callback(new EgressRefusedError(refusal ?? `${name} has no address`), "");
        }
        if (options.all) return callback(null, [first, ...more]);
        callback(null, first.address, first.family);
      });
    };
  }

  #check(url: string, isResolvedHere: boolean): void {
    const refusal = this.#rules().refusalOfHost(serverOf(url), isResolvedHere);
    if (refusal !== undefined) throw new EgressRefusedError(refusal);
  }
}

/** Host and port of a URL, normalized. */
export function serverOf(url: string): EgressTarget {
  const { hostname, port, protocol } = new URL(url);
  const bare = hostname.replace(/^\[(.*)\]$/, "$1");
  // The URL parser normalizes the host only if the scheme is http or https, not socks5.
  const host = (isIP(bare) > 0 ? normalHost(bare) : normalHost(hostname)) ?? bare;
  return { host, port: port === "" ? (PORTS[protocol] ?? 0) : Number(port) };
}
