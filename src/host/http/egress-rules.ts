/**
 * Which servers a node may connect to (`[replicator.egress]`). A rule names hosts, or addresses, and may name a port.
 *
 * A host is known by its name before it is resolved, and by each of its addresses afterwards. Rules look at both, and
 * an address that was looked at is the one that is connected to (`egress-guard.ts`).
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

/** A rule, as it was written and as it is applied. */
export interface EgressRule {
  readonly text: string;
  /** Undefined: any. */
  readonly port: number | undefined;
  readonly hosts: RuleHosts;
}

type RuleHosts =
  | { readonly kind: "all" }
  /** The names below a domain: `.example.com` is the end of each. */
  | { readonly kind: "domain"; readonly end: string }
  | { readonly kind: "name"; readonly name: string }
  | { readonly kind: "range"; readonly range: AddressRange };

/** Where a connection leads. `host` is a name or an address, as `normalHost` answers it. */
export interface EgressTarget {
  readonly host: string;
  readonly port: number;
}

/** What a rule looks like, for a message about a text that is none. */
export const EGRESS_RULE_FORMS =
  "names (example.com, *.example.com), addresses and ranges (10.0.0.1, 10.0.0.0/8, fd00::/8) or *, with or without a port " +
  "(example.com:443, 10.0.0.0/8:5984, [::1]:5984, *:6984)";

/** Link-local networks and the other addresses at which clouds serve the credentials of their machines. */
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

/** Undefined for a text that is no rule. */
export function parseEgressRule(text: string): EgressRule | undefined {
  const { host, portText } = splitPort(text);
  const port = portText === undefined ? undefined : Number(portText);
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined;
  const hosts = parseHosts(host);
  return hosts && { text, port, hosts };
}

/** An IPv6 address with a port, or a range of them, stands in brackets. */
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

/** Judgements that are remembered. */
const REMEMBERED_MAX = 1000;

export class EgressRules {
  readonly #allow: readonly EgressRule[];
  readonly #deny: readonly EgressRule[];
  /** By host, port and address: each request to a server asks the same, and to compare with ranges costs more than the rest. */
  readonly #judged = new Map<string, string | undefined>();

  /** An empty `allow` allows whatever is not denied. What `deny` names is denied whatever `allow` says. */
  constructor(allow: readonly EgressRule[], deny: readonly EgressRule[]) {
    this.#allow = allow;
    this.#deny = deny;
  }

  /**
   * Why a host must not be asked, by its name or because it is an address; undefined if it may be.
   * `isResolvedHere`: its addresses are going to be judged, too, so ranges of `allow` may still permit it. A proxy resolves names itself.
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

  /** Why this address of a host must not be connected to; undefined if it may be. */
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
    return `the rule "${byDefault.text}" of [replicator.egress] deny, which holds unless allow names the host itself`;
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

/** Whether a rule names what a default rule denies, or a part of it, and nothing else. */
function names({ hosts: allowed }: EgressRule, { hosts: denied }: EgressRule): boolean {
  if (allowed.kind === "name" && denied.kind === "name") return allowed.name === denied.name;
  if (allowed.kind !== "range" || denied.kind !== "range") return false;
  return liesWithin(allowed.range, denied.range);
}
