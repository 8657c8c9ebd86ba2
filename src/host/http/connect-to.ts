/**
 * Overrides of the addresses to which requests connect (CouchDB's `[replicator] connect_to`, after
 * curl's option of that name): `host:port:target_host:target_port`. URL, `Host` header, SNI and the
 * name in the certificate remain those of the original host.
 */
import { isIPv6 } from "node:net";
import { normalHost } from "./egress-addresses.ts";

export interface ServerAddress {
  /** Name or address without brackets. */
  readonly host: string;
  readonly port: number;
}

export interface ConnectTo {
  /** Host name, or a domain with a leading dot that stands for all its subdomains. */
  readonly pattern: string;
  readonly port: number;
  readonly target: ServerAddress;
}

/** Parses an override. Returns undefined if the text is invalid. */
export function parseConnectTo(text: string): ConnectTo | undefined {
  const form = /^(\*\.)?([^:*[\]]+):(\d{1,5}):([^:[\]]+|\[[^[\]]+\]):(\d{1,5})$/;
  const [, wildcard, name = "", port, target = "", targetPort] = form.exec(text) ?? [];
  const bare = target.replace(/^\[(.*)\]$/, "$1");
  const host = target === bare || isIPv6(bare) ? normalHost(bare) : undefined;
  const pattern = normalHost(name);
  const ports = [Number(port), Number(targetPort)];
  if (pattern === undefined || host === undefined) return undefined;
  if (!ports.every((each) => each >= 1 && each <= 65_535)) return undefined;
  return {
    pattern: wildcard === undefined ? pattern : `.${pattern}`,
    port: Number(port),
    target: { host, port: Number(targetPort) },
  };
}

/** Returns the target of the first matching override; `undefined` without a match. */
export function targetOf(
  overrides: readonly ConnectTo[],
  { host, port }: ServerAddress,
): ServerAddress | undefined {
  const isMatch = ({ pattern, port: portOfPattern }: ConnectTo): boolean =>
    port === portOfPattern && (pattern.startsWith(".") ? host.endsWith(pattern) : host === pattern);
  return overrides.find(isMatch)?.target;
}

/** URL of a server, for rules about connections. */
export function urlOfAddress({ host, port }: ServerAddress): string {
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;
}
