/** `[identities]`: files with tokens, and the servers that may receive them. Read at startup. */
import { isAbsolute } from "node:path";
import type { Identity, IdentityServer } from "../secrets/identity-files.ts";
import { ConfigError } from "./settings.ts";

export const IDENTITIES_SECTION = "identities";

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
  if (!isAbsolute(path)) return refuse("the absolute path of a file, followed by servers");
  const servers = urls.map((url) => parseServer(url) ?? refuse(SERVERS));
  return servers.length === 0 ? refuse(SERVERS) : { path, servers };
}

const SERVERS =
  "one or more servers after the path, such as https://couch.example or https://*.example:6984";

function parseServer(text: string): IdentityServer | undefined {
  const [, scheme, wildcard, rest = ""] = /^(https?:\/\/)(\*\.)?([^*]+)$/i.exec(text) ?? [];
  if (scheme === undefined || !URL.canParse(scheme + rest)) return undefined;
  const { protocol, hostname, port, pathname, search, hash, username, password } = new URL(
    scheme + rest,
  );
  if (pathname !== "/" || search + hash + username + password !== "") return undefined;
  return { protocol, hostname, port, isWildcard: wildcard !== undefined };
}
