/**
 * Egress rules: the servers to which a node is allowed to connect (`[replicator.egress]`). A rule
 * specifies hosts or addresses, and optionally a port.
 *
 * Rules are applied to the host's name before resolution, and to each resolved address. Connections
 * go only to an address that was checked (`egress-guard.ts`).
 */
import { isIP } from "node:net";
import {
  type AddressRange,
  formsOf,
  hasAny,
  liesWithin,
  normalHost,
  parseRange,
} from "./egress-addresses.ts";

/** A rule, as text and in parsed form. */
export interface EgressRule {
  readonly text: string;
  /** Port to which the rule is limited; undefined for any port. */
  readonly port: number | undefined;
  readonly hosts: RuleHosts;
}

type RuleHosts =
  | { readonly kind: "all" }
  /** Subdomains of a domain; `end` includes the leading dot (`.example.com`). */
  | { readonly kind: "domain"; readonly end: string }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "range"; readonly range: AddressRange };

/** Destination of a connection. `host` is a name or address as returned by `normalHost`. */
export interface EgressTarget {
  readonly host: string;
  readonly port: number;
}

/** Describes valid rules in error messages. */
export const EGRESS_RULE_FORMS =
  "names (example.com, *.example.com), addresses and ranges (10.0.0.1, 10.0.0.0/8, fd00::/8) or *, with or without a port " +
  "(example.com:443, 10.0.0.0/8:5984, [::1]:5984, *:6984)";

/** Link-local networks, and other addresses where clouds serve machine credentials. */
const DEFAULT_DENY: readonly EgressRule[] = [
  "169.254.0.0/16",
  "fe80::/10",
  "fd00:ec2::254",
  "fd00:ec2::23",
  "fd20:ce::254",
  "fd00:c1::a9fe:a9fe",
  "fd00:42::42",
  "100.100.100.200",
  "168.63.129.16",
  "192.0.0.192",
  "metadata.google.internal",
  "metadata.goog",
].flatMap((text) => parseEgressRule(text) ?? []);

/** Parses a rule. Returns `undefined` if the text is invalid. */
export function parseEgressRule(text: string): EgressRule | undefined {
  const { host, portText } = splitPort(text);
  const port = portText === undefined ? undefined : Number(portText);
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined;
  const hosts = parseHosts(host);
  return hosts && { text, port, hosts };
}

/** Splits off the port. IPv6 addresses and ranges with a port must be in brackets. */
function splitPort(text: string): { readonly host: string; readonly portText?: string } {
  const bracketed = /^\[([^[\]]*:[^[\]]*)\](?::(\d{1,5}))?$/.exec(text);
  const plain = /^([^:[\]]*)(?::(\d{1,5}))?$/.exec(text);
  const [, host = text, portText] = bracketed ?? plain ?? [];
  return portText === undefined ? { host } : { host, portText };
}

function parseHosts(host: string): RuleHosts | undefined {
  if (host === "*") return { kind: "all" };
  const name = normalHost(host.replace(/^\*\./, ""));
  if (host.startsWith("*.")) {
    return name === undefined || isIP(name) > 0 ? undefined : { kind: "domain", end: `.${name}` };
  }
  const range = parseRange(host) ?? parseRange(name ?? "");
  if (range !== undefined) return { kind: "range", range };
  return name === undefined ? undefined : { kind: "name", name };
}

/** Maximum number of cached results. */
const REMEMBERED_MAX = 1000;

export class EgressRules {
  readonly #allow: readonly EgressRule[];
  readonly #deny: readonly EgressRule[];
  /** Cached results by host, port and address, because comparing ranges is slow. */
  readonly #judged = new Map<string, string | undefined>();

  /** An empty `allow` permits everything that is not denied. `deny` takes precedence. */
  constructor(allow: readonly EgressRule[], deny: readonly EgressRule[]) {
    this.#allow = allow;
    this.#deny = deny;
  }

  /**
   * Returns the reason why the rules refuse a host by its name (or literal address), or
   * `undefined`. If a proxy resolves the name (`isResolvedHere` is false), a name that matches no
   * rule is refused. Otherwise it is not refused yet if `allow` has ranges, because its addresses
   * are checked against them later.
   */
  refusalOfHost(target: EgressTarget, isResolvedHere: boolean): string | undefined {
    const { host, port } = target;
    if (isIP(host) > 0) return this.refusalOfAddress(target, host);
    const denial = this.#denial(target, []);
    if (denial !== undefined) return `the host ${host} is denied by ${denial}`;
    const mayBeAllowed = isResolvedHere && this.#allow.some(({ hosts }) => hosts.kind === "range");
    if (mayBeAllowed || this.#isAllowed(target, [])) return undefined;
    return `the host ${host} with port ${port} matches no rule of [replicator.egress] allow`;
  }

  /**
   * Returns the reason why the rules refuse an address of a host, or `undefined` if they do not.
   */
  refusalOfAddress(target: EgressTarget, address: string): string | undefined {
    const name = `${target.host} ${target.port} ${address}`;
    if (this.#judged.has(name)) return this.#judged.get(name);
    if (this.#judged.size >= REMEMBERED_MAX) this.#judged.clear();
    const refusal = this.#judge(target, address);
    this.#judged.set(name, refusal);
    return refusal;
  }

  #judge(target: EgressTarget, address: string): string | undefined {
    const { host, port } = target;
    const shown =
      host === address ? `the address ${host}` : `the address ${address} of host ${host}`;
    const forms = formsOf(address);
    const denial = this.#denial(target, forms);
    if (denial !== undefined) return `${shown} is denied by ${denial}`;
    if (this.#isAllowed(target, forms)) return undefined;
    return `${shown} with port ${port} matches no rule of [replicator.egress] allow`;
  }

  #denial(target: EgressTarget, forms: readonly string[]): string | undefined {
    const rule = this.#deny.find((deny) => matches(deny, target, forms));
    if (rule !== undefined) return `the rule "${rule.text}" of [replicator.egress] deny`;
    const byDefault = DEFAULT_DENY.find((deny) => matches(deny, target, forms));
    if (byDefault === undefined) return undefined;
    const allows = this.#allow.some(
      (allow) => matches(allow, target, forms) && DEFAULT_DENY.some((deny) => names(allow, deny)),
    );
    if (allows) return undefined;
    return `the rule "${byDefault.text}", a default of [replicator.egress] deny; to permit the host, add it to [replicator.egress] allow`;
  }

  #isAllowed(target: EgressTarget, forms: readonly string[]): boolean {
    return this.#allow.length === 0 || this.#allow.some((allow) => matches(allow, target, forms));
  }
}

function matches(
  { hosts, port }: EgressRule,
  target: EgressTarget,
  forms: readonly string[],
): boolean {
  if (port !== undefined && port !== target.port) return false;
  if (hosts.kind === "all") return true;
  if (hosts.kind === "range") return hasAny(hosts.range, forms);
  if (hosts.kind === "name") return target.host === hosts.name;
  return target.host.endsWith(hosts.end);
}

/**
 * Whether all hosts of an allow rule (`allowed`) are among those of a default deny rule (`denied`).
 */
function names({ hosts: allowed }: EgressRule, { hosts: denied }: EgressRule): boolean {
  if (allowed.kind === "name" && denied.kind === "name") return allowed.name === denied.name;
  if (allowed.kind !== "range" || denied.kind !== "range") return false;
  return liesWithin(allowed.range, denied.range);
}
