/**
 * Client of one of the two servers of a move, for its replication documents and its jobs. CouchDB 3
 * and Tandem respond alike to these requests.
 */
import { percentEncode } from "../../protocol/index.ts";
import { answerWith } from "../server/answers.ts";
import { AnswerError, type Server } from "../server/server-client.ts";

/** Number of documents per request. */
export const PAGE_ROWS_MAX = 100;
/** Number of rows of `_scheduler/jobs` per request. */
const JOBS_PAGE_ROWS_MAX = 1_000;

export type Members = Readonly<Record<string, unknown>>;

/** A replication document as stored, with `_id`, `_rev` and, if any, `_conflicts`. */
export interface StoredDocument {
  readonly id: string;
  readonly rev: string;
  readonly body: Members;
}

/** State of a document: stored, deleted, or missing. */
export type Place =
  | { readonly kind: "missing" }
  | { readonly kind: "deleted" }
  | { readonly kind: "stored"; readonly rev: string };

/** A document in the server's scheduler. `state` is null before the scheduler has seen it. */
export interface ScheduledDocument {
  readonly state: string | null;
  /** The replication id; null if the job has ended or could not start. */
  readonly id: string | null;
  readonly info?: unknown;
}

/** A row of `_scheduler/jobs`. */
interface ScheduledJob {
  readonly id: string | null;
  readonly database: string | null;
  readonly doc_id: string | null;
}

interface ScheduledJobs {
  readonly jobs: readonly ScheduledJob[];
}

/** The jobs in the scheduler of a server, regardless of the states in their documents. */
export interface ActiveJobs {
  hasDocument(database: string, id: string): boolean;
  hasReplication(id: string): boolean;
}

interface Row {
  readonly id?: string;
  readonly key: string;
  readonly error?: string;
  readonly value?: { readonly rev: string; readonly deleted?: boolean };
  readonly doc?: Members | null;
}

interface RowsAnswer {
  readonly rows: readonly Row[];
}

export class ReplicatorServer {
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  ask(...request: Parameters<Server["ask"]>): Promise<unknown> {
    return this.#server.ask(...request);
  }

  /** Like `ask`, but returns `undefined` for a 404. */
  async askIfThere(...request: Parameters<Server["ask"]>): Promise<unknown> {
    try {
      return await this.ask(...request);
    } catch (error) {
      if (error instanceof AnswerError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** The setting `[couchdb] uuid`, which is part of replication ids. */
  async uuid(): Promise<string> {
    const answer = await this.ask("GET", "/");
    const { uuid } = answerWith<{ readonly uuid?: unknown }>(answer, {});
    return String(uuid ?? "");
  }

  /** The replication documents of a database in id order, in pages, without design documents. */
  async *pages(database: string): AsyncGenerator<readonly StoredDocument[]> {
    let start = "";
    for (;;) {
      const query = new URLSearchParams({
        include_docs: "true",
        conflicts: "true",
        limit: String(PAGE_ROWS_MAX),
        ...(start === "" ? {} : { start_key: JSON.stringify(start) }),
      });
      const answer = await this.ask("GET", `${pathOf(database)}/_all_docs?${query}`);
      const { rows } = answerWith<RowsAnswer>(answer, { rows: "array" });
      yield rows.flatMap(storedDocument);
      const last = rows.at(-1)?.key;
      if (last === undefined || rows.length < PAGE_ROWS_MAX) return;
      // Next start key: the smallest id after the last one.
      start = `${last}\0`;
    }
  }

  /** The states of the given documents, in order. */
  async places(database: string, ids: readonly string[]): Promise<readonly Place[]> {
    if (ids.length === 0) return [];
    const answer = await this.ask("POST", `${pathOf(database)}/_all_docs`, { keys: ids });
    return answerWith<RowsAnswer>(answer, { rows: "array" }).rows.map(({ value }) => {
      if (value === undefined) return { kind: "missing" };
      return value.deleted === true ? { kind: "deleted" } : { kind: "stored", rev: value.rev };
    });
  }

  /**
   * Ids of the documents whose given revision is missing in the database, that is, neither a leaf
   * nor an ancestor of a leaf.
   */
  async lacking(
    database: string,
    documents: readonly Pick<StoredDocument, "id" | "rev">[],
  ): Promise<ReadonlySet<string>> {
    if (documents.length === 0) return new Set();
    const asked = Object.fromEntries(documents.map(({ id, rev }) => [id, [rev]]));
    const answer = await this.ask("POST", `${pathOf(database)}/_revs_diff`, asked);
    return new Set(Object.keys(answerWith<Members>(answer, {})));
  }

  /** Whether the database knows any of these revisions of the document. */
  async knowsAny(database: string, id: string, revisions: readonly string[]): Promise<boolean> {
    const answer = await this.ask("POST", `${pathOf(database)}/_revs_diff`, { [id]: revisions });
    const found = answer as Readonly<Record<string, { readonly missing: readonly string[] }>>;
    return (found[id]?.missing.length ?? 0) < revisions.length;
  }

  /**
   * The given revisions with `_revisions` and attachments, ready to be written to another database.
   */
  async withHistory(
    database: string,
    documents: readonly Pick<StoredDocument, "id" | "rev">[],
  ): Promise<readonly Members[]> {
    if (documents.length === 0) return [];
    const docs = documents.map(({ id, rev }) => ({ id, rev }));
    const path = `${pathOf(database)}/_bulk_get?revs=true&attachments=true`;
    const answer = (await this.ask("POST", path, { docs })) as {
      readonly results: readonly { readonly docs: readonly { readonly ok?: Members }[] }[];
    };
    return answer.results.flatMap((result) =>
      result.docs.flatMap(({ ok }) => (ok === undefined ? [] : [ok])),
    );
  }

  /**
   * Returns the state of a document in the scheduler, or `undefined` if the document is missing.
   */
  async scheduled(database: string, id: string): Promise<ScheduledDocument | undefined> {
    const path = `/_scheduler/docs/${percentEncode(database)}/${percentEncode(id)}`;
    return (await this.askIfThere("GET", path)) as ScheduledDocument | undefined;
  }

  async activeJobs(): Promise<ActiveJobs> {
    const documents = new Set<string>();
    const replications = new Set<string>();
    for (let skip = 0; ; skip += JOBS_PAGE_ROWS_MAX) {
      const path = `/_scheduler/jobs?limit=${JOBS_PAGE_ROWS_MAX}&skip=${skip}`;
      const { jobs } = answerWith<ScheduledJobs>(await this.ask("GET", path), { jobs: "array" });
      for (const { id, database, doc_id: documentId } of jobs) {
        if (id !== null) replications.add(id);
        documents.add(JSON.stringify([database, documentId]));
      }
      if (jobs.length < JOBS_PAGE_ROWS_MAX) break;
    }
    return {
      hasDocument: (database, id) => documents.has(JSON.stringify([database, id])),
      hasReplication: (id) => replications.has(id),
    };
  }
}

/** Whether the job has ended. An ended job does not run again until its document is written. */
export function hasEndedThere(scheduled: ScheduledDocument | undefined): boolean {
  return scheduled?.state === "completed" || scheduled?.state === "failed";
}

export function pathOf(database: string, id?: string): string {
  const path = `/${percentEncode(database)}`;
  return id === undefined ? path : `${path}/${percentEncode(id)}`;
}

/** Path of the job of a document, on a Tandem server. */
export function jobPathOf(database: string, id: string): string {
  return `/_tandem/jobs/${percentEncode(`${database}/${id}`)}`;
}

function storedDocument({ id, value, doc }: Row): readonly StoredDocument[] {
  if (id === undefined || value === undefined || !doc || id.startsWith("_design/")) return [];
  return [{ id, rev: value.rev, body: doc }];
}
