/** Opens the source of a rule, in order to list its databases. */
import type { Authority, DatabaseRegistry } from "../../databases/index.ts";
import type { KeyValueStore } from "../../kv/index.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import type { Endpoints } from "../endpoints/endpoints.ts";
import { type ListedServer, WatchedStore } from "../parking/watched-server.ts";
import type { Rule } from "./rule.ts";

export interface ListedServerParts {
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly endpoints: Endpoints;
}

/**
 * Opens the source. Throws an EndpointError if the owner may not list local databases, or if a
 * secret is missing.
 */
export async function openListedServer(
  { kv, databases, endpoints }: ListedServerParts,
  { rule, owner }: { readonly rule: Rule; readonly owner: Authority },
): Promise<ListedServer> {
  if (rule.server !== undefined) return endpoints.openServer(rule.server, owner);
  if (await endpoints.isAdmin(owner)) return new WatchedStore(kv, databases);
  throw new EndpointError("forbidden", "The owner of the rule is no longer a server admin");
}
