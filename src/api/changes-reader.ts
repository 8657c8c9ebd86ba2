/** The rows of a changes feed, page by page, and the wait for more of them. */
import { errorCode } from "../base/index.ts";
import type { Change, Database } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { renderStoredDocument } from "../replicator/index.ts";
import type { ApiParts } from "./api.ts";
import type { Call } from "./call.ts";
import type { ChangesQuery } from "./changes-query.ts";
import { readDatabase, writeDatabase } from "./database-access.ts";
import { type DocumentView, viewOf, viewText } from "./document-view.ts";
import { PageSize } from "./page-size.ts";
import { oneLine } from "./responses.ts";

/** Changes looked at in one transaction, when their documents are not. */
const PAGE_COUNT_MAX = 1_000;

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

/** A change that was looked at. */
interface Judged {
  readonly change: Change;
  readonly passes: boolean;
  readonly view: DocumentView | undefined;
  /** Of its document, when that was read. */
  readonly length: number;
}

export class ChangesReader {
  readonly #parts: ApiParts;
  readonly #call: Call;
  readonly #query: ChangesQuery;
  readonly #database: Database;
  readonly #size = new PageSize();
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
    const countMax = needsDocuments ? this.#size.count : PAGE_COUNT_MAX;
    const wanted = limit - this.#rowCount;
    const { changes, judged } = await this.#read(async (tx, database) => {
      const page = await database.changes(tx, {
        since,
        descending,
        // Without a filter, no more is read than is wanted.
        limit: filter.kind === "all" ? Math.min(wanted, countMax) : countMax,
        ...(before === undefined ? {} : { before }),
      });
      const entries = page.entries.map((change) => this.#judge(tx, database, change));
      return { changes: page, judged: await Promise.all(entries) };
    });
    if (needsDocuments) {
      const length = judged.reduce((sum, entry) => sum + entry.length, 0);
      this.#size.learn(judged.length, length);
    }
    const sent = judged.filter(({ passes }) => passes).slice(0, wanted);
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

  async #judge(tx: ReadTransaction, database: Database, change: Change): Promise<Judged> {
    const { filter, includeDocuments, view: options } = this.#query;
    const refused = { change, passes: false, view: undefined, length: 0 };
    if (filter.kind === "ids" && !filter.matches(change.id)) return refused;
    if (filter.kind !== "documents" && !includeDocuments) return { ...refused, passes: true };
    const document = await database.read(tx, change.id);
    if (document === undefined) return refused;
    const { length } = document.body;
    const passes =
      filter.kind !== "documents" || filter.matches(JSON.parse(renderStoredDocument(document)));
    if (!passes || !includeDocuments) return { change, passes, view: undefined, length };
    return { change, passes, view: await viewOf(tx, database, document, options), length };
  }

  async #row({ change, view }: Judged): Promise<ChangesRow> {
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
