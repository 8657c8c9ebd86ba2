/**
 * Which jobs and rules get a new credential: those of whoever replaces it and of administrators, those of the owner that the operator
 * names, and those whose old credential was the valid one. A user who merely has a job for the same server and user name learns
 * nothing from it.
 */
import { type Authority, mayNameSecrets, ownerKey } from "../databases/index.ts";
import { namesMachine } from "./request/admin-only.ts";
import { endpointUrl } from "./request/endpoint-url.ts";
import type { HttpAddress } from "./request/replication.ts";

export interface Entitlement {
  /** Whoever replaces the credential. */
  readonly caller: Authority;
  /** Key of the only owner whose jobs are meant, if the operator names one. */
  readonly owner: string | undefined;
  /** Password that was in use when a job last reached both of its servers, if one did. */
  readonly validPassword: string | undefined;
  /** Path of the server's root, with a slash at its end. */
  readonly rootPath: string;
}

/** Headers by which a proxy or a server decides where a request goes. */
const ROUTING_HEADER = /^(host|forwarded|via|x-(forwarded|original|rewrite|real|host).*)$/i;

/**
 * Whether a job of this authority gets the new credential. `before` and `after` are the addresses that log in with it, without it and
 * with it.
 */
export function isEntitled(
  authority: Authority,
  {
    before,
    after,
  }: { readonly before: readonly HttpAddress[]; readonly after: readonly HttpAddress[] },
  { caller, owner, validPassword, rootPath }: Entitlement,
): boolean {
  const key = ownerKey(authority);
  if (owner !== undefined && owner !== key) return false;
  if (after.some(namesMachine) && !mayNameSecrets(authority)) return false;
  if (key === ownerKey(caller)) return true;
  if (authority.wasAdmin === true && mayNameSecrets(authority)) return true;
  if (before.some((address) => isDetour(address, rootPath))) return false;
  if (owner !== undefined) return true;
  return before.every(({ basic }) => basic !== undefined && basic.password === validPassword);
}

/** Whether the address itself decides who sees the credential: by a proxy, relaxed TLS, a routing header or another path. */
export function isDetour(address: HttpAddress, rootPath: string): boolean {
  const { proxyUrl, tls, headers } = address;
  if (proxyUrl !== undefined || tls !== undefined) return true;
  if (Object.keys(headers).some((name) => ROUTING_HEADER.test(name))) return true;
  const path = endpointUrl(address).written.path.replace(/[?#].*$/s, "");
  return path.replace(/[^/]*\/?$/, "") !== rootPath || /\/\.{1,2}(\/|$)|%2e/i.test(path);
}
