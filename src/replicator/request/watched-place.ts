/**
 * Where a parked job's changes come from: a database of a server, as one account sees that. All jobs whose sources are at the same
 * server, with the same credentials, have one watcher. Pure.
 */
import { type Digests, utf8Encode } from "../../base/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { parseUrl } from "./endpoint-url.ts";
import { decode } from "./parse-fields.ts";
import type { EndpointAddress, HttpAddress } from "./replication.ts";

export interface WatchedPlace {
  /** `LOCAL_SOURCE`, or the root of a server and a digest of how it is asked. It names the watcher, and holds no secret. */
  readonly source: string;
  readonly database: string;
}

/** Our own databases. */
export const LOCAL_SOURCE = "local";

/** Undefined for an address that says no more than a URL: which database it is, is not known. */
export function watchedPlace(digests: Digests, address: EndpointAddress): WatchedPlace | undefined {
  if (address.kind === "local") return { source: LOCAL_SOURCE, database: address.database };
  const parts = serverOf(address);
  if (parts === undefined) return undefined;
  const { basic, iam, headers, proxyUrl, tls, references } = address;
  // What a password is matters to no one's rights, and its digest would tell it to who tries many.
  const proxy = proxyUrl && maskCredentials(proxyUrl);
  const account = [basic?.username, iam, headers, proxy, tls, references];
  const digest = digests.md5Hex(utf8Encode(JSON.stringify(account)));
  return { source: `${parts.server.url} ${digest}`, database: parts.database };
}

/** Where the source is, for people: without the digest, which is made of what may be secret. */
export function serverUrlOf(source: string): string {
  return source.replace(/ .*$/, "");
}

/** The server of a database, as an address that is asked like it; and the name of the database. */
export function serverOf(
  address: HttpAddress,
): { readonly server: HttpAddress; readonly database: string } | undefined {
  const url = parseUrl(address.url);
  const [, root, name] = /^(.*\/)([^/]+)\/?$/.exec(url?.pathname ?? "") ?? [];
  const database = name && decode(name);
  if (url === undefined || url.search !== "" || root === undefined || database === undefined) {
    return undefined;
  }
  return { server: { ...address, url: `${url.origin}${root}` }, database };
}
