/**
 * The changes feed of a server, read in pages (`limit`, and `feed=longpoll` when continuous), which every server answers with one
 * whole JSON text, and which bounds what is held and repeated when a connection breaks.
 */
import type { JsonValue } from "../base/index.ts";
import type {
  ChangedDocument,
  ChangesItem,
  ChangesRequest,
  Selection,
  SourceSequence,
} from "./endpoint.ts";
import { type HttpRequests, query } from "./http-requests.ts";
import { outlineAnswer } from "./json-answer.ts";

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
    parse: outlineChanges,
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

/** How deep the revisions of a row are. */
const REVISION_DEPTH = 5;

/** The answer as `parseChangesPage` takes it; undefined for what is no JSON. */
function outlineChanges(body: Uint8Array): JsonValue | undefined {
  return outlineAnswer(body, REVISION_DEPTH);
}

function parseChangesPage(
  answer: JsonValue | undefined,
  since: SourceSequence,
): ChangesPage | undefined {
  const results = answer?.member("results");
  if (results?.isArray !== true) return undefined;
  const rows = results.elements();
  const changes: ChangedDocument[] = [];
  for (const row of rows) {
    const id = row.member("id")?.string;
    // CouchDB skips rows without an id, too: there is nothing that could be asked for.
    if (id === undefined || id === "" || row.member("changes")?.isArray !== true) continue;
    changes.push(new ChangesRow(id, row));
  }
  const lastRow = rows.at(-1);
  const lastRowSequence = lastRow === undefined ? since : sequenceOf(lastRow);
  const lastSequence = parsed(answer?.member("last_seq")) ?? lastRowSequence;
  return { changes, rowCount: rows.length, lastRowSequence, lastSequence };
}

/** Thousands wait in the queue, so a row stays the bytes that came until it is its turn. */
class ChangesRow implements ChangedDocument {
  readonly id: string;
  readonly #row: JsonValue;

  constructor(id: string, row: JsonValue) {
    this.id = id;
    this.#row = row;
  }

  get sequence(): SourceSequence {
    return sequenceOf(this.#row);
  }

  get revisions(): readonly string[] {
    const listed = this.#row.member("changes")?.elements() ?? [];
    // The first revision of the row is no more (`couch_replicator_changes_reader`).
    const isRemoved = this.#row.member("removed")?.text === "true";
    const present = isRemoved ? listed.slice(1) : listed;
    // One that is no text stays for the list of failures, as what it is.
    return present.map((change) => revisionOf(change.member("rev")));
  }

  get sizeBytes(): number {
    return this.#row.length;
  }
}

function revisionOf(named: JsonValue | undefined): string {
  return named?.string ?? named?.text ?? "";
}

function sequenceOf(row: JsonValue): SourceSequence {
  return parsed(row.member("seq"));
}

function parsed(value: JsonValue | undefined): unknown {
  return value === undefined ? undefined : (value.string ?? JSON.parse(value.text));
}

/** A sequence as a parameter: texts as they are, all else as JSON. */
export function sequenceText(sequence: SourceSequence): string {
  return typeof sequence === "string" ? sequence : JSON.stringify(sequence);
}

function sameSequence(left: SourceSequence, right: SourceSequence): boolean {
  return sequenceText(left) === sequenceText(right);
}
