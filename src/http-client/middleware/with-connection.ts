/** Chooses the connection settings of each request. */
import type { Connection } from "../connection.ts";
import type { Fetch, FetchRequest } from "../fetch.ts";

/** Sends every request with the connection settings that `choose` returns. */
export function withConnection(fetch: Fetch, choose: (request: FetchRequest) => Connection): Fetch {
  return (request) => fetch({ ...request, connection: choose(request) });
}
