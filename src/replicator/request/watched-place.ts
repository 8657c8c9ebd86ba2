/**
 * Source of a parked job's changes: a database of a server, as seen by one account. Jobs with the
 * same server and credentials share a watcher. Pure.
 */
import { type Digests, utf8Encode } from "../../base/index.ts";
import { type Labels, NO_LABELS } from "../../jobs/index.ts";
import { maskCredentials } from "../../protocol/index.ts";
import { identitiesOf } from "./authentication-schemes.ts";
import { parseUrl } from "./endpoint-url.ts";
import { decode } from "./parse-fields.ts";
import type { HttpAddress, Replication } from "./replication.ts";

export interface WatchedPlace {
  /**
   * `LOCAL_SOURCE`, or the root URL of a server with a digest of the account. Contains no secret.
   */
  readonly source: string;
  readonly database: string;
  /** Labels that a node must have to run the watcher. */
  readonly labels: Labels;
}

/** The source name of local databases. */
export const LOCAL_SOURCE = "local";

/**
 * Returns the server and database that have to be watched for a job's source; undefined if the URL
 * does not identify the database. The place contains the job's `run_on` labels, because jobs with
 * different labels have different watchers.
 */
export function watchedPlace(
  digests: Digests,
  { source: address, runOn: labels = NO_LABELS }: Pick<Replication, "source" | "runOn">,
): WatchedPlace | undefined {
  if (address.kind === "local") {
    return { source: LOCAL_SOURCE, database: address.database, labels: NO_LABELS };
  }
  const parts = serverOf(address);
  if (parts === undefined) return undefined;
  const { headers, proxyUrl, tls, references } = address;
  // The digest excludes passwords: they do not affect permissions, and could be guessed with a
  // digest that included them.
  const proxy = proxyUrl && maskCredentials(proxyUrl);
  // Stored digests depend on the order of the identities.
  const [basic, iam, ...others] = identitiesOf(address);
  const newer = others.filter((identity) => identity !== undefined);
  const account = [basic, iam, headers, proxy, tls, references, ...newer];
  if (labels.length > 0) account.push([...labels]);
  const digest = digests.md5Hex(utf8Encode(JSON.stringify(account)));
  return { source: `${parts.server.url} ${digest}`, database: parts.database, labels };
}

/** Returns the root URL of a source's server, without the digest of the account. */
export function serverUrlOf(source: string): string {
  return source.replace(/ .*$/, "");
}

/** Returns the server of a database as an address, and the database's name. */
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
