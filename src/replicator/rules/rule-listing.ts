/** Goes through the databases of a rule's source, and the rows of those that have jobs, side by side. */
import type { KeyValueStore } from "../../kv/index.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import type { ListedServer } from "../parking/watched-server.ts";
import type { RuleDatabase, RuleIdentity, RuleStore } from "./rule-store.ts";

/** Names that are asked for at once. */
const NAMES_MAX = 1000;
/** Names of one listing: a server that goes on for ever has to be stopped somewhere. */
const LISTED_MAX = 1_000_000;
/** Rows of databases that are read at once. */
const ROWS_MAX = 500;

/** Names behind `after`, up to `last` inclusive; undefined: the list ends there. */
export interface NameRange {
  readonly after: string;
  readonly last: string | undefined;
}

/** All names that the server lists in a range. */
export interface ListedNames extends NameRange {
  readonly names: readonly string[];
}

/** Every name once, in order; the ranges follow each other, from the first name to the end. `turn` is waited for before each request. */
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

/** The rows of a rule in a range, a page at a time; all of them without one. */
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
