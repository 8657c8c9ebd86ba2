/** Reads the rows of a changes feed, page by page, and waits for more. */
import { errorCode, type JsonText, type LongText, mapAtOnce, type Page } from "../../base/index.ts";
import {
  type Change,
  type ChangesOfDocuments,
  type Database,
  type Document,
  FIRST_SEQUENCE,
  PageSize,
} from "../../databases/index.ts";
import type { DocumentFilter } from "../../documents/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { readDatabase, writeDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import {
  type DocumentView,
  inlineData,
  viewedDocument,
  viewOf,
} from "../documents/document-view.ts";
import type { Call } from "../http/call.ts";
import { projectDocument } from "../queries/projection.ts";
import type { ChangesFilter, ChangesQuery } from "./changes-query.ts";
import { waitFor } from "./feed-wait.ts";

/** Maximum number of changes per transaction, if documents are not read. */
const PAGE_COUNT_MAX = 1_000;

export interface ChangesPage {
  readonly rows: readonly ChangesRow[];
  /** Sequence of the last change read, whether or not it passed the filter. */
  readonly lastSequence: string;
  readonly isLast: boolean;
}

export interface ChangesRow {
  readonly sequence: string;
  /** JSON of the row up to the closing brace, without the document. */
  readonly text: string;
  readonly document?: JsonText | LongText;
}

/** A filter whose function, if any, has been loaded. */
export type OpenedFilter =
  | { readonly kind: "all" }
  | (ChangesFilter & { readonly kind: "ids" })
  | { readonly kind: "documents"; readonly pass: DocumentFilter };

/** A change, and the parts of its document that were read. */
interface Candidate {
  readonly change: Change;
  /** Revisions to which the filter is applied: the winner, or all leaves. */
  readonly documents: readonly Document[];
  readonly view: DocumentView | undefined;
}

/** A change that passed the filter, with the revisions that passed it. */
interface Passed extends Candidate {
  readonly revisions: readonly string[];
}

export class ChangesReader {
  readonly #parts: DatabaseParts;
  readonly #call: Call;
  readonly #query: ChangesQuery;
  readonly #database: Database;
  readonly #filter: OpenedFilter;
  readonly #until: string | undefined;
  readonly #size: PageSize;
  /**
   * Whether changes are looked up by document id. As in CouchDB, the changes that exist when the
   * feed starts are looked up if the request names few documents. Later changes are scanned,
   * because there are fewer of them.
   */
  #looksUp: boolean;
  #rowCount = 0;

  constructor(
    parts: DatabaseParts,
    call: Call,
    feed: {
      readonly query: ChangesQuery;
      readonly database: Database;
      readonly filter: OpenedFilter;
      /** Last sequence of the feed; later writes are not reported. */
      readonly until: string | undefined;
    },
  ) {
    this.#parts = parts;
    this.#size = new PageSize(parts.runtime.clock);
    this.#call = call;
    this.#query = feed.query;
    this.#database = feed.database;
    this.#filter = feed.filter;
    this.#until = feed.until;
    this.#looksUp = feed.filter.kind === "ids" && feed.filter.few !== undefined;
  }

  get limitIsReached(): boolean {
    return this.#rowCount >= this.#query.limit;
  }

  get hasRows(): boolean {
    return this.#rowCount > 0;
  }

  /** The changes after `since`; in a descending feed, those before `before`. */
  async page(since: string, before?: string): Promise<ChangesPage> {
    const { descending, limit, includeDocuments } = this.#query;
    const filter = this.#filter;
    const needsDocuments = includeDocuments || filter.kind === "documents";
    const { count, learn } = this.#size.begin();
    const countMax = needsDocuments ? count : PAGE_COUNT_MAX;
    const wanted = limit - this.#rowCount;
    const few = this.#looksUp && filter.kind === "ids" ? filter.few : undefined;
    const { changes, candidates } = await this.#read(async (tx, database) => {
      const options = {
        since,
        descending,
        // Without a filter, each change becomes a row, so no more than `wanted` are read.
        limit: filter.kind === "all" ? Math.min(wanted, countMax) : countMax,
        ...(before === undefined ? {} : { before }),
        ...(this.#until === undefined ? {} : { until: this.#until }),
      };
      const page =
        few === undefined
          ? withLastSequence(await database.changes.page(tx, options))
          : await database.changes.pageOf(tx, few, options);
      const looked = page.entries.filter(({ id }) => filter.kind !== "ids" || filter.matches(id));
      if (!needsDocuments) {
        const candidates = looked.map((change) => ({ change, documents: [], view: undefined }));
        return { changes: page, candidates };
      }
      const candidates = await this.#candidates(tx, database, looked);
      if (candidates.length === looked.length) return { changes: page, candidates };
      const lastSequence = candidates.at(-1)?.change.sequence;
      return { changes: { ...page, lastSequence, stoppedBy: "byte-limit" as const }, candidates };
    });
    if (needsDocuments) learn(candidates.length, lengthOf(candidates));
    const sent = (await this.#passing(candidates)).slice(0, wanted);
    const rows: ChangesRow[] = [];
    for (const entry of sent) {
      const row = this.#row(entry);
      rows.push(entry.view === undefined ? row : await this.#withDocument(row, entry.view));
    }
    const isCut = this.limitIsReached && sent.length > 0;
    const lastSequence = isCut ? sent.at(-1)?.change.sequence : changes.lastSequence;
    const isLast = changes.stoppedBy === "exhausted";
    if (isLast) this.#looksUp = false;
    return { rows, lastSequence: lastSequence ?? before ?? since, isLast };
  }

  /** Number of changes that are pending if the feed ends at `sequence`. */
  pendingChangeCount(sequence: string): Promise<number> {
    return this.#read(async (tx, database) => {
      if (!this.#query.descending) return database.changes.pendingCount(tx, sequence);
      const all = await database.changes.pendingCount(tx, FIRST_SEQUENCE);
      // The feed stopped before its first change, so all changes are pending.
      if (sequence === FIRST_SEQUENCE) return all;
      // `- 1` is for the change at `sequence`, which has been read. If the document of that change
      // has changed again in the meantime, the result is one too low.
      return Math.max(0, all - (await database.changes.pendingCount(tx, sequence)) - 1);
    });
  }

  /**
   * Waits for changes after `since`, yielding `heartbeat` whenever one is due. Returns `changed`,
   * `timed-out` after the feed's timeout, or `gone` if the client disconnected or the database was
   * deleted.
   */
  async *wait(
    since: string,
    heartbeat: string,
  ): AsyncGenerator<string, "changed" | "timed-out" | "gone", undefined> {
    const { clock } = this.#parts.runtime;
    const { signal } = this.#call.request;
    const { heartbeatMs, timeoutMs } = this.#query;
    const changed = (either: AbortSignal) => this.#changed(since, either);
    return yield* waitFor(changed, { clock, signal, heartbeatMs, timeoutMs, heartbeat });
  }

  async #changed(since: string, signal: AbortSignal): Promise<"changed" | "gone"> {
    try {
      const watch = await writeDatabase(
        this.#parts,
        this.#call,
        async (tx, database) => {
          if (database.uuid !== this.#database.uuid) await this.#database.assertExists(tx);
          const page = await database.changes.page(tx, { since, limit: 1 });
          return page.entries.length > 0 ? undefined : database.changes.watch(tx);
        },
        { whenUnknown: "retry" },
      );
      if (watch === undefined) return "changed";
      try {
        await watch.fired(signal);
      } finally {
        watch.cancel();
      }
      await this.#read(async () => undefined);
      return "changed";
    } catch (error) {
      if (signal.aborted || errorCode(error) === "STORE_DATABASE_NOT_FOUND") return "gone";
      throw error;
    }
  }

  /**
   * Reads in a transaction. Throws STORE_DATABASE_NOT_FOUND if the database was deleted, even if
   * another database has been created under the same name.
   */
  #read<T>(body: (tx: ReadTransaction, database: Database) => Promise<T>): Promise<T> {
    return readDatabase(this.#parts, this.#call, async (tx, database) => {
      if (database.uuid !== this.#database.uuid) await this.#database.assertExists(tx);
      return body(tx, database);
    });
  }

  /** Reads the documents of the leading changes that fit into a page. */
  async #candidates(
    tx: ReadTransaction,
    database: Database,
    changes: readonly Change[],
  ): Promise<Candidate[]> {
    const { includeDocuments, allLeaves, view: options } = this.#query;
    const ids = changes.map(({ id }) => id);
    const isOfLeaves = this.#filter.kind === "documents" && allLeaves;
    const read = await database.documents.candidates(tx, ids, { allLeaves: isOfLeaves });
    return mapAtOnce(read, async (documents, index) => {
      const [winner] = documents;
      const shown = includeDocuments && winner !== undefined;
      return {
        change: changes[index] as Change,
        documents,
        view: shown ? await viewOf(tx, database, winner, options) : undefined,
      };
    });
  }

  /**
   * Returns the changes that pass the filter. Called outside the transaction, because a filter
   * function can run for a long time.
   */
  async #passing(candidates: readonly Candidate[]): Promise<Passed[]> {
    const filter = this.#filter;
    if (filter.kind !== "documents") {
      return candidates.map((candidate) => {
        const { change, documents, view } = candidate;
        const revisions = this.#query.allLeaves
          ? change.leaves.map(({ revision }) => revision)
          : [change.winner];
        return { change, documents, view, revisions };
      });
    }
    const passes = await filter.pass(candidates.flatMap(({ documents }) => documents));
    let next = 0;
    return candidates
      .map((candidate) => {
        const passing = candidate.documents.filter(() => passes[next++]);
        return { ...candidate, revisions: passing.map(({ revision }) => revision) };
      })
      .filter(({ revisions }) => revisions.length > 0);
  }

  #row({ change: { sequence, id, deleted }, revisions }: Passed): ChangesRow {
    this.#rowCount++;
    // As in CouchDB, rows are counted from one.
    const tellsSequence = (this.#rowCount + 1) % this.#query.sequenceInterval === 0;
    const head = `{"seq":${tellsSequence ? `"${sequence}"` : null},"id":${JSON.stringify(id)}`;
    const changes = revisions.map((revision) => `{"rev":${JSON.stringify(revision)}}`);
    const text = `${head},"changes":[${changes.join(",")}]${deleted ? ',"deleted":true' : ""}`;
    return { sequence, text };
  }

  async #withDocument(row: ChangesRow, view: DocumentView): Promise<ChangesRow> {
    const { signal } = this.#call.request;
    const { filter, view: options } = this.#query;
    const data = await inlineData(this.#parts, this.#database, view, options, signal);
    const document = viewedDocument(view, options, data);
    const fields = filter.kind === "selector" ? filter.fields : undefined;
    const shown =
      fields === undefined
        ? document.json()
        : await projectDocument(document, fields, this.#call.yielder);
    return { ...row, document: shown };
  }
}

function withLastSequence(page: Page<Change>): ChangesOfDocuments {
  return { ...page, lastSequence: page.entries.at(-1)?.sequence };
}

/** Total length of the documents' bodies. */
function lengthOf(candidates: readonly Candidate[]): number {
  const lengths = candidates.flatMap(({ documents }) => documents.map(({ body }) => body.length));
  return lengths.reduce((sum, length) => sum + length, 0);
}
