/** `_all_docs`, and its views `_design_docs` and `_local_docs`: documents by id. */
import { type JsonText, jsonKind, type LongText, printJson, splitArray } from "../../base/index.ts";
import { type Database, PageSize } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { viewJson } from "../documents/document-view.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readJsonBody, readJsonMembers, requireJsonType } from "../http/request-body.ts";
import {
  inPieces,
  JoinedTexts,
  oneLineWithin,
  type Piece,
  streamedJson,
} from "../http/responses.ts";
import { MEMBER, type RouteFacts } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type AllDocumentsQuery, allDocumentsQuery, oneOfSeveral } from "./all-documents-query.ts";
import { ALL, DESIGN, LOCAL, type NoRow, type Row, type Scope } from "./all-documents-scopes.ts";

/** Number of rows per read, if documents are not included. */
const PAGE_COUNT_MAX = 1_000;
/**
 * Maximum number of queries per request. All of them are parsed before the first is processed.
 * CouchDB has no limit.
 */
const QUERIES_MAX = 1_000;
/** Number of keys looked up per read. */
const PAGE_KEYS_MAX = 100;

export function allDocumentsRoutes(parts: DatabaseParts): Route[] {
  const lists: readonly (readonly [name: string, scope: Scope, facts: RouteFacts])[] = [
    ["_all_docs", ALL, { ...MEMBER, access: "all-documents" }],
    ["_design_docs", DESIGN, MEMBER],
    ["_local_docs", LOCAL, { ...MEMBER, access: "local-documents" }],
  ];
  return lists.flatMap(([name, scope, facts]) => [
    defineRoute("GET", `/{database}/${name}`, facts, (call) => list(parts, call, scope)),
    defineRoute("POST", `/{database}/${name}`, facts, (call) => listPosted(parts, call, scope)),
    defineRoute("POST", `/{database}/${name}/queries`, facts, (call) =>
      listSeveral(parts, call, scope),
    ),
  ]);
}

async function listPosted(parts: DatabaseParts, call: Call, scope: Scope): Promise<ApiResponse> {
  requireJsonType(call);
  const body = await readJsonBody(call);
  if (jsonKind(body) !== "object") throw badRequest("Request body must be a JSON object");
  return list(parts, call, scope, body);
}

async function list(
  parts: DatabaseParts,
  call: Call,
  scope: Scope,
  body: JsonText = "{}",
): Promise<ApiResponse> {
  const query = await allDocumentsQuery(call, body, scope.range);
  return streamedJson(inPieces(texts(parts, call, scope, query)));
}

async function listSeveral(parts: DatabaseParts, call: Call, scope: Scope): Promise<ApiResponse> {
  const text = (await readJsonMembers(call)).get("queries");
  if (text === undefined) throw badRequest("POST body must include `queries` parameter.");
  if (jsonKind(text) !== "array") throw badRequest("`queries` member must be an array.");
  const bodies = splitArray(text);
  if (bodies.length > QUERIES_MAX) {
    const reason = `A request may have at most ${QUERIES_MAX} queries, but \`queries\` has ${bodies.length}`;
    throw new ProtocolError(413, "too_large", reason);
  }
  const queries: AllDocumentsQuery[] = [];
  for (const body of bodies) {
    if (call.yielder.isDue) await call.yielder.yield();
    if (jsonKind(body) !== "object") throw badRequest("Each of `queries` must be a JSON object");
    queries.push(await oneOfSeveral(call, body, scope.range));
  }
  await readDatabase(parts, call, async () => undefined);
  return streamedJson(inPieces(resultTexts(parts, call, scope, queries)));
}

async function* resultTexts(
  parts: DatabaseParts,
  call: Call,
  scope: Scope,
  queries: readonly AllDocumentsQuery[],
): AsyncGenerator<Piece, void, undefined> {
  yield '{"results":[';
  let separator = "\n";
  for (const query of queries) {
    if (call.yielder.isDue) await call.yielder.yield();
    yield separator;
    yield* texts(parts, call, scope, query);
    separator = ",";
  }
  yield "]}\n";
}

async function* texts(
  parts: DatabaseParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery,
): AsyncGenerator<Piece, void, undefined> {
  const head = await readDatabase(parts, call, async (tx, database) => ({
    total: await scope.total(tx, database),
    sequence: query.updateSequence ? await database.changes.lastSequence(tx) : undefined,
  }));
  // CouchDB's offset includes the rows before a start key. Counting them would require a scan, so
  // with a start key the offset is reported as unknown.
  const isKnown = query.startId === scope.range.low && query.keys === undefined;
  const offset = isKnown && head.total !== null ? Math.min(query.skip, head.total) : null;
  yield `{"total_rows":${head.total},"offset":${offset}`;
  if (head.sequence !== undefined) yield `,"update_seq":${JSON.stringify(head.sequence)}`;
  yield ',"rows":[';
  let separator = "\r\n";
  for await (const { database, rows } of pages(parts, call, scope, query)) {
    if (call.yielder.isDue) await call.yielder.yield();
    const joined = new JoinedTexts();
    for (const row of rows) {
      const document = query.includeDocuments
        ? documentJson(parts, call, database, row, query)
        : undefined;
      const there = document instanceof Promise ? await document : document;
      for (const piece of rowPieces(separator, row, there)) {
        const ready = joined.add(piece);
        if (ready.length > 0) yield* ready;
      }
      separator = ",\r\n";
    }
    yield* joined.finish();
  }
  yield "\r\n]}\n";
}

interface RowPage {
  readonly database: Database;
  readonly rows: readonly (Row | NoRow)[];
}

function pages(
  parts: DatabaseParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery,
): AsyncIterable<RowPage> {
  return query.keys === undefined
    ? rangePages(parts, call, scope, query)
    : keyPages(parts, call, scope, { ...query, keys: query.keys });
}

async function* rangePages(
  parts: DatabaseParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery,
): AsyncGenerator<RowPage, void, undefined> {
  if (query.isEmpty) return;
  let { startId, skip, limit } = query;
  let last: string | undefined;
  const size = new PageSize(parts.runtime.clock);
  while (limit > 0) {
    const isSkipping = skip > 0;
    const asked = isSkipping ? { ...query, includeDocuments: false } : query;
    const { count, learn } = size.begin();
    const countMax = asked.includeDocuments ? count : PAGE_COUNT_MAX;
    // Each page after the first starts with the last row of the previous page, which is dropped.
    const repeated = last === undefined ? 0 : 1;
    const wanted = Math.min(countMax, isSkipping ? skip : limit) + repeated;
    const { database, page } = await readDatabase(parts, call, async (tx, opened) => ({
      database: opened,
      page: await scope.page(tx, opened, asked, { startId, limit: wanted }),
    }));
    const rows = page.entries;
    // One more row was read, because the first one repeats `last`. If `last` has been deleted
    // since, there is one row too many.
    const unseen = rows.filter(({ id }) => id !== last);
    const fresh = unseen.slice(0, wanted - repeated);
    if (isSkipping) skip -= fresh.length;
    else {
      limit -= fresh.length;
      learn(rows.length, lengthOf(rows));
      if (fresh.length > 0) yield { database, rows: fresh };
    }
    if (page.stoppedBy === "exhausted" && fresh.length === unseen.length) return;
    last = fresh.at(-1)?.id;
    startId = last;
  }
}

async function* keyPages(
  parts: DatabaseParts,
  call: Call,
  scope: Scope,
  query: AllDocumentsQuery & { readonly keys: readonly unknown[] },
): AsyncGenerator<RowPage, void, undefined> {
  const inOrder = query.descending ? [...query.keys].reverse() : query.keys;
  const keys = inOrder.slice(query.skip, query.skip + query.limit);
  const size = new PageSize(parts.runtime.clock);
  let start = 0;
  while (start < keys.length) {
    const { count, learn } = size.begin();
    const countMax = query.includeDocuments ? count : PAGE_KEYS_MAX;
    const page = keys.slice(start, start + countMax);
    const ids = page.filter((key) => typeof key === "string");
    const { database, found } = await readDatabase(parts, call, async (tx, opened) => ({
      database: opened,
      found: await scope.byIds(tx, opened, ids, query),
    }));
    const rows: (Row | NoRow)[] = [];
    let next = 0;
    for (const key of page) {
      const row = typeof key === "string" ? found[next++] : ({ kind: "missing", id: key } as const);
      // The next documents did not fit into the page.
      if (row === undefined) break;
      rows.push(row);
    }
    learn(rows.length, lengthOf(rows));
    start += rows.length;
    yield { database, rows };
  }
}

/** Total length of the documents in the rows. */
function lengthOf(rows: readonly (Row | NoRow)[]): number {
  let length = 0;
  for (const row of rows) {
    if (row.kind === "local") length += row.byteCount;
    if (row.kind === "document") length += row.view?.document.body.length ?? 0;
  }
  return length;
}

function* rowPieces(
  separator: string,
  row: Row | NoRow,
  document: JsonText | LongText | undefined,
): Generator<Piece, void> {
  if (row.kind === "missing") {
    yield `${separator}{"key":${printJson(row.id)},"error":"not_found"}`;
    return;
  }
  const key = JSON.stringify(row.id);
  const deleted = row.kind === "deleted" ? ',"deleted":true' : "";
  const value = `{"rev":${JSON.stringify(row.rev)}${deleted}}`;
  const head = `${separator}{"id":${key},"key":${key},"value":${value}`;
  if (document === undefined) yield `${head}}`;
  else yield* oneLineWithin(`${head},"doc":`, document, "}");
}

/**
 * The document of a row, as JSON text. Returns synchronously unless attachments have to be read.
 */
function documentJson(
  parts: DatabaseParts,
  call: Call,
  database: Database,
  row: Row | NoRow,
  query: AllDocumentsQuery,
): JsonText | LongText | Promise<JsonText | LongText> {
  if (row.kind === "local") return row.json;
  if (row.kind !== "document" || row.view === undefined) return "null";
  return viewJson(parts, database, row.view, query.view, call.request.signal);
}
