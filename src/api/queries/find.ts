/**
 * Mango queries (`mango_httpd`): `_find` reads the documents named by an index, or all of them in
 * id order, and tests each against the selector. If the entries of the index contain everything
 * that is requested, no documents are read.
 */
import { type JsonText, printJson } from "../../base/index.ts";
import { type Database, PageSize, shareOf } from "../../databases/index.ts";
import type { Entry, EntryRange, FieldRange, Index } from "../../indexes/index.ts";
import { isNamedBy } from "../../indexes/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { existingDatabaseName, readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { PLAIN_VIEW, type ViewOptions } from "../documents/document-options.ts";
import {
  type DocumentView,
  type ViewedDocument,
  viewedDocument,
  viewedText,
  viewOf,
} from "../documents/document-view.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { inPieces, jsonText, oneLineWithin, type Piece, streamedJson } from "../http/responses.ts";
import { MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { explanation } from "./explanation.ts";
import {
  type Bookmark,
  bookmarkText,
  type FindQuery,
  findQuery,
  invalid,
  invalidBookmark,
} from "./find-query.ts";
import { indexRefusal, indexState, isCovered, type Plan, planOf, shortName } from "./plan.ts";
import { documentOf, projectDocument } from "./projection.ts";

const NO_INDEX_WARNING = "No matching index found, create an index to optimize query time.";
const SCAN_WARNING =
  "The number of documents examined is high in proportion to the number of results returned. Consider adding a more specific index to improve this.";
/** CouchDB's `[mango] index_scan_warning_threshold`: documents read per document returned. */
const SCAN_WARNING_RATIO = 10;

type Chosen = Plan & { readonly kind: "chosen" };

export function findRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("POST", "/{database}/_find", MEMBER, (call) => find(parts, call)),
    defineRoute("POST", "/{database}/_explain", MEMBER, (call) => explain(parts, call)),
  ];
}

async function find(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const query = await findQuery(call);
  const plan = await readyPlan(parts, call, query);
  return streamedJson(inPieces(texts(parts, call, query, plan)));
}

/** The plan of a query, after waiting until its index is complete. */
async function readyPlan(parts: DatabaseParts, call: Call, query: FindQuery): Promise<Chosen> {
  for (;;) {
    const plan = await planOf(parts, call, query);
    if (plan.kind === "none-usable") {
      const reason = "No index exists for this sort, try indexing by the sort fields.";
      throw invalid("no_usable_index", reason);
    }
    const { source } = plan.index;
    const { bookmark } = query;
    const isBookmarkOfPlan =
      bookmark === undefined ||
      ("id" in bookmark ? source === undefined : bookmark.index === source?.number);
    if (!isBookmarkOfPlan) throw invalidBookmark(bookmarkText(bookmark));
    if (source === undefined) return plan;
    const { signal } = call.request;
    const { database, state } = await indexState(parts, call, source.number);
    if (state?.isReady) return plan;
    if (await parts.indexBuilds.whenReady(database, source.number, signal)) return plan;
    // The index was removed while it was being built: plan again.
  }
}

async function* texts(
  parts: DatabaseParts,
  call: Call,
  query: FindQuery,
  plan: Chosen,
): AsyncGenerator<Piece, void, undefined> {
  const { clock } = parts.runtime;
  const startMs = clock.monotonicMs();
  const scan = new Scan(parts, call, query, plan);
  let separator = '{"docs":[\r\n';
  for await (const document of scan.documents()) {
    const json =
      query.paths.length === 0
        ? document.json()
        : await projectDocument(document, query.paths, call.yielder);
    yield* oneLineWithin(separator, json, "");
    separator = ",\r\n";
  }
  if (scan.returnedCount === 0) yield '{"docs":[';
  yield `\r\n],\r\n"bookmark": ${JSON.stringify(bookmarkText(scan.bookmark))}`;
  if (query.executionStatistics && !scan.hidesDocuments) {
    // With `r` above 1, CouchDB reads documents separately from the index and counts them in
    // `total_quorum_docs_examined`.
    const isQuorum = query.ignored.r > 1;
    const statistics = {
      total_keys_examined: scan.keyCount,
      total_docs_examined: isQuorum ? 0 : scan.examinedCount,
      total_quorum_docs_examined: isQuorum ? scan.examinedCount : 0,
      results_returned: scan.returnedCount,
      execution_time_ms: Math.round((clock.monotonicMs() - startMs) * 1_000) / 1_000,
    };
    yield `,\r\n"execution_stats": ${JSON.stringify(statistics)}`;
  }
  const warnings = [...indexWarnings(query, plan), ...scan.warnings];
  if (warnings.length > 0) yield `,\r\n"warning": ${JSON.stringify(warnings.join("\n"))}`;
  yield "}\r\n";
}

/** A document that might match, or its values in an index entry. `bookmark` continues after it. */
type Found = (FoundDocument | { readonly covered: JsonText }) & { readonly bookmark: Bookmark };

interface FoundDocument {
  readonly database: Database;
  readonly view: DocumentView;
}

/** One pass over the documents that might match. */
class Scan {
  readonly #parts: DatabaseParts;
  readonly #call: Call;
  readonly #query: FindQuery;
  readonly #plan: Chosen;
  readonly #view: ViewOptions;
  keyCount = 0;
  examinedCount = 0;
  returnedCount = 0;
  /** Whether some documents are hidden from the reader. Their number must not be revealed. */
  hidesDocuments = false;
  /** Bookmark of the last match, including matches that `skip` leaves out. */
  bookmark: Bookmark | undefined;

  constructor(parts: DatabaseParts, call: Call, query: FindQuery, plan: Chosen) {
    this.#parts = parts;
    this.#call = call;
    this.#query = query;
    this.#plan = plan;
    this.#view = { ...PLAIN_VIEW, conflicts: query.conflicts };
    this.bookmark = query.bookmark;
  }

  get warnings(): readonly string[] {
    if (this.hidesDocuments) return [];
    const ratio = this.examinedCount / Math.max(1, this.returnedCount);
    return ratio > SCAN_WARNING_RATIO ? [SCAN_WARNING] : [];
  }

  async *documents(): AsyncGenerator<ViewedDocument, void, undefined> {
    const { limit, documentSelector, isEmpty, idBounds, executionStatistics } = this.#query;
    let { skip } = this.#query;
    const { index, ranges } = this.#plan;
    const { request, user } = this.#call;
    const share = shareOf(existingDatabaseName(this.#call), user.name);
    const limits = { ...this.#parts.functions, share, signal: request.signal };
    const isNothingInRange =
      index.source === undefined
        ? idBounds.isEmpty === true
        : ranges.some((range, at) => range === "empty" && index.columns[at] !== "_id");
    if (isEmpty || (limit === 0 && !executionStatistics) || isNothingInRange) {
      // A query that reads nothing still needs an existing database.
      await readDatabase(this.#parts, this.#call, async (_, database) => this.#note(database));
      return;
    }
    for await (const found of this.#found()) {
      this.keyCount++;
      if (this.#call.yielder.isDue) await this.#call.yielder.yield();
      const document =
        "covered" in found
          ? viewedText(() => found.covered, found.covered.length)
          : this.#read(found);
      if (!(await documentSelector.matches(document, limits))) continue;
      // Like CouchDB, stops only at the first match after the page. The statistics include the
      // documents up to that match.
      if (this.returnedCount === limit) return;
      this.bookmark = found.bookmark;
      if (skip > 0) {
        skip--;
        continue;
      }
      this.returnedCount++;
      yield document;
      const isCounting = executionStatistics && !this.hidesDocuments;
      if (this.returnedCount === limit && !isCounting) return;
    }
  }

  #note({ hasReadRule }: Database): void {
    this.hidesDocuments = hasReadRule;
  }

  #read({ view }: FoundDocument): ViewedDocument {
    this.examinedCount++;
    return viewedDocument(view, this.#view);
  }

  #found(): AsyncGenerator<Found, void, undefined> {
    const { source } = this.#plan.index;
    return source === undefined ? this.#byId() : this.#byIndex(source);
  }

  async *#byIndex(index: Index): AsyncGenerator<Found, void, undefined> {
    const { bookmark, descending, limit: wanted, skip } = this.#query;
    const range = entryRange(index, this.#plan);
    let after = bookmark !== undefined && "place" in bookmark ? bookmark.place : undefined;
    const size = new PageSize(this.#parts.runtime.clock);
    for (;;) {
      // Assumes that each entry will be a result, as is usual. Otherwise more pages are read.
      const { count, learn } = size.begin();
      const limit = Math.min(count, wanted + skip);
      const options = { range, after, descending, limit };
      const { found, last, isLast } = await readDatabase(
        this.#parts,
        this.#call,
        async (tx, database) => {
          const page = await this.#parts.indexes.entries(tx, database, index, options);
          const { found, read } = await this.#ofEntries(tx, database, index, page.entries);
          const isWhole = read.length === page.entries.length;
          return {
            found,
            last: read.at(-1)?.place,
            isLast: isWhole && page.stoppedBy === "exhausted",
          };
        },
      );
      learn(found.length, lengthOf(found));
      yield* found;
      if (isLast || last === undefined) return;
      after = last;
    }
  }

  /**
   * Returns the values in the entries if they suffice for the query, otherwise the documents.
   * `read` are the leading entries whose documents fit into a page.
   */
  async #ofEntries(
    tx: ReadTransaction,
    database: Database,
    index: Index,
    entries: readonly Entry[],
  ): Promise<{ readonly found: Found[]; readonly read: readonly Entry[] }> {
    const isCovering = isCovered(this.#plan.index, this.#query);
    const coveredBy = ({ values }: Entry): Uint8Array | undefined =>
      isCovering ? values : undefined;
    const ids = entries.filter((entry) => coveredBy(entry) === undefined).map(({ id }) => id);
    const winners = ids.length === 0 ? [] : await database.documents.pageOfWinners(tx, ids);
    const documents = new Map(winners.map((winner, at) => [ids[at], winner]));
    let askedCount = 0;
    const unread = entries.findIndex(
      (entry) => coveredBy(entry) === undefined && askedCount++ === winners.length,
    );
    const read = unread < 0 ? entries : entries.slice(0, unread);
    const found = read.map(async (entry): Promise<Found[]> => {
      const { id, place } = entry;
      const bookmark = { index: index.number, place };
      const covered = coveredBy(entry);
      if (covered !== undefined) {
        const values = [[["_id"], JSON.stringify(id)] as const, ...index.decodeValues(covered)];
        return [{ bookmark, covered: documentOf(values) }];
      }
      const document = documents.get(id);
      if (document === undefined) return [];
      return [{ bookmark, database, view: await viewOf(tx, database, document, this.#view) }];
    });
    return { found: (await Promise.all(found)).flat(), read };
  }

  async *#byId(): AsyncGenerator<Found, void, undefined> {
    const { idBounds, descending, bookmark } = this.#query;
    const [first, last] = descending
      ? [idBounds.high, idBounds.low]
      : [idBounds.low, idBounds.high];
    let seen = bookmark !== undefined && "id" in bookmark ? bookmark.id : undefined;
    let startId = seen ?? first;
    const size = new PageSize(this.#parts.runtime.clock);
    for (;;) {
      // The first row can be a repetition of the last row of the previous page.
      const { count, learn } = size.begin();
      const limit = count + 1;
      const { database, ids, isLast, views } = await readDatabase(
        this.#parts,
        this.#call,
        async (tx, opened) => {
          const page = await opened.allDocuments.page(tx, {
            ...(startId === undefined ? {} : { startId }),
            ...(last === undefined ? {} : { endId: last }),
            descending,
            limit,
            withDocument: true,
          });
          this.#note(opened);
          const documents = page.entries.flatMap(({ document }) => document ?? []);
          return {
            database: opened,
            ids: page.entries.map(({ id }) => id),
            isLast: page.stoppedBy === "exhausted",
            views: await Promise.all(
              documents.map((document) => viewOf(tx, opened, document, this.#view)),
            ),
          };
        },
      );
      learn(ids.length, lengthOf(views.map((view) => ({ view }))));
      for (const view of views) {
        const { id } = view.document;
        if (id !== seen && !id.startsWith("_design/")) yield { database, view, bookmark: { id } };
      }
      if (isLast) return;
      seen = ids.at(-1);
      startId = seen;
    }
  }
}

function lengthOf(
  found: readonly (Pick<FoundDocument, "view"> | { readonly covered: JsonText })[],
): number {
  const lengths = found.map(
    (each) => ("covered" in each ? each.covered : each.view.document.body).length,
  );
  return lengths.reduce((sum, length) => sum + length, 0);
}

/** Range of the entries that might match. */
function entryRange(index: Index, plan: Chosen): EntryRange {
  const fields: FieldRange[] = [];
  for (const [at, range] of plan.ranges.entries()) {
    if (range === "empty") break;
    const { low, high } = range;
    if (low.operator === "$eq") fields.push({ equal: low.value });
    // Index entries sort ids by the collation, but selectors compare the bytes of ids.
    else if (plan.index.columns[at] === "_id") break;
    else {
      fields.push({
        ...("value" in low ? { low: { value: low.value } } : {}),
        ...("value" in high ? { high: { value: high.value } } : {}),
      });
    }
  }
  return index.range(fields);
}

function indexWarnings({ useIndex }: FindQuery, { index }: Chosen): string[] {
  const [design, name] = useIndex;
  const warnings: string[] = [];
  if (design !== undefined && !isNamedBy(index, useIndex)) {
    warnings.push(
      name === undefined
        ? `_design/${shortName(design)} was not used because it does not contain a valid index for this query.`
        : `_design/${shortName(design)}, ${name} was not used because it is not a valid index for this query.`,
    );
  }
  if (index.source === undefined) warnings.push(NO_INDEX_WARNING);
  return warnings;
}

async function explain(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const query = await findQuery(call);
  const plan = await planOf(parts, call, query);
  if (plan.kind === "none-usable" && !query.allowFallback) throw indexRefusal(query);
  const name = await readDatabase(parts, call, async (_, database) => database.name);
  return jsonText(200, printJson(explanation(name, query, plan)));
}
