/** The contents of `_all_docs`, `_design_docs` and `_local_docs`, and how their rows are read. */
import { type JsonText, type LongText, mapAtOnce, type Page } from "../../base/index.ts";
import type { Database, Document, LocalDocument } from "../../databases/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { ProtocolError, wireDocumentJson } from "../../protocol/index.ts";
import { isStorableId } from "../documents/document-request.ts";
import { type DocumentView, viewOf } from "../documents/document-view.ts";
import type { AllDocumentsQuery, IdRange } from "./all-documents-query.ts";

/** The documents that a resource such as `_design_docs` lists, and how their rows are read. */
export interface Scope {
  readonly range: IdRange;
  readonly page: (
    tx: ReadTransaction,
    database: Database,
    query: AllDocumentsQuery,
    place: Place,
  ) => Promise<Page<Row>>;
  /**
   * Returns a row for each id, in order. With documents, returns those of the leading ids that fit
   * into a page; at least one.
   */
  readonly byIds: (
    tx: ReadTransaction,
    database: Database,
    ids: readonly string[],
    query: AllDocumentsQuery,
  ) => Promise<Row[]>;
  readonly total: (tx: ReadTransaction, database: Database) => Promise<number | null>;
}

/** Position of a page: its first id, and its maximum number of rows. */
export interface Place {
  readonly startId: string | undefined;
  readonly limit: number;
}

export type Row =
  | {
      readonly kind: "document";
      readonly id: string;
      readonly rev: string;
      readonly view?: DocumentView;
    }
  | { readonly kind: "deleted"; readonly id: string; readonly rev: string }
  | {
      readonly kind: "local";
      readonly id: string;
      readonly rev: string;
      readonly json: JsonText | LongText;
      readonly byteCount: number;
    }
  | { readonly kind: "missing"; readonly id: string };

/** Result for a key that is not an id. */
export interface NoRow {
  readonly kind: "missing";
  readonly id: unknown;
}

const DESIGN_RANGE = { prefix: "_design/", low: "_design/", high: "_design0" };

export const ALL: Scope = {
  range: { prefix: "" },
  page: documentPage,
  byIds: documentsByIds,
  total: async (tx, database) => (await database.info(tx)).documentCount,
};
export const DESIGN: Scope = {
  ...ALL,
  range: DESIGN_RANGE,
  total: countDesignDocuments,
};
export const LOCAL: Scope = {
  range: { prefix: "_local/" },
  page: localPage,
  byIds: (tx, database, ids) => Promise.all(ids.map((id) => localById(tx, database, id))),
  total: async () => null,
};

// Rows of `_all_docs` and `_design_docs`.

async function documentPage(
  tx: ReadTransaction,
  database: Database,
  query: AllDocumentsQuery,
  { startId, limit }: Place,
): Promise<Page<Row>> {
  const { entries, stoppedBy } = await database.allDocuments.page(tx, {
    ...(startId === undefined ? {} : { startId }),
    ...(query.endId === undefined ? {} : { endId: query.endId }),
    inclusiveEnd: query.inclusiveEnd,
    descending: query.descending,
    limit,
    withDocument: query.includeDocuments,
  });
  const rows = query.includeDocuments
    ? await mapAtOnce(entries, ({ revision, id, document }) =>
        documentRow(tx, database, { id, revision, document }, query),
      )
    : entries.map(({ id, revision }): Row => ({ kind: "document", id, rev: revision }));
  return { entries: rows, stoppedBy };
}

/** Counts by reading all design documents, since there are few. */
async function countDesignDocuments(tx: ReadTransaction, database: Database): Promise<number> {
  const { low, high } = DESIGN_RANGE;
  const page = await database.allDocuments.page(tx, { startId: low, endId: high });
  return page.entries.length;
}

function documentRow(
  tx: ReadTransaction,
  database: Database,
  {
    id,
    revision,
    document,
  }: { readonly id: string; readonly revision: string; readonly document: Document | undefined },
  query: AllDocumentsQuery,
): Row | Promise<Row> {
  if (document === undefined) return { kind: "document", id, rev: revision };
  const rowWith = (view: DocumentView): Row => ({ kind: "document", id, rev: revision, view });
  const view = viewOf(tx, database, document, query.view);
  return view instanceof Promise ? view.then(rowWith) : rowWith(view);
}

async function documentsByIds(
  tx: ReadTransaction,
  database: Database,
  ids: readonly string[],
  query: AllDocumentsQuery,
): Promise<Row[]> {
  const storable = ids.filter(isStorableId);
  if (query.includeDocuments) {
    const winners = await database.documents.pageOfWinners(tx, storable);
    let storableCount = 0;
    const unread = ids.findIndex((id) => isStorableId(id) && storableCount++ === winners.length);
    let next = 0;
    return mapAtOnce(unread < 0 ? ids : ids.slice(0, unread), (id) => {
      const document = isStorableId(id) ? winners[next++] : undefined;
      if (document === undefined) return { kind: "missing", id };
      const { revision } = document;
      if (document.deleted) return { kind: "deleted", id, rev: revision };
      return documentRow(tx, database, { id, revision, document }, query);
    });
  }
  const found = await database.documents.leavesOf(tx, storable);
  let next = 0;
  return ids.map((id): Row => {
    const winner = id === storable[next] ? found[next++]?.[0] : undefined;
    if (winner === undefined) return { kind: "missing", id };
    return { kind: winner.deleted ? "deleted" : "document", id, rev: winner.revision };
  });
}

// Rows of `_local_docs`.

async function localPage(
  tx: ReadTransaction,
  database: Database,
  query: AllDocumentsQuery,
  { startId, limit }: Place,
): Promise<Page<Row>> {
  const { entries, stoppedBy } = await database.local.page(tx, {
    ...(startId === undefined ? {} : { startId: localBound(startId) }),
    ...(query.endId === undefined ? {} : { endId: localBound(query.endId) }),
    inclusiveEnd: query.inclusiveEnd,
    descending: query.descending,
    limit,
  });
  return { entries: entries.map((found) => localRow(found)), stoppedBy };
}

async function localById(tx: ReadTransaction, database: Database, id: string): Promise<Row> {
  if (!isStorableId(id)) return { kind: "missing", id };
  const found = await database.local.read(tx, id);
  return found === undefined ? { kind: "missing", id } : localRow(found);
}

function localRow({ id, revision, body }: LocalDocument): Row {
  const json = wireDocumentJson({ id, revision, body, deleted: false });
  return { kind: "local", id, rev: revision, json, byteCount: body.length };
}

function localBound(id: string): string {
  if (id.startsWith("_local/")) return id;
  throw new ProtocolError(400, "query_parse_error", "All keys must begin with _local/");
}
