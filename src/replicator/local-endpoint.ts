/**
 * A database in our own store, without a socket. What it reads and writes is the same text that would have gone over the
 * wire, so the two endpoints can be mixed, and a body's bytes survive both.
 */
import { exceedsBytes, OperationalError, type Runtime, validateJson } from "../base/index.ts";
import {
  type AttachmentEdit,
  type AttachmentStore,
  type Change,
  type Database,
  type DatabaseRegistry,
  type Document,
  type DocumentEdit,
  isDatabaseMember,
  SandboxError,
  type SecuritySubject,
  type WriteOutcome,
} from "../databases/index.ts";
import type { KeyValueStore, ReadTransaction } from "../kv/index.ts";
import {
  ProtocolError,
  parseWireDocument,
  type WireAttachment,
  type WireDocument,
} from "../protocol/index.ts";
import type { DesignFunctions } from "./design-filter.ts";
import { transactValidated } from "./document-validation.ts";
import {
  type AttachmentStream,
  type BulkReadResult,
  type ChangesItem,
  type ChangesRequest,
  type Endpoint,
  EndpointError,
  type EndpointInfo,
  type LocalRecord,
  type MissingRevisions,
  type PlainDocument,
  type RevisionRequest,
  type SourceSequence,
  type StreamedDocument,
  type WriteFailure,
  type WriteResult,
} from "./endpoint.ts";
import {
  type LocalSelection,
  type LocalSelectionParts,
  openLocalSelection,
} from "./local-selection.ts";
import { refusalStatus } from "./refusal-status.ts";
import {
  attachmentsSince,
  renderStoredDocument,
  replicatedEdit,
  stubEdit,
} from "./stored-document.ts";

/** Rows of one read of the changes. */
const CHANGES_ROWS_MAX = 1000;
/** Documents written, and read, in one transaction: small enough to be far from its limits in size and time. */
const DOCUMENTS_MAX = 100;
const WRITE_LENGTH_MAX = 1_000_000;
/** Their documents hold what is others' secret, and name others' rights; whoever may read one of them need not see all. */
const SYSTEM_DATABASE = /^_users$|^_global_changes$|(^|\/)_replicator$/;

export interface LocalEndpointParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly databases: DatabaseRegistry;
  readonly attachments: AttachmentStore;
  /** Filters of design documents. */
  readonly functions: DesignFunctions;
  /** What a user may do now, by name; null is who reaches a server without administrators. */
  readonly resolveUser: (userName: string | null) => Promise<SecuritySubject>;
  /** Read at each use. */
  readonly limits: {
    /** `max_document_size` */
    readonly documentBytesMax: number;
  };
  /** Where our databases stand for others, with a slash at the end. */
  readonly serverUrl: string;
}

export class LocalEndpoint implements Endpoint {
  readonly shownUrl: string;
  readonly #name: string;
  readonly #parts: LocalEndpointParts;
  readonly #userName: string | null;

  /** Reads and writes as that user, with the rights that they have at the moment. */
  constructor(parts: LocalEndpointParts, name: string, userName: string | null) {
    this.shownUrl = `${parts.serverUrl}${encodeURIComponent(name)}/`;
    this.#parts = parts;
    this.#name = name;
    this.#userName = userName;
  }

  async create(): Promise<void> {
    const { kv, databases } = this.#parts;
    const { isAdmin } = await this.#user();
    try {
      if (!isAdmin) throw new EndpointError("unauthorized", "You are not a server admin.");
      await kv.transact((tx) => databases.create(tx, this.#name));
    } catch (error) {
      if (codeOf(error) !== "STORE_DATABASE_EXISTS") throw this.#shown(error);
    }
  }

  async info(): Promise<EndpointInfo> {
    const info = await this.#read((tx, database) => database.info(tx));
    return { updateSequence: info.updateSequence, instanceStartTime: info.instanceStartTime };
  }

  async *changes(
    request: ChangesRequest,
    signal: AbortSignal,
  ): AsyncIterable<readonly ChangesItem[]> {
    let since = startOf(request.since);
    let changed = false;
    const select = await this.#selection(request);
    for (;;) {
      signal.throwIfAborted();
      const page = await this.#read((tx, database) =>
        database.changes(tx, { since, limit: CHANGES_ROWS_MAX }),
      );
      const revisions = await select(page.entries).catch((error: unknown) => {
        throw this.#shown(error);
      });
      const items = page.entries.flatMap((change, index) =>
        changesItems(change, revisions[index] ?? []),
      );
      changed ||= items.length > 0;
      const last = page.entries.at(-1);
      if (last !== undefined) {
        since = last.sequence;
        // What the selection passed over need not be looked at again.
        const lastItem = items.at(-1);
        const passed = lastItem?.kind !== "change" || lastItem.change.sequence !== since;
        if (passed && (changed || request.continuous)) {
          items.push({ kind: "position", sequence: since });
        }
      }
      if (items.length > 0) yield items;
      if (page.stoppedBy !== "exhausted") continue;
      if (!request.continuous) return;
      await this.#nextChange(since, signal);
    }
  }

  async pendingCount(since: SourceSequence): Promise<number | undefined> {
    return this.#read((tx, database) => database.pendingChanges(tx, startOf(since)));
  }

  async missingRevisions(
    revisions: ReadonlyMap<string, readonly string[]>,
  ): Promise<ReadonlyMap<string, MissingRevisions>> {
    const answer = await this.#read((tx, database) =>
      Promise.all(
        [...revisions].map(async ([id, asked]) => {
          return [id, await database.missingRevisions(tx, id, asked)] as const;
        }),
      ),
    );
    return new Map(answer.filter(([, { missing }]) => missing.length > 0));
  }

  async readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
  ): Promise<readonly BulkReadResult[]> {
    const results: BulkReadResult[] = [];
    for (let start = 0; start < requests.length; start += DOCUMENTS_MAX) {
      signal.throwIfAborted();
      const page = requests.slice(start, start + DOCUMENTS_MAX);
      const documents = await this.#read((tx, database) =>
        Promise.all(
          page.map(({ id, revision }) => database.readRevision(tx, id, revision, { latest: true })),
        ),
      );
      results.push(...documents.map(bulkReadResult));
    }
    return results;
  }

  async readRevision(
    { id, revision, ancestors }: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { database, documents } = await this.#read(async (tx, opened) => ({
      database: opened,
      documents: await opened.readRevision(tx, id, revision, { latest: true }),
    }));
    for (const document of documents) {
      await consume(this.#streamed(database, document, ancestors, signal));
    }
    return documents.length > 0;
  }

  async readDocument(id: string): Promise<string | undefined> {
    const document = await this.#read((tx, database) => database.read(tx, id));
    if (document === undefined || document.deleted) return undefined;
    return renderStoredDocument(document);
  }

  async writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
  ): Promise<readonly WriteFailure[]> {
    const failures: WriteFailure[] = [];
    let edits: DocumentEdit[] = [];
    let length = 0;
    const flush = async (): Promise<void> => {
      const batch = edits;
      edits = [];
      length = 0;
      if (batch.length > 0) failures.push(...(await this.#writeBatch(batch)));
    };
    for (const { text } of documents) {
      signal.throwIfAborted();
      const wire = parseWireDocument(text);
      const edit = replicatedEdit(wire, wire.attachments.map(stubEdit));
      if (this.#isTooLarge(edit)) {
        failures.push(tooLarge(edit));
        continue;
      }
      edits.push(edit);
      length += text.length;
      if (edits.length >= DOCUMENTS_MAX || length >= WRITE_LENGTH_MAX) await flush();
    }
    await flush();
    return failures;
  }

  async writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult> {
    const { kv, functions } = this.#parts;
    const user = await this.#user();
    const database = await this.#open();
    validateJson(document.text);
    const wire = parseWireDocument(document.text);
    const plain = replicatedEdit(wire, []);
    if (this.#isTooLarge(plain)) return { kind: "refused", failure: tooLarge(plain) };
    const attachments = await this.#stage(database, wire, document.attachments, signal);
    const edit = replicatedEdit(wire, attachments);
    try {
      const outcome = await transactValidated(kv, functions, {}, async (tx, validation) => {
        const opened = await this.#openFor(tx, user);
        return opened.write(tx, edit, { ...user, validation });
      });
      if (outcome.kind === "missing-stub") return { kind: "missing-stub" };
      const failure = writeFailure(edit, outcome);
      return failure === undefined ? { kind: "written" } : { kind: "refused", failure };
    } catch (error) {
      if (!isRefusal(error)) throw this.#shown(error);
      return { kind: "refused", failure: refusal(edit, error) };
    }
  }

  async readLocal(id: string): Promise<LocalRecord | undefined> {
    return this.#read((tx, database) => database.readLocal(tx, `_local/${id}`));
  }

  async writeLocal(
    id: string,
    body: string,
    parent: string | undefined,
  ): Promise<string | undefined> {
    const { kv } = this.#parts;
    const user = await this.#user();
    const outcome = await kv.transact(async (tx) => {
      const database = await this.#openFor(tx, user);
      return database.writeLocal(tx, { id: `_local/${id}`, parent, body });
    });
    return outcome.kind === "written" ? outcome.revision : undefined;
  }

  async commit(): Promise<string> {
    // What a transaction acknowledged is durable.
    return (await this.info()).instanceStartTime;
  }

  async #read<T>(body: (tx: ReadTransaction, database: Database) => Promise<T>): Promise<T> {
    const { kv } = this.#parts;
    const user = await this.#user();
    try {
      return await kv.read(async (tx) => body(tx, await this.#openFor(tx, user)));
    } catch (error) {
      throw this.#shown(error);
    }
  }

  async #selection({ selection, winningRevisionsOnly }: ChangesRequest): Promise<LocalSelection> {
    const { runtime, functions } = this.#parts;
    const parts: LocalSelectionParts = {
      runtime,
      functions,
      read: (body) => this.#read(body),
      user: await this.#user(),
    };
    try {
      return await openLocalSelection(parts, selection, { winningRevisionsOnly });
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw this.#shown(error);
      throw new EndpointError("filter_fetch_error", error.reason, { cause: error });
    }
  }

  #user(): Promise<SecuritySubject> {
    return this.#parts.resolveUser(this.#userName);
  }

  async #openFor(tx: ReadTransaction, user: SecuritySubject): Promise<Database> {
    const database = await this.#parts.databases.open(tx, this.#name);
    if (!user.isAdmin && SYSTEM_DATABASE.test(this.#name)) {
      throw new EndpointError("forbidden", "You are not a server admin.");
    }
    if (user.isAdmin || isDatabaseMember(await database.security(tx), user)) return database;
    throw new EndpointError("forbidden", "You are not allowed to access this db.");
  }

  #open(): Promise<Database> {
    return this.#read(async (_, database) => database);
  }

  /** Waits until the database changes after `since`. */
  async #nextChange(since: string, signal: AbortSignal): Promise<void> {
    const { kv, databases } = this.#parts;
    const watch = await kv.transact(async (tx) => {
      const database = await databases.open(tx, this.#name);
      const changed = database.watchChanges(tx);
      const page = await database.changes(tx, { since, limit: 1 });
      if (page.entries.length === 0) return changed;
      changed.cancel();
      return undefined;
    });
    await watch?.fired(signal);
  }

  #streamed(
    database: Database,
    document: Document,
    ancestors: readonly string[],
    signal: AbortSignal,
  ): StreamedDocument {
    const { attachments: store } = this.#parts;
    const sent = attachmentsSince(document, ancestors);
    const following = document.attachments.filter(({ name }) => sent.has(name));
    const outline = following.map(({ name, encodedLength, contentType, encoding }) => ({
      name,
      length: encodedLength,
      contentType,
      encoding,
    }));
    return {
      id: document.id,
      text: renderStoredDocument(document, {
        revisions: true,
        encodingInfo: true,
        attachmentForm: ({ name }) => ({ kind: sent.has(name) ? "follows" : "stub" }),
      }),
      hasStubs: following.length < document.attachments.length,
      outline,
      attachments: (async function* (): AsyncIterable<AttachmentStream> {
        for (const [index, attachment] of following.entries()) {
          const body = store.read(database, attachment, { decoded: false }, signal);
          yield { ...(outline[index] as Omit<AttachmentStream, "body">), body };
        }
      })(),
    };
  }

  /** Stores the bytes that follow; stubs stay stubs. */
  async #stage(
    database: Database,
    wire: WireDocument,
    streams: AsyncIterable<AttachmentStream>,
    signal: AbortSignal,
  ): Promise<AttachmentEdit[]> {
    const edits = new Map<string, AttachmentEdit>();
    const following = new Map<string, WireAttachment>();
    for (const attachment of wire.attachments) {
      if (attachment.content.kind === "follows") following.set(attachment.name, attachment);
      else edits.set(attachment.name, stubEdit(attachment));
    }
    for await (const { name, body } of streams) {
      const attachment = following.get(name);
      if (attachment === undefined) continue;
      const { digest, contentType, revisionPosition } = attachment;
      const content = await this.#parts.attachments.stage(
        database,
        body,
        {
          ...(attachment.encoding === "gzip" ? { encoding: "gzip" } : {}),
          ...(digest === undefined ? {} : { expectedDigest: digest }),
        },
        signal,
      );
      edits.set(name, {
        kind: "staged",
        name,
        contentType: contentType ?? "application/octet-stream",
        content,
        ...(revisionPosition === undefined ? {} : { revisionPosition }),
      });
    }
    return [...edits.values()];
  }

  /** One transaction for all; if the store refuses one of them, one for each, to know which. */
  async #writeBatch(edits: readonly DocumentEdit[]): Promise<WriteFailure[]> {
    const { kv, functions } = this.#parts;
    const user = await this.#user();
    const write = (batch: readonly DocumentEdit[]): Promise<readonly WriteOutcome[]> =>
      transactValidated(kv, functions, {}, async (tx, validation) => {
        const database = await this.#openFor(tx, user);
        return database.writeMany(tx, batch, { ...user, validation });
      });
    try {
      return failuresOf(edits, await write(edits));
    } catch (error) {
      if (!isRefusal(error)) throw this.#shown(error);
      if (edits.length === 1) return edits.map((edit) => refusal(edit, error));
      const failures: WriteFailure[] = [];
      for (const edit of edits) failures.push(...(await this.#writeBatch([edit])));
      return failures;
    }
  }

  #isTooLarge({ body }: DocumentEdit): boolean {
    return exceedsBytes(body, this.#parts.limits.documentBytesMax);
  }

  #shown(error: unknown): unknown {
    if (error instanceof SandboxError) {
      return new EndpointError(error.error, error.reason, { cause: error });
    }
    if (codeOf(error) !== "STORE_DATABASE_NOT_FOUND") return error;
    return new EndpointError("db_not_found", `could not open ${this.shownUrl}`, { cause: error });
  }
}

function changesItems({ id, sequence }: Change, revisions: readonly string[]): ChangesItem[] {
  if (revisions.length === 0) return [];
  const sizeBytes = id.length + 50 * revisions.length + 100;
  return [{ kind: "change", change: { id, sequence, revisions, sizeBytes } }];
}

/** The store's own refusals of one document; anything else concerns the store. */
function isRefusal(error: unknown): boolean {
  const code = codeOf(error) ?? "";
  return /^(STORE_(DOCUMENT|REVISION|ATTACHMENT)_|KV_TOO_LARGE$|KV_KEY_TOO_LARGE$)/.test(code);
}

function failuresOf(
  edits: readonly DocumentEdit[],
  outcomes: readonly WriteOutcome[],
): WriteFailure[] {
  return outcomes.flatMap((outcome, index) => {
    const failure = writeFailure(edits[index] as DocumentEdit, outcome);
    return failure === undefined ? [] : [failure];
  });
}

function writeFailure(edit: DocumentEdit, outcome: WriteOutcome): WriteFailure | undefined {
  switch (outcome.kind) {
    case "written":
    case "known":
      return undefined;
    case "rejected":
      return failureOf(edit, outcome.error, outcome.reason);
    case "conflict":
      return failureOf(edit, "conflict", "Document update conflict.");
    case "missing-stub":
      return failureOf(
        edit,
        "missing_stub",
        `Invalid attachment stub in ${edit.id} for ${outcome.name}`,
      );
  }
}

function refusal(edit: DocumentEdit, error: unknown): WriteFailure {
  if (!(error instanceof OperationalError) || error instanceof EndpointError) throw error;
  const { reason } = error.details;
  return failureOf(edit, error.code, typeof reason === "string" ? reason : error.message);
}

function failureOf(edit: DocumentEdit, error: string, reason: string): WriteFailure {
  const revision = revisionOf(edit);
  return { id: edit.id, revision, status: refusalStatus(error), error, reason };
}

/** As `_bulk_docs` tells it. */
function tooLarge(edit: DocumentEdit): WriteFailure {
  return failureOf(edit, "document_too_large", edit.id);
}

function revisionOf(edit: DocumentEdit): string {
  if (edit.mode !== "replicated") return "";
  return `${edit.revisions.start}-${edit.revisions.hashes[0] ?? ""}`;
}

function bulkReadResult(documents: readonly Document[]): BulkReadResult {
  const separately = documents.some(({ attachments }) => attachments.length > 0);
  if (documents.length === 0 || separately) return { kind: "separately" };
  return {
    kind: "documents",
    documents: documents.map((document) => ({
      id: document.id,
      text: renderStoredDocument(document, { revisions: true }),
    })),
  };
}

/** Our sequences are texts; 0, where a replication without a checkpoint begins, is before all of them. */
function startOf(sequence: SourceSequence): string {
  return typeof sequence === "string" ? sequence : String(sequence);
}

function codeOf(error: unknown): string | undefined {
  return error instanceof OperationalError ? error.code : undefined;
}
