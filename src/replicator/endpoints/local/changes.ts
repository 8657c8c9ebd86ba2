/**
 * The changes of a local database, read in pages. A continuous feed waits for new changes with a
 * watch.
 */
import {
  type Change,
  type ChangesOfDocuments,
  type ChangesOptions,
  type Database,
  LOOKED_UP_MAX,
} from "../../../databases/index.ts";
import type { ReadTransaction } from "../../../kv/index.ts";
import { ProtocolError, sinceTime } from "../../../protocol/index.ts";
import {
  type ChangedDocument,
  type ChangesItem,
  type ChangesRequest,
  EndpointError,
  type SourceSequence,
} from "../endpoint.ts";
import type { LocalAccess } from "./access.ts";
import { type LocalSelection, openLocalSelection } from "./selection.ts";

/** Maximum number of changes per read. */
const CHANGES_ROWS_MAX = 1000;

export async function* readLocalChanges(
  access: LocalAccess,
  request: ChangesRequest,
  signal: AbortSignal,
): AsyncIterable<readonly ChangesItem[]> {
  let changed = request.showsEnd === true;
  const select = await openSelection(access, request, signal);
  let range: AskedRange | undefined;
  // If few ids are selected, look up their existing changes by id. Later changes are found by
  // scanning the feed, which contains few of them.
  let few = fewIds(request);
  for (;;) {
    signal.throwIfAborted();
    const left = range;
    const { asked, page } = await access.read(async (tx, database) => {
      const asked = left ?? (await wholeRange(tx, database, request));
      return { asked, page: await readPage(tx, database, few, asked) };
    });
    let { since } = asked;
    few = undefined;
    const revisions = await select(page.entries).catch((error: unknown) => {
      throw access.shown(error);
    });
    const items: ChangesItem[] = page.entries.flatMap((change, index) =>
      changedDocument(change, revisions[index] ?? []),
    );
    changed ||= items.length > 0;
    if (page.lastSequence !== undefined) {
      since = page.lastSequence;
      // Report the sequence of the last row, so that changes skipped by the selection need not be
      // read again.
      const isPassed = items.at(-1)?.sequence !== since;
      if (isPassed && (changed || request.continuous)) items.push({ sequence: since });
    }
    range = { ...asked, since };
    if (items.length > 0) yield items;
    if (page.stoppedBy !== "exhausted") continue;
    if (!request.continuous) return;
    await nextChange(access, since, signal);
  }
}

/** The range of the feed that is left to read. Without `until`, it has no end. */
type AskedRange = Required<Pick<ChangesOptions, "since">> & Pick<ChangesOptions, "until">;

async function wholeRange(
  tx: ReadTransaction,
  database: Database,
  { since, continuous }: ChangesRequest,
): Promise<AskedRange> {
  const begin = await startOf(tx, database, since);
  if (continuous) return { since: begin };
  // A one-shot job copies only the changes that exist when it starts.
  return { since: begin, until: await database.changes.lastSequence(tx) };
}

/** Returns the selected ids; undefined if there are too many to look up individually. */
function fewIds({ selection }: ChangesRequest): readonly string[] | undefined {
  if (selection.kind !== "doc-ids") return undefined;
  const ids = [...new Set(selection.ids)];
  return ids.length > LOOKED_UP_MAX ? undefined : ids;
}

async function readPage(
  tx: ReadTransaction,
  database: Database,
  few: readonly string[] | undefined,
  range: AskedRange,
): Promise<ChangesOfDocuments> {
  if (few !== undefined) return database.changes.pageOf(tx, few, range);
  const page = await database.changes.page(tx, { ...range, limit: CHANGES_ROWS_MAX });
  return { ...page, lastSequence: page.entries.at(-1)?.sequence };
}

/**
 * Converts a source sequence to a string. 0 is the beginning of the feed, where a replication
 * without a checkpoint starts. A time that the user specified (`since_seq`) is converted to the
 * sequence at that time.
 */
export async function startOf(
  tx: ReadTransaction,
  { times }: Database,
  sequence: SourceSequence,
): Promise<string> {
  const text = String(sequence);
  const timeMs = timeOf(text);
  return timeMs === undefined ? text : times.sequenceSince(tx, timeMs);
}

function timeOf(text: string): number | undefined {
  try {
    return sinceTime(text);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new EndpointError("changes_req_failed", `since_seq is ${text}: ${error.reason}`);
  }
}

async function openSelection(
  access: LocalAccess,
  { selection, winningRevisionsOnly }: ChangesRequest,
  signal: AbortSignal,
): Promise<LocalSelection> {
  const { runtime, functions } = access.parts;
  const user = await access.user();
  const read = access.read.bind(access);
  const parts = { runtime, functions, name: access.name, read, user, signal };
  try {
    return await openLocalSelection(parts, selection, { winningRevisionsOnly });
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw access.shown(error);
    throw new EndpointError("filter_fetch_error", error.reason, { cause: error });
  }
}

/** Waits until the database changes after `since`. */
async function nextChange(access: LocalAccess, since: string, signal: AbortSignal): Promise<void> {
  const { kv, databases } = access.parts;
  const watch = await kv.transact(async (tx) => {
    const database = await databases.open(tx, access.name);
    const changed = database.changes.watch(tx);
    const page = await database.changes.page(tx, { since, limit: 1 });
    if (page.entries.length === 0) return changed;
    changed.cancel();
    return undefined;
  });
  try {
    await watch?.fired(signal);
  } finally {
    watch?.cancel();
  }
}

function changedDocument(
  { id, sequence, deleted }: Change,
  revisions: readonly string[],
): readonly ChangedDocument[] {
  if (revisions.length === 0) return [];
  const sizeBytes = id.length + 50 * revisions.length + 100;
  return [{ id, sequence, revisions, isDeleted: deleted, sizeBytes }];
}
