/**
 * The changes feed of a server. A continuous job reads the feed in pages (`limit` and
 * `feed=longpoll`); each page is one JSON text. Paging limits the memory used, and the work that is
 * repeated if a connection breaks. A one-shot job reads a single response to its end
 * (`changes-snapshot.ts`).
 */
import type { JsonValue } from "../../../base/index.ts";
import {
  type ChangedDocument,
  type ChangesItem,
  type ChangesRequest,
  FAR_MS_MIN,
  isSamePosition,
  type SourceSequence,
} from "../endpoint.ts";
import { CHANGES_ANSWER } from "./answer-budget.ts";
import {
  askedChanges,
  changesFailed,
  chooser,
  type FeedOptions,
  knowsNoIds,
} from "./changes-request.ts";
import {
  changesOf,
  lastSequenceOf,
  REVISION_DEPTH,
  saysWhere,
  sequenceValue,
} from "./changes-row.ts";
import { readChangesSnapshot } from "./changes-snapshot.ts";
import { NESTING_MAX } from "./json-answer.ts";
import type { HttpRequests, Outline } from "./requests.ts";
import type { ServerWords } from "./server-words.ts";

/** Rows per page of changes. A page takes a few hundred kilobytes. */
const CHANGES_ROWS_MAX = 2000;
/** Maximum number of rows per page from a distant server. There, each page costs a round trip. */
const FAR_ROWS_MAX = 16_000;
/** Maximum size of a page from a distant server. */
const FAR_BYTES_MAX = 4 * 1024 * 1024;
/** Nesting level of the rows in a response. */
const ROWS_DEPTH = 2;

/** Scanning depth of a page of changes: down to the revisions. */
const PAGE: Outline = { depthMax: ROWS_DEPTH + REVISION_DEPTH, nestingMax: NESTING_MAX };

export function readHttpChanges(
  requests: HttpRequests,
  options: FeedOptions,
  request: ChangesRequest,
  signal: AbortSignal,
): AsyncIterable<readonly ChangesItem[]> {
  const read = request.continuous ? readPages : readChangesSnapshot;
  return read(requests, options, request, signal);
}

async function* readPages(
  requests: HttpRequests,
  { timeoutMs }: FeedOptions,
  request: ChangesRequest,
  signal: AbortSignal,
): AsyncIterable<readonly ChangesItem[]> {
  let { since, selection } = request;
  const choose = chooser(request.selection);
  let rowsMax = CHANGES_ROWS_MAX;
  for (;;) {
    const asked = { ...request, selection, since };
    const page = await readPage(requests, { timeoutMs, rowsMax }, asked, signal);
    if (page === "no-doc-ids") {
      selection = { kind: "all" };
      continue;
    }
    const items: ChangesItem[] = [...choose(page.changes)];
    const ended = page.rowCount < rowsMax;
    const isFar = (requests.roundTripMs ?? 0) >= FAR_MS_MIN;
    rowsMax = ended || !isFar ? CHANGES_ROWS_MAX : moreRows(rowsMax, page.changes);
    // Report the end of the feed, because a filter might have skipped changes after the last row.
    // The next run then does not read these changes again.
    const passed = items.length > 0 ? page.lastRowSequence : since;
    if (ended && !isSamePosition(page.lastSequence, passed)) {
      items.push({ sequence: page.lastSequence });
    }
    if (items.length > 0) yield items;
    const next = ended ? page.lastSequence : page.lastRowSequence;
    // Pause before the next request: a server that responds immediately without changes would
    // otherwise be polled in a tight loop.
    if (isSamePosition(next, since)) await requests.pause(signal);
    since = next;
  }
}

/**
 * Returns the row limit for the next page: twice the last limit, but no more rows than fit into a
 * page at the current row length.
 */
function moreRows(rowsMax: number, changes: readonly ChangedDocument[]): number {
  const byteCount = changes.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const fitting = Math.floor((FAR_BYTES_MAX * changes.length) / Math.max(1, byteCount));
  return Math.max(CHANGES_ROWS_MAX, Math.min(rowsMax * 2, FAR_ROWS_MAX, fitting));
}

interface ChangesPage {
  readonly changes: readonly ChangedDocument[];
  readonly rowCount: number;
  readonly lastRowSequence: SourceSequence;
  readonly lastSequence: SourceSequence;
}

async function readPage(
  requests: HttpRequests,
  { timeoutMs, rowsMax }: { readonly timeoutMs: number; readonly rowsMax: number },
  request: ChangesRequest,
  signal: AbortSignal,
): Promise<ChangesPage | "no-doc-ids"> {
  const feed = { feed: "longpoll", timeout: String(timeoutMs), limit: String(rowsMax) };
  const { method, path, ...body } = askedChanges(request, request.since, feed);
  const response = await requests.ask(method, path, {
    ...body,
    budget: CHANGES_ANSWER,
    outline: PAGE,
    signal,
  });
  const { status, text, json } = response;
  if (knowsNoIds(status, request.selection)) return "no-doc-ids";
  const page = status === 200 ? parseChangesPage(json, request.since, requests.words) : undefined;
  if (page === undefined) throw changesFailed(requests, path, { status, text }, request);
  return page;
}

function parseChangesPage(
  answer: JsonValue | undefined,
  since: SourceSequence,
  words: ServerWords,
): ChangesPage | undefined {
  const results = answer?.member("results");
  if (results?.isArray !== true) return undefined;
  const lastSequence = sequenceValue(answer?.member("last_seq"));
  if (!saysWhere(lastSequence)) return undefined;
  const rows = results.elements();
  const lastRowSequence = lastSequenceOf(rows, since);
  return { changes: changesOf(rows, words), rowCount: rows.length, lastRowSequence, lastSequence };
}
