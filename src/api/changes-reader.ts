/** The rows of a changes feed, page by page, and the wait for more of them. */
import { errorCode } from "../base/index.ts";
import type { Change, Database } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { renderStoredDocument } from "../replicator/index.ts";
import type { ApiParts } from "./api.ts";
import type { Call } from "./call.ts";
import type { ChangesFilter, ChangesQuery } from "./changes-query.ts";
import { readDatabase, writeDatabase } from "./database-access.ts";
import { type DocumentView, viewOf, viewText } from "./document-view.ts";
import { oneLine } from "./responses.ts";

/** Changes looked at in one transaction, with and without their documents. */
const PAGE_COUNT_MAX = 1_000;
const PAGE_COUNT_MAX_WITH_DOCUMENTS = 100;

export interface ChangesPage {
  readonly rows: readonly ChangesRow[];
  /** Of the last change that was looked at, whether it passed the filter or not. */
  readonly lastSequence: string;
  readonly isLast: boolean;
}

export interface ChangesRow {
  readonly sequence: string;
  /** The row's JSON text. */
  readonly text: string;
}

interface Passed {
  readonly change: Change;
  readonly view: DocumentView | undefined;
}

export class ChangesReader {
  readonly #parts: ApiParts;
  readonly #call: Call;
  readonly #query: ChangesQuery;
  readonly #database: Database;
  #rowCount = 0;

  constructor(parts: ApiParts, call: Call, query: ChangesQuery, database: Database) {
    this.#parts = parts;
    this.#call = call;
    this.#query = query;
    this.#database = database;
  }

  get limitIsReached(): boolean {
    return this.#rowCount >= this.#query.limit;
  }

  get hasRows(): boolean {
    return this.#rowCount > 0;
  }

  /** The changes behind `since`; in a descending feed those before `before`. */
  async page(since: string, before?: string): Promise<ChangesPage> {
    const { descending, limit, includeDocuments, filter } = this.#query;
    const needsDocuments = includeDocuments || filter.kind === "documents";
    const countMax = needsDocuments ? PAGE_COUNT_MAX_WITH_DOCUMENTS : PAGE_COUNT_MAX;
    const wanted = limit - this.#rowCount;
    const { changes, passed } = await this.#read(async (tx, database) => {
      const page = await database.changes(tx, {
        since,
        descending,
        // Without a filter, no more is read than is wanted.
        limit: filter.kind === "all" ? Math.min(wanted, countMax) : countMax,
        ...(before === undefined ? {} : { before }),
      });
      return { changes: page, passed: await this.#passing(tx, database, page.entries) };
    });
    const sent = passed.slice(0, wanted);
    const rows: ChangesRow[] = [];
    for (const entry of sent) rows.push(await this.#row(entry));
    const isCut = this.limitIsReached && sent.length > 0;
    const last = isCut ? sent.at(-1)?.change : changes.entries.at(-1);
    return {
      rows,
      lastSequence: last?.sequence ?? before ?? since,
      isLast: changes.stoppedBy === "exhausted",
    };
  }

  /** How many changes stand behind the sequence. */
  pendingCount(sequence: string): Promise<number> {
    return this.#read((tx, database) => database.pendingChanges(tx, sequence));
  }

  /**
   * Waits until there are changes behind `since`, yielding `heartbeat` each time that one is due. Returns why it ended: what was waited for, the
   * feed's timeout, or that the client or the database has gone.
   */
  async *wait(
    since: string,
    heartbeat: string,
  ): AsyncGenerator<string, "changed" | "timed-out" | "gone", undefined> {
    const { clock } = this.#parts.runtime;
    const { signal } = this.#call.request;
    const { heartbeatMs, timeoutMs } = this.#query;
    const waiting = new AbortController();
    const either = AbortSignal.any([signal, waiting.signal]);
    const startMs = clock.monotonicMs();
    try {
      const changed = this.#changed(since, either);
      // It may fail when nobody waits any more.
      changed.catch(() => {});
      for (;;) {
        const leftMs =
          timeoutMs === undefined ? undefined : startMs + timeoutMs - clock.monotonicMs();
        if (leftMs !== undefined && leftMs <= 0) return "timed-out";
        const pauseMs = Math.min(
          heartbeatMs ?? Number.POSITIVE_INFINITY,
          leftMs ?? Number.POSITIVE_INFINITY,
        );
        const woken = await Promise.race([changed, this.#pause(pauseMs, either)]);
        if (woken !== "paused") return woken;
        if (heartbeatMs !== undefined) yield heartbeat;
      }
    } finally {
      waiting.abort(new Error("The feed waits no longer"));
    }
  }

  async #pause(durationMs: number, signal: AbortSignal): Promise<"paused" | "gone"> {
    try {
      await this.#parts.runtime.clock.sleep(durationMs, signal);
      return "paused";
    } catch {
      return "gone";
    }
  }

  async #changed(since: string, signal: AbortSignal): Promise<"changed" | "gone"> {
    try {
      const watch = await writeDatabase(
        this.#parts,
        this.#call,
        async (tx, database) => {
          if (database.uuid !== this.#database.uuid) await this.#database.assertExists(tx);
          const page = await database.changes(tx, { since, limit: 1 });
          return page.entries.length > 0 ? undefined : database.watchChanges(tx);
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

  /** Throws STORE_DATABASE_NOT_FOUND also for a database that was made again: what was asked for has gone. */
  #read<T>(body: (tx: ReadTransaction, database: Database) => Promise<T>): Promise<T> {
    return readDatabase(this.#parts, this.#call, async (tx, database) => {
      if (database.uuid !== this.#database.uuid) await this.#database.assertExists(tx);
      return body(tx, database);
    });
  }

  async #passing(
    tx: ReadTransaction,
    database: Database,
    changes: readonly Change[],
  ): Promise<Passed[]> {
    const passed = await Promise.all(
      changes.map((change) => this.#judge(tx, database, change, this.#query.filter)),
    );
    return passed.filter((entry) => entry !== undefined);
  }

  async #judge(
    tx: ReadTransaction,
    database: Database,
    change: Change,
    filter: ChangesFilter,
  ): Promise<Passed | undefined> {
    if (filter.kind === "ids" && !filter.matches(change.id)) return undefined;
    const { includeDocuments, view } = this.#query;
    if (filter.kind !== "documents" && !includeDocuments) return { change, view: undefined };
    const document = await database.read(tx, change.id);
    if (document === undefined) return undefined;
    if (
      filter.kind === "documents" &&
      !filter.matches(JSON.parse(renderStoredDocument(document)))
    ) {
      return undefined;
    }
    if (!includeDocuments) return { change, view: undefined };
    return { change, view: await viewOf(tx, database, document, view) };
  }

  async #row({ change, view }: Passed): Promise<ChangesRow> {
    const { sequenceInterval, allLeaves } = this.#query;
    this.#rowCount++;
    const tellsSequence = this.#rowCount % sequenceInterval === 0;
    const revisions = allLeaves ? change.leaves.map(({ revision }) => revision) : [change.winner];
    const text = JSON.stringify({
      seq: tellsSequence ? change.sequence : null,
      id: change.id,
      changes: revisions.map((rev) => ({ rev })),
      ...(change.deleted ? { deleted: true } : {}),
    });
    if (view === undefined) return { sequence: change.sequence, text };
    const { signal } = this.#call.request;
    const document = await viewText(this.#parts, this.#database, view, this.#query.view, signal);
    return { sequence: change.sequence, text: `${text.slice(0, -1)},"doc":${oneLine(document)}}` };
  }
}
