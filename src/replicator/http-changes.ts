/**
 * The changes feed of a server, read in pages (`limit`, and `feed=longpoll` when continuous), which every server answers with one
 * whole JSON text, and which bounds what is held and repeated when a connection breaks.
 */
import type {
  ChangedDocument,
  ChangesItem,
  ChangesRequest,
  Selection,
  SourceSequence,
} from "./endpoint.ts";
import { type HttpRequests, query } from "./http-requests.ts";
import { asObject } from "./json-answer.ts";

/** Rows of one page of changes: a few hundred kilobytes. */
const CHANGES_ROWS_MAX = 2000;

/** `timeoutMs`: how long the server may hold an answer back while nothing changes. */
export async function* readHttpChanges(
  requests: HttpRequests,
  timeoutMs: number,
  request: ChangesRequest,
  signal: AbortSignal,
): AsyncIterable<readonly ChangesItem[]> {
  let since = request.since;
  let changeCount = 0;
  let { selection } = request;
  for (;;) {
    const asked = { ...request, selection };
    const answered = await readPage(requests, timeoutMs, asked, since, signal);
    if (answered === "no-doc-ids") {
      // An old server: it tells of all documents, and we choose.
      selection = { kind: "all" };
      continue;
    }
    const page = selection === request.selection ? answered : chosen(answered, request.selection);
    changeCount += page.changes.length;
    const items = page.changes.map((change): ChangesItem => ({ kind: "change", change }));
    const ended = page.rowCount < CHANGES_ROWS_MAX;
    // A filtered feed may have passed more than its last row; what it passed need not be read again.
    if (ended && changeCount > 0 && !sameSequence(page.lastSequence, page.lastRowSequence)) {
      items.push({ kind: "position", sequence: page.lastSequence });
    } else if (ended && request.continuous && !sameSequence(page.lastSequence, since)) {
      items.push({ kind: "position", sequence: page.lastSequence });
    }
    if (items.length > 0) yield items;
    since = ended ? page.lastSequence : page.lastRowSequence;
    if (ended && !request.continuous) return;
  }
}

async function readPage(
  requests: HttpRequests,
  timeoutMs: number,
  request: ChangesRequest,
  since: SourceSequence,
  signal: AbortSignal,
): Promise<ChangesPage | "no-doc-ids"> {
  const { selection, continuous, winningRevisionsOnly } = request;
  const parameters: Record<string, string> = {
    feed: continuous ? "longpoll" : "normal",
    style: winningRevisionsOnly ? "main_only" : "all_docs",
    since: sequenceText(since),
    timeout: String(timeoutMs),
    limit: String(CHANGES_ROWS_MAX),
  };
  let body: string | undefined;
  if (selection.kind === "doc-ids") {
    parameters.filter = "_doc_ids";
    body = JSON.stringify({ doc_ids: selection.ids });
  } else if (selection.kind === "selector") {
    parameters.filter = "_selector";
    body = JSON.stringify({ selector: selection.selector });
  } else if (selection.kind === "filter") {
    parameters.filter = selection.name;
    for (const [name, value] of Object.entries(selection.queryParameters)) {
      parameters[name] ??= typeof value === "string" ? value : JSON.stringify(value);
    }
  }
  const path = `_changes${query(parameters)}`;
  const response = await requests.ask(body === undefined ? "GET" : "POST", path, {
    ...(body === undefined ? {} : { body }),
    signal,
  });
  const { text, json } = response;
  if (response.status === 405 && selection.kind === "doc-ids") return "no-doc-ids";
  if (response.status === 401 || response.status === 403) throw requests.refused(response.status);
  const page = response.status === 200 ? parseChangesPage(json, since) : undefined;
  if (page === undefined) throw requests.unexpected("changes_req_failed", path, response, text);
  return page;
}

/** Of a page of all changes, those of the named documents. */
function chosen(page: ChangesPage, selection: Selection): ChangesPage {
  const ids = new Set(selection.kind === "doc-ids" ? selection.ids : []);
  return { ...page, changes: page.changes.filter(({ id }) => ids.has(id)) };
}

interface ChangesPage {
  readonly changes: readonly ChangedDocument[];
  readonly rowCount: number;
  readonly lastRowSequence: SourceSequence;
  readonly lastSequence: SourceSequence;
}

interface ChangesRow {
  readonly seq: unknown;
  readonly id?: unknown;
  readonly changes?: readonly { readonly rev: string }[];
  /** The first revision of the row is no more (`couch_replicator_changes_reader`). */
  readonly removed?: unknown;
}

function parseChangesPage(json: unknown, since: SourceSequence): ChangesPage | undefined {
  const body = asObject(json);
  if (!Array.isArray(body?.results)) return undefined;
  const rows = body.results as ChangesRow[];
  const changes: ChangedDocument[] = [];
  for (const { id, seq, changes: listed, removed } of rows) {
    // CouchDB skips rows without an id, too: there is nothing that could be asked for.
    if (typeof id !== "string" || id === "" || !Array.isArray(listed)) continue;
    const revisions = removed === true ? listed.slice(1) : listed;
    changes.push({
      id,
      sequence: seq,
      revisions: revisions.map(({ rev }) => rev),
      sizeBytes: id.length + 50 * revisions.length + 150,
    });
  }
  const lastRowSequence = rows.length === 0 ? since : (rows.at(-1) as ChangesRow).seq;
  const lastSequence = body.last_seq ?? lastRowSequence;
  return { changes, rowCount: rows.length, lastRowSequence, lastSequence };
}

/** A sequence as a parameter: texts as they are, all else as JSON. */
export function sequenceText(sequence: SourceSequence): string {
  return typeof sequence === "string" ? sequence : JSON.stringify(sequence);
}

function sameSequence(left: SourceSequence, right: SourceSequence): boolean {
  return sequenceText(left) === sequenceText(right);
}
