/** `_all_docs`, and its views `_design_docs` and `_local_docs`: documents by id. */
import { type JsonText, jsonKind } from "../base/index.ts";
import type { Database, Document } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { badRequest, ProtocolError, renderWireDocument } from "../protocol/index.ts";
import { type AllDocumentsQuery, allDocumentsQuery, type IdRange } from "./all-documents-query.ts";
import type { ApiParts } from "./api.ts";
import type { Call } from "./call.ts";
import { readDatabase } from "./database-access.ts";
import { isStorableId } from "./document-request.ts";
import { type DocumentView, viewOf, viewText } from "./document-view.ts";
import type { ApiResponse } from "./exchange.ts";
import { PageSize } from "./page-size.ts";
import { readJsonBody, requireJsonType } from "./request-body.ts";
import { inPieces, oneLine, streamedJson } from "./responses.ts";
import { defineRoute, type Route } from "./router.ts";

/** Rows of one read, when they come without their documents. */
const PAGE_COUNT_MAX = 1_000;
/** Keys looked up in one read. */
const PAGE_KEYS_MAX = 100;

/** Which documents a resource is about. */
interface Scope {
  readonly range: IdRange;
  readonly page: (
    tx: ReadTransaction,
    database: Database,
    query: AllDocumentsQuery,
    place: Place,
  ) => Promise<Row[]>;
  readonly byId: (
    tx: ReadTransaction,
    database: Database,
    id: string,
    query: AllDocumentsQuery,
  ) => Promise<Row>;
  readonly total: (tx: ReadTransaction, database: Database) => Promise<number | null>;
}

/** Where a page begins, and how long it may be. */
interface Place {
  readonly startId: string | undefined;
  readonly limit: number;
}

type Row =
  | {
      readonly kind: "document";
      readonly id: string;
      readonly rev: string;
      readonly view?: DocumentView;
    }
  | { readonly kind: "deleted"; readonly id: string; readonly rev: string }
  | { readonly kind: "text"; readonly id: string; readonly rev: string; readonly text: string }
  | { readonly kind: "missing"; readonly id: string };

const ALL: Scope = {
  range: {},
  page: documentPage,
  byId: documentById,
  total: async (tx, database) => (await database.info(tx)).documentCount,
};
const DESIGN: Scope = {
  ...ALL,
  range: { low: "_design/", high: "_design0" },
  total: async () => null,
};
const LOCAL: Scope = { range: {}, page: localPage, byId: localById, total: async () => null };

export function allDocumentsRoutes(parts: ApiParts): Route[] {
  const scopes = { _all_docs: ALL, _design_docs: DESIGN, _local_docs: LOCAL };
  return Object.entries(scopes).flatMap(([name, scope]) => [
    defineRoute("GET", `/{database}/${name}`, (call) => list(parts, call, scope)),
    defineRoute("POST", `/{database}/${name}`, (call) => listPosted(parts, call, scope)),
  ]);
}

async function listPosted(parts: ApiParts, call: Call, scope: Scope): Promise<ApiResponse> {
  requireJsonType(call);
  const body = await readJsonBody(call);
  if (jsonKind(body) !== "object") throw badRequest("Request body must be a JSON object");
  return list(parts, call, scope, body);
}

async function list(
  parts: ApiParts,
  call: Call,
  scope: Scope,
  body: JsonText = "{}",
): Promise<ApiResponse> {
  const query = allDocumentsQuery(call, body, scope.range);
  return streamedJson(200, inPieces(texts(parts, call, scope, query)));
}

async function* texts(
  parts: ApiParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery,
): AsyncGenerator<string, void, undefined> {
  const head = await readDatabase(parts, call, async (tx, database) => ({
    total: await scope.total(tx, database),
    sequence: query.updateSequence ? await database.updateSequence(tx) : undefined,
  }));
  // CouchDB: counts the rows before a start key; that would be a scan, so here the offset is then unknown.
  const isKnown = query.startId === undefined && query.keys === undefined;
  const offset = isKnown && head.total !== null ? Math.min(query.skip, head.total) : null;
  yield `{"total_rows":${head.total},"offset":${offset}`;
  if (head.sequence !== undefined) yield `,"update_seq":${JSON.stringify(head.sequence)}`;
  yield ',"rows":[';
  let separator = "\r\n";
  for await (const { database, rows } of pages(parts, call, scope, query)) {
    for (const row of rows) {
      yield separator + (await rowText(parts, call, database, row, query));
      separator = ",\r\n";
    }
  }
  yield "\r\n]}\n";
}

interface RowPage {
  readonly database: Database;
  readonly rows: readonly Row[];
}

function pages(
  parts: ApiParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery,
): AsyncIterable<RowPage> {
  return query.keys === undefined
    ? rangePages(parts, call, scope, query)
    : keyPages(parts, call, scope, { ...query, keys: query.keys });
}

async function* rangePages(
  parts: ApiParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery,
): AsyncGenerator<RowPage, void, undefined> {
  if (query.isEmpty) return;
  let { startId, skip, limit } = query;
  let last: string | undefined;
  const size = new PageSize();
  while (limit > 0) {
    const isSkipping = skip > 0;
    const asked = isSkipping ? { ...query, includeDocuments: false } : query;
    const countMax = asked.includeDocuments ? size.count : PAGE_COUNT_MAX;
    // The first row of a later page is the last one of the page before.
    const repeated = last === undefined ? 0 : 1;
    const wanted = Math.min(countMax, isSkipping ? skip : limit) + repeated;
    const { database, rows } = await readDatabase(parts, call, async (tx, opened) => ({
      database: opened,
      rows: await scope.page(tx, opened, asked, { startId, limit: wanted }),
    }));
    // Unless it was removed meanwhile; then there is one row too many.
    const fresh = rows.filter(({ id }) => id !== last).slice(0, wanted - repeated);
    if (isSkipping) skip -= fresh.length;
    else {
      limit -= fresh.length;
      size.learn(rows.length, lengthOf(rows));
      if (fresh.length > 0) yield { database, rows: fresh };
    }
    if (rows.length < wanted) return;
    last = fresh.at(-1)?.id;
    startId = last;
  }
}

async function* keyPages(
  parts: ApiParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery & { readonly keys: readonly string[] },
): AsyncGenerator<RowPage, void, undefined> {
  const inOrder = query.descending ? [...query.keys].reverse() : query.keys;
  const keys = inOrder.slice(query.skip, query.skip + query.limit);
  const size = new PageSize();
  let start = 0;
  while (start < keys.length) {
    const countMax = query.includeDocuments ? size.count : PAGE_KEYS_MAX;
    const page = keys.slice(start, start + countMax);
    const { database, rows } = await readDatabase(parts, call, async (tx, opened) => ({
      database: opened,
      rows: await Promise.all(page.map((id) => scope.byId(tx, opened, id, query))),
    }));
    size.learn(rows.length, lengthOf(rows));
    start += page.length;
    yield { database, rows };
  }
}

/** Of the documents that the rows hold. */
function lengthOf(rows: readonly Row[]): number {
  let length = 0;
  for (const row of rows) {
    if (row.kind === "text") length += row.text.length;
    if (row.kind === "document") length += row.view?.document.body.length ?? 0;
  }
  return length;
}

async function rowText(
  parts: ApiParts,
  call: Call,
  database: Database,
  row: Row,
  query: AllDocumentsQuery,
): Promise<string> {
  const key = JSON.stringify(row.id);
  if (row.kind === "missing") return `{"key":${key},"error":"not_found"}`;
  const value = JSON.stringify(
    row.kind === "deleted" ? { rev: row.rev, deleted: true } : { rev: row.rev },
  );
  const document = await documentText(parts, call, database, row, query);
  const member = document === undefined ? "" : `,"doc":${oneLine(document)}`;
  return `{"id":${key},"key":${key},"value":${value}${member}}`;
}

async function documentText(
  parts: ApiParts,
  call: Call,
  database: Database,
  row: Row,
  query: AllDocumentsQuery,
): Promise<string | undefined> {
  if (!query.includeDocuments) return undefined;
  if (row.kind === "text") return row.text;
  if (row.kind !== "document" || row.view === undefined) return "null";
  return viewText(parts, database, row.view, query.view, call.request.signal);
}

// Documents

async function documentPage(
  tx: ReadTransaction,
  database: Database,
  query: AllDocumentsQuery,
  { startId, limit }: Place,
): Promise<Row[]> {
  const page = await database.allDocuments(tx, {
    ...(startId === undefined ? {} : { startId }),
    ...(query.endId === undefined ? {} : { endId: query.endId }),
    inclusiveEnd: query.inclusiveEnd,
    descending: query.descending,
    limit,
    withDocument: query.includeDocuments,
  });
  return Promise.all(
    page.entries.map(({ revision, id, document }) =>
      documentRow(tx, database, { id, revision, document }, query),
    ),
  );
}

async function documentRow(
  tx: ReadTransaction,
  database: Database,
  {
    id,
    revision,
    document,
  }: { readonly id: string; readonly revision: string; readonly document: Document | undefined },
  query: AllDocumentsQuery,
): Promise<Row> {
  if (document === undefined) return { kind: "document", id, rev: revision };
  const view = await viewOf(tx, database, document, query.view);
  return { kind: "document", id, rev: revision, view };
}

async function documentById(
  tx: ReadTransaction,
  database: Database,
  id: string,
  query: AllDocumentsQuery,
): Promise<Row> {
  if (!isStorableId(id)) return { kind: "missing", id };
  if (query.includeDocuments) {
    const document = await database.read(tx, id);
    if (document === undefined) return { kind: "missing", id };
    const { revision } = document;
    if (document.deleted) return { kind: "deleted", id, rev: revision };
    return documentRow(tx, database, { id, revision, document }, query);
  }
  const [winner] = await database.leaves(tx, id);
  if (winner === undefined) return { kind: "missing", id };
  return { kind: winner.deleted ? "deleted" : "document", id, rev: winner.revision };
}

// Local documents

async function localPage(
  tx: ReadTransaction,
  database: Database,
  query: AllDocumentsQuery,
  { startId, limit }: Place,
): Promise<Row[]> {
  const page = await database.localDocuments(tx, {
    ...(startId === undefined ? {} : { startId: localBound(startId) }),
    ...(query.endId === undefined ? {} : { endId: localBound(query.endId) }),
    inclusiveEnd: query.inclusiveEnd,
    descending: query.descending,
    limit,
  });
  return page.entries.map(({ id, revision, body }) => ({
    kind: "text",
    id,
    rev: revision,
    text: renderWireDocument({ id, revision, body, deleted: false }),
  }));
}

async function localById(tx: ReadTransaction, database: Database, id: string): Promise<Row> {
  if (!id.startsWith("_local/") || !isStorableId(id)) return { kind: "missing", id };
  const found = await database.readLocal(tx, id);
  if (found === undefined) return { kind: "missing", id };
  const text = renderWireDocument({ ...found, deleted: false });
  return { kind: "text", id, rev: found.revision, text };
}

function localBound(id: string): string {
  if (id.startsWith("_local/")) return id;
  throw new ProtocolError(400, "query_parse_error", "The keys here begin with _local/");
}
