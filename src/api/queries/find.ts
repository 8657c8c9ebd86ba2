/**
 * Mango queries (`mango_httpd`): `_find` reads the documents in the order of their ids and tests each against the
 * selector. The only index is that of all documents, so every answer has CouchDB's warning for such a query.
 */
import type { Database } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { PLAIN_VIEW, type ViewOptions } from "../documents/document-options.ts";
import { type DocumentView, viewOf, viewText } from "../documents/document-view.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { PageSize } from "../http/page-size.ts";
import { integerParameter } from "../http/query.ts";
import { inPieces, json, oneLine, streamedJson } from "../http/responses.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { bookmarkOf, type FindQuery, findQuery } from "./find-query.ts";
import { projectDocument } from "./projection.ts";

const ALL_DOCUMENTS_INDEX = {
  ddoc: null,
  name: "_all_docs",
  type: "special",
  def: { fields: [{ _id: "asc" }] },
};
const NO_INDEX_WARNING = "No matching index found, create an index to optimize query time.";

export function findRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("POST", "/{database}/_find", (call) => find(parts, call)),
    defineRoute("POST", "/{database}/_explain", (call) => explain(parts, call)),
    defineRoute("GET", "/{database}/_index", (call) => listIndexes(parts, call)),
    defineRoute("POST", "/{database}/_index", () => refuseIndex()),
    defineRoute("POST", "/{database}/_index/_bulk_delete", () => refuseIndex()),
    defineRoute("DELETE", "/{database}/_index/{rest...}", (call) => missingIndex(parts, call)),
  ];
}

async function find(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const query = await findQuery(call);
  return streamedJson(200, inPieces(texts(parts, call, query)));
}

async function* texts(
  parts: DatabaseParts,
  call: Call,
  query: FindQuery,
): AsyncGenerator<string, void, undefined> {
  const { clock } = parts.runtime;
  const startMs = clock.monotonicMs();
  const scan = new Scan(parts, call, query);
  let separator = '{"docs":[\r\n';
  for await (const text of scan.documents()) {
    yield separator + oneLine(projected(text, query));
    separator = ",\r\n";
  }
  if (scan.returnedCount === 0) yield '{"docs":[';
  yield `\r\n],\r\n"bookmark": ${JSON.stringify(bookmarkOf(scan.lastId))}`;
  if (query.executionStatistics) {
    const statistics = {
      total_keys_examined: scan.examinedCount,
      total_docs_examined: scan.examinedCount,
      total_quorum_docs_examined: 0,
      results_returned: scan.returnedCount,
      execution_time_ms: Math.round((clock.monotonicMs() - startMs) * 1_000) / 1_000,
    };
    yield `,\r\n"execution_stats": ${JSON.stringify(statistics)}`;
  }
  yield `,\r\n"warning": ${JSON.stringify(warning(query))}}\r\n`;
}

/** One pass over the documents that may match. */
class Scan {
  readonly #parts: DatabaseParts;
  readonly #call: Call;
  readonly #query: FindQuery;
  readonly #view: ViewOptions;
  examinedCount = 0;
  returnedCount = 0;
  /** Of the last document that matched, skipped ones included: what the bookmark says. */
  lastId: string | undefined;

  constructor(parts: DatabaseParts, call: Call, query: FindQuery) {
    this.#parts = parts;
    this.#call = call;
    this.#query = query;
    this.#view = { ...PLAIN_VIEW, conflicts: query.conflicts };
    this.lastId = query.bookmark;
  }

  async *documents(): AsyncGenerator<string, void, undefined> {
    const { limit, matches, isEmpty } = this.#query;
    let { skip } = this.#query;
    if (isEmpty || limit === 0) {
      // Also a query that looks at nothing needs a database.
      await readDatabase(this.#parts, this.#call, async () => undefined);
      return;
    }
    for await (const { database, view } of this.#views()) {
      this.examinedCount++;
      if (this.#call.turns.areDue) await this.#call.turns.give();
      const { signal } = this.#call.request;
      const text = await viewText(this.#parts, database, view, this.#view, signal);
      if (!matches(JSON.parse(text))) continue;
      this.lastId = view.document.id;
      if (skip > 0) {
        skip--;
        continue;
      }
      this.returnedCount++;
      yield text;
      if (this.returnedCount === limit) return;
    }
  }

  async *#views(): AsyncGenerator<{ database: Database; view: DocumentView }, void, undefined> {
    const { idBounds, descending, bookmark } = this.#query;
    const [first, last] = descending
      ? [idBounds.high, idBounds.low]
      : [idBounds.low, idBounds.high];
    let startId = bookmark ?? first;
    let seen = bookmark;
    const size = new PageSize();
    for (;;) {
      // The first row may be the last one of the page before.
      const limit = size.count + 1;
      const { database, ids, views } = await readDatabase(
        this.#parts,
        this.#call,
        async (tx, opened) => {
          const page = await opened.allDocuments(tx, {
            ...(startId === undefined ? {} : { startId }),
            ...(last === undefined ? {} : { endId: last }),
            descending,
            limit,
            withDocument: true,
          });
          const documents = page.entries.flatMap(({ document }) => document ?? []);
          return {
            database: opened,
            ids: page.entries.map(({ id }) => id),
            views: await Promise.all(
              documents.map((document) => viewOf(tx, opened, document, this.#view)),
            ),
          };
        },
      );
      for (const view of views) {
        const { id } = view.document;
        if (id !== seen && !id.startsWith("_design/")) yield { database, view };
      }
      if (ids.length < limit) return;
      size.learn(ids.length, lengthOf(views));
      seen = ids.at(-1);
      startId = seen;
    }
  }
}

function lengthOf(views: readonly DocumentView[]): number {
  return views.reduce((length, { document }) => length + document.body.length, 0);
}

function projected(text: string, { paths }: FindQuery): string {
  return paths.length === 0 ? text : projectDocument(text, paths);
}

function warning({ useIndex: [design, view] }: FindQuery): string {
  if (design === undefined) return NO_INDEX_WARNING;
  const reason =
    view === undefined
      ? `_design/${design} was not used because it does not contain a valid index for this query.`
      : `_design/${design}, ${view} was not used because it is not a valid index for this query.`;
  return `${reason}\n${NO_INDEX_WARNING}`;
}

async function explain(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const query = await findQuery(call);
  const database = await readDatabase(parts, call, async (_, { name }) => name);
  const { fields, limit, skip, conflicts, descending, idBounds, ignored } = query;
  const { low = null, high = "<MAX>" } = idBounds;
  const [start_key, end_key] = descending ? [high, low ?? ""] : [low, high];
  return json(200, {
    dbname: database,
    index: ALL_DOCUMENTS_INDEX,
    partitioned: false,
    selector: query.selector,
    opts: {
      use_index: query.useIndex,
      bookmark: bookmarkOf(query.bookmark),
      limit,
      skip,
      sort: query.sort,
      fields,
      partition: "",
      r: ignored.r,
      conflicts,
      stale: ignored.stale,
      update: ignored.update,
      stable: ignored.stable,
      execution_stats: query.executionStatistics,
      allow_fallback: ignored.allow_fallback,
    },
    limit,
    skip,
    fields,
    index_candidates: [],
    selector_hints: [
      {
        type: "json",
        indexable_fields: query.selectorFields.indexable,
        unindexable_fields: query.selectorFields.unindexable,
      },
    ],
    mrargs: {
      include_docs: true,
      view_type: "map",
      reduce: false,
      partition: null,
      start_key,
      end_key,
      direction: descending ? "rev" : "fwd",
      stable: ignored.stable,
      update: ignored.update,
      conflicts: conflicts || "undefined",
    },
    covering: false,
  });
}

async function listIndexes(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  await readDatabase(parts, call, async () => undefined);
  const limit = integerParameter(call, "limit");
  const skip = integerParameter(call, "skip") ?? 0;
  // CouchDB: a 500.
  if (limit === 0) throw badRequest("Index parameter ranges: limit > 1, skip > 0");
  return json(200, { total_rows: 1, indexes: skip === 0 ? [ALL_DOCUMENTS_INDEX] : [] });
}

async function refuseIndex(): Promise<never> {
  const reason = "Mango indexes are not part of Tandem; _find reads all documents.";
  throw new ProtocolError(501, "not_implemented", reason);
}

async function missingIndex(parts: DatabaseParts, call: Call): Promise<never> {
  await readDatabase(parts, call, async () => undefined);
  throw new ProtocolError(404, "not_found", "missing");
}
