/**
 * `[identities]`: files with tokens of this machine or workload, each bound to the servers that may
 * receive it. A job names an identity and never a path or another server, so that a server
 * administrator cannot send the token to a server of their own.
 */
import { isAbsolute } from "node:path";
import type { SecretDestination } from "../../replicator/index.ts";
import { ConfigError } from "../settings/settings.ts";

export const IDENTITIES_SECTION = "identities";

export interface Identity {
  readonly path: string;
  readonly servers: readonly IdentityServer[];
}

interface IdentityServer {
  /** Scheme with a colon. */
  readonly protocol: string;
  readonly hostname: string;
  /** Port; empty for the default one. */
  readonly port: string;
  /** Whether all subdomains are meant instead. */
  readonly isWildcard: boolean;
}

const NAME = /^[A-Za-z0-9_.-]{1,100}$/;

/** Parses `NAME = /path https://server …`. Throws a ConfigError. */
export function parseIdentities(
  texts: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, Identity> {
  return new Map([...(texts ?? [])].map(([name, text]) => [name, parseIdentity(name, text)]));
}

function parseIdentity(name: string, text: string): Identity {
  const refuse = (expected: string): never => {
    throw new ConfigError(`[${IDENTITIES_SECTION}] ${name} = ${text}: expected ${expected}`);
  };
  if (!NAME.test(name)) return refuse("a name of letters, digits, `_`, `.` and `-`");
  const [path = "", ...urls] = text.trim().split(/\s+/);
  if (!isAbsolute(path)) return refuse("the absolute path of a file first");
  const servers = urls.map((url) => parseServer(url) ?? refuse(SERVERS));
  return servers.length === 0 ? refuse(SERVERS) : { path, servers };
}

const SERVERS = "servers after the path, such as https://couch.example or https://*.example:6984";

function parseServer(text: string): IdentityServer | undefined {
  const [, scheme, wildcard, rest = ""] = /^(https?:\/\/)(\*\.)?([^*]+)$/i.exec(text) ?? [];
  if (scheme === undefined || !URL.canParse(scheme + rest)) return undefined;
  const { protocol, hostname, port, pathname, search, hash, username, password } = new URL(
    scheme + rest,
  );
  if (pathname !== "/" || search + hash + username + password !== "") return undefined;
  return { protocol, hostname, port, isWildcard: wildcard !== undefined };
}

/** Returns why the identity must not be sent there; undefined if it may. */
export function identityRefusal(
  { servers }: Identity,
  { url, isDirect }: SecretDestination,
): string | undefined {
  const { protocol, hostname, port, origin } = new URL(url);
  const isBound = servers.some(
    (server) =>
      server.protocol === protocol &&
      server.port === port &&
      (server.isWildcard ? hostname.endsWith(`.${server.hostname}`) : server.hostname === hostname),
  );
  if (!isBound) return `is not for ${origin}: [${IDENTITIES_SECTION}] names other servers`;
  if (!isDirect) {
    return `is not sent to ${origin} without verifying its certificate, or through a proxy without TLS`;
  }
  return undefined;
}
