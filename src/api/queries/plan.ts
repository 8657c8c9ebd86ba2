/** Plans a query: reads the existing indexes and lets the planner choose one. */
import type { Database } from "../../databases/index.ts";
import {
  ALL_DOCUMENTS,
  type Candidate,
  type Choice,
  CONFLICTS,
  chooseIndex,
  compareText,
  covers,
  type Index,
  type IndexState,
} from "../../indexes/index.ts";
import { fieldPath, type ProtocolError } from "../../protocol/index.ts";
import { existingDatabaseName, securitySubject, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { type FindQuery, invalid } from "./find-query.ts";

/** An index as used by the planner, with the definition that it comes from. */
export interface ListedIndex extends Candidate {
  /** Definition; absent for the index of all documents. */
  readonly source: Index | undefined;
}

export type Plan = Exclude<Choice<ListedIndex>, { kind: "fallback-refused" }>;

/**
 * The indexes of the database in CouchDB's order: first the index of all documents, then the others
 * by design document and name. Users who cannot see every document in full get only the index of
 * all documents. The order, counts, bookmarks and timing of other indexes would reveal hidden
 * fields.
 */
export async function listIndexes(parts: DatabaseParts, call: Call): Promise<ListedIndex[]> {
  const { kv, databases, indexes } = parts;
  const name = existingDatabaseName(call);
  const reader = securitySubject(call.user);
  for (;;) {
    const found = await kv.read(
      async (tx) => {
        const database = await databases.open(tx, name);
        if ((await database.seenBy(tx, reader)).hasReadRule) return [];
        if (await indexes.needsRenewal(tx, database)) return undefined;
        return indexes.list(tx, database);
      },
      { signal: call.request.signal },
    );
    if (found !== undefined) return [{ ...ALL_DOCUMENTS, source: undefined }, ...listed(found)];
    const renew = { whenUnknown: "retry" } as const;
    await writeDatabase(parts, call, (tx, database) => indexes.renew(tx, database), renew);
  }
}

function listed(indexes: readonly Index[]): ListedIndex[] {
  return indexes
    .map((source) => {
      const { design, name, fields, partialFilter } = source.stored;
      const columns = fields.map((field) => field.name);
      return { design, name, columns, isPartial: partialFilter !== undefined, source };
    })
    .sort((left, right) => {
      return compareText(left.design, right.design) || compareText(left.name, right.name);
    });
}

/** Plans a query. Throws a ProtocolError if it requires an index that cannot be used. */
export async function planOf(parts: DatabaseParts, call: Call, query: FindQuery): Promise<Plan> {
  const choice = chooseIndex(await listIndexes(parts, call), query);
  if (choice.kind === "fallback-refused") throw indexRefusal(query);
  return choice;
}

/**
 * Whether the index entries contain everything that a query needs and returns. If they do, no
 * document is read (`mango_idx_view:covers`).
 */
export function isCovered(
  index: ListedIndex,
  { fields, selectorFields, conflicts }: FindQuery,
): boolean {
  const named = [...fields, ...selectorFields.indexable, ...selectorFields.unindexable];
  // An index can contain `_conflicts`. A query without `conflicts=true` must not see that member,
  // so it reads the documents.
  const seesConflicts = conflicts || !named.some((field) => fieldPath(field)[0] === CONFLICTS);
  return fields.length > 0 && seesConflicts && covers(index, named);
}

export function indexRefusal({ useIndex: [design, name] }: FindQuery): ProtocolError {
  if (design === undefined) {
    const reason = "You must specify an index with the `use_index` parameter.";
    return invalid("invalid_index", reason);
  }
  const named = name === undefined ? shortName(design) : `${shortName(design)}, ${name}`;
  const reason = `_design/${named} specified by \`use_index\` could not be found or it is not suitable.`;
  return invalid("invalid_index", reason);
}

export function shortName(design: string): string {
  return design.replace(/^_design\//, "");
}

/**
 * Progress of an index build. Opens the database in full, not as visible to the caller, because the
 * wait does not depend on which documents the user is allowed to see.
 */
export function indexState(
  { kv, databases, indexes }: DatabaseParts,
  call: Call,
  number: number,
): Promise<{ readonly database: Database; readonly state: IndexState | undefined }> {
  const name = existingDatabaseName(call);
  return kv.read(
    async (tx) => {
      const database = await databases.open(tx, name);
      return { database, state: await indexes.state(tx, database, number) };
    },
    { signal: call.request.signal },
  );
}
