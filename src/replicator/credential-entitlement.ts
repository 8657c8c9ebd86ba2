/**
 * Decides which jobs and rules get a new credential: those of the user who sends it, those of
 * admins, those of the owner named by the operator, and those whose old credential was valid. Other
 * users with jobs for the same server and user name do not learn the credential.
 */
import { type Authority, mayNameSecrets, ownerKey } from "../databases/index.ts";
import { namesMachine } from "./request/admin-only.ts";
import { secretOf } from "./request/authentication-schemes.ts";
import { endpointUrl } from "./request/endpoint-url.ts";
import type { HttpAddress } from "./request/replication.ts";

export interface Entitlement {
  /** The user who sends the new credential. */
  readonly caller: Authority;
  /** Key of the owner (`ownerKey`), if the operator restricts the replacement to one owner. */
  readonly owner: string | undefined;
  /**
   * Password or client secret with which a job last reached both of its servers; undefined if no
   * job has reached them.
   */
  readonly validPassword: string | undefined;
  /** Path of the server's root, ending in a slash. */
  readonly rootPath: string;
}

/** Headers used by proxies or servers for routing. */
const ROUTING_HEADER = /^(host|forwarded|via|x-(forwarded|original|rewrite|real|host).*)$/i;

/**
 * Whether the job gets the credential. `before` contains the job's endpoints that log in as the
 * user, and `after` the same endpoints with the new credential.
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
  return before.every((address) => {
    const secret = secretOf(address);
    return secret !== undefined && secret === validPassword;
  });
}

/**
 * Whether the address could disclose the credential: through a proxy, TLS settings, a routing
 * header, or a path that is not directly below `rootPath`.
 */
export function isDetour(address: HttpAddress, rootPath: string): boolean {
  const { proxyUrl, tls, headers } = address;
  if (proxyUrl !== undefined || tls !== undefined) return true;
  if (Object.keys(headers).some((name) => ROUTING_HEADER.test(name))) return true;
  const path = endpointUrl(address).written.path.replace(/[?#].*$/s, "");
  return path.replace(/[^/]*\/?$/, "") !== rootPath || /\/\.{1,2}(\/|$)|%2e/i.test(path);
}
