/**
 * Reads the databases of a rule's source, and the rows of databases with jobs, both sorted by name.
 */
import type { KeyValueStore } from "../../kv/index.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import type { ListedServer } from "../parking/watched-server.ts";
import type { RuleDatabase, RuleIdentity, RuleStore } from "./rule-store.ts";

/** Number of names per request. */
const NAMES_MAX = 1000;
/** Maximum number of names per listing, in case a server never ends its list. */
const LISTED_MAX = 1_000_000;
/** Number of rows read per transaction. */
const ROWS_MAX = 500;

/**
 * A range of names, after `after` up to and including `last`. Without `last`, it extends to the
 * end.
 */
export interface NameRange {
  readonly after: string;
  readonly last: string | undefined;
}

/** A range of names, with all names that the server lists in it. */
export interface ListedNames extends NameRange {
  readonly names: readonly string[];
}

/**
 * Yields each name once, in consecutive ranges. Calls `turn` before each request, to limit the
 * rate.
 */
export async function* listNames(
  server: Pick<ListedServer, "names">,
  turn: () => Promise<void>,
  signal: AbortSignal,
): AsyncIterable<ListedNames> {
  let after = "";
  let listedCount = 0;
  for (let hasMore = true; hasMore; ) {
    await turn();
    const page = await server.names(after, NAMES_MAX, signal);
    const last = page.names.at(-1);
    listedCount += page.names.length;
    if (listedCount > LISTED_MAX) {
      const reason = `The source lists more than ${LISTED_MAX} databases`;
      throw new EndpointError("too_many_databases", reason);
    }
    hasMore = page.hasMore && last !== undefined;
    yield { names: page.names, after, last: hasMore ? last : undefined };
    after = last ?? after;
  }
}

/** Yields the rows of a rule in pages, optionally within a range. */
export async function* rowsOfRule(
  kv: KeyValueStore,
  store: RuleStore,
  rule: Pick<RuleIdentity, "uuid">,
  { after, last }: NameRange = { after: "", last: undefined },
): AsyncIterable<readonly RuleDatabase[]> {
  let from = after;
  for (let hasMore = true; hasMore; ) {
    const place = { ...(from === "" ? {} : { after: from }), last, limit: ROWS_MAX };
    const rows = await kv.read((tx) => store.databases(tx.snapshot, rule, place));
    yield rows;
    hasMore = rows.length === ROWS_MAX;
    from = rows.at(-1)?.database ?? from;
  }
}
