/** Chooses the way to the server for each request. */
import type { Connection } from "./connection.ts";
import type { Fetch, FetchRequest } from "./fetch.ts";

/** Sends every request over connections of the kind that is chosen for it. */
export function withConnection(fetch: Fetch, choose: (request: FetchRequest) => Connection): Fetch {
  return (request) => fetch({ ...request, connection: choose(request) });
}
