/**
 * One side of a replication, as the replicator needs it. There are two implementations: a server that speaks the
 * CouchDB protocol (`HttpEndpoint`) and a database in our own store (`LocalEndpoint`), which needs no socket.
 *
 * Every call ends when its signal aborts. Failures are EndpointErrors; their code decides whether a job runs again.
 */
import {
  isJsonObject,
  type JsonText,
  keepsForm,
  OperationalError,
  type Utf8Writer,
} from "../../base/index.ts";
import type { MissingRevisions } from "../../databases/index.ts";
import { isWellFormed, type WireDocument } from "../../protocol/index.ts";
import type { Selection } from "../request/replication.ts";

/** A place in the source's changes: opaque, any JSON value. Never ordered, never parsed. 0 is before everything. */
export type SourceSequence = unknown;

/** The sequence in a JSON text. Numbers that would lose digits stay text, which a query shows in the same way. */
export function parseSequence(text: JsonText): SourceSequence {
  return keepsForm(text) ? JSON.parse(text) : text;
}

/** A sequence with half of a character, as its JSON: no `_local` document could hold it. */
interface EscapedSequence {
  readonly json: JsonText;
}

/** The form of a sequence that any database can store. */
export function storableSequence(sequence: SourceSequence): SourceSequence {
  if (typeof sequence === "string" && isWellFormed(sequence)) return sequence;
  // JSON.stringify escapes unpaired surrogates only.
  const json = JSON.stringify(sequence);
  return json?.includes("\\ud") ? ({ json } satisfies EscapedSequence) : sequence;
}

/** A sequence as a parameter: texts as they are, all else as JSON. */
export function sequenceText(sequence: SourceSequence): string {
  if (typeof sequence === "string") return sequence;
  if (isEscaped(sequence)) return sequenceText(JSON.parse(sequence.json));
  return JSON.stringify(sequence);
}

function isEscaped(sequence: SourceSequence): sequence is EscapedSequence {
  return isJsonObject(sequence) && typeof sequence.json === "string";
}

/** Whether two are the same place, as far as their JSON says. */
export function isSameSequence(left: SourceSequence, right: SourceSequence): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

/**
 * Of a sequence as JSON. Checkpoints keep 150 of them, and a job a few more. CouchDB's have some hundred characters, and thousands in a
 * cluster of hundreds of shards.
 */
export const SEQUENCE_LENGTH_MAX = 32_768;

/** A round trip of an endpoint that is far away. Of a shorter one, what a machine does beside says more than the way. */
export const FAR_MS_MIN = 10;

export interface EndpointInfo {
  readonly updateSequence: SourceSequence;
  /** Differs when the database was deleted and created again; `"0"` from servers that do not say. */
  readonly instanceStartTime: string;
  /** Whether it has no document, deleted ones included; false from servers that do not say. */
  readonly isEmpty: boolean;
}

/** When the databases of both sides were made, as their `instanceStartTime` says. */
export interface StartTimes {
  readonly source: string;
  readonly target: string;
}

/** One row of the changes feed. */
export interface ChangedDocument {
  readonly id: string;
  readonly sequence: SourceSequence;
  readonly revisions: readonly string[];
  /** Whether all revisions of the document are deleted. */
  readonly isDeleted: boolean;
  /** The row's length in bytes as it came, to bound what is queued. */
  readonly sizeBytes: number;
}

/** What the feed delivers. `position` says that everything before it was delivered, though nothing changed there. */
export type ChangesItem =
  | { readonly kind: "change"; readonly change: ChangedDocument }
  | { readonly kind: "position"; readonly sequence: SourceSequence };

export interface ChangesRequest {
  readonly since: SourceSequence;
  /** False: the feed ends with the changes that the source had at the time of the request. */
  readonly continuous: boolean;
  /** A feed that ends says where, even when nothing of it was selected; absent: only when something was. */
  readonly showsEnd?: boolean;
  readonly selection: Selection;
  readonly winningRevisionsOnly: boolean;
}

export interface RevisionRequest {
  readonly id: string;
  readonly revision: string;
  /** Revisions that the target has: attachments not newer than these need not be sent. */
  readonly ancestors: readonly string[];
}

/**
 * A document as one text: `_id`, `_rev`, `_revisions` and the body as they came, and attachments with their bytes in base64, if it has any.
 */
export interface PlainDocument {
  readonly id: string;
  /** Characters of the text, or nearly: what a write holds is bounded by it. */
  readonly length: number;
  /** May be made again each time. */
  readonly text: JsonText;
  /** Writes the text, where that can be done without making it. */
  writeTo(writer: Utf8Writer): void;
  /** What the text says, from a source that did not have to look: then the target need not either. */
  readonly wire?: WireDocument;
  /** Whether the text holds the bytes of attachments. */
  readonly holdsAttachments?: boolean;
}

/** One whose text is at hand. */
export class TextDocument implements PlainDocument {
  readonly id: string;
  readonly text: JsonText;

  constructor(id: string, text: JsonText) {
    this.id = id;
    this.text = text;
  }

  get length(): number {
    return this.text.length;
  }

  writeTo(writer: Utf8Writer): void {
    writer.text(this.text);
  }
}

/** How a bulk read is done. */
export interface ReadRevisionsOptions {
  /** As in `writeDocuments`. */
  readonly once?: boolean;
  /**
   * Attachments come with their bytes in the text, unless one of them is compressed: its bytes would come otherwise than they are stored. Who
   * asks says of how few documents.
   */
  readonly attachments?: boolean;
}

/**
 * What a bulk read made of one request. `separately`: it has attachments whose bytes did not come, or failed; ask for it alone. `outlines`: all of it but the
 * bytes of attachments, from a source that says so much.
 */
export type BulkReadResult =
  | { readonly kind: "documents"; readonly documents: readonly PlainDocument[] }
  | { readonly kind: "separately"; readonly outlines?: readonly PlainDocument[] };

/** The bytes of one attachment, as stored, in the order of the `follows` members of the document's text. */
export interface AttachmentStream {
  readonly name: string;
  /** Length in bytes, as stored. */
  readonly length: number;
  readonly contentType: string;
  readonly encoding: string | undefined;
  /** Can be read once, and only before the next attachment. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** A document with its attachments. `attachments` is consumed once, in order. */
export interface StreamedDocument {
  readonly id: string;
  readonly text: JsonText;
  /** Whether the text has attachments whose bytes do not follow, because the target should have them. */
  readonly hasStubs: boolean;
  readonly attachments: AsyncIterable<AttachmentStream>;
  /** Name, length and type of each attachment that follows, in order. */
  readonly outline: readonly Omit<AttachmentStream, "body">[];
}

/** Why the target did not take a document, in its own words. */
export interface WriteFailure {
  readonly id: string;
  readonly revision: string;
  /** The HTTP status, its own or what CouchDB gives such an error; undefined when there is none. */
  readonly status: number | undefined;
  readonly error: string;
  readonly reason: string;
}

/** The outcome of a single write. `missing-stub`: send it again with all attachments. */
export type WriteResult =
  | { readonly kind: "written" }
  | { readonly kind: "refused"; readonly failure: WriteFailure }
  | { readonly kind: "missing-stub" };

/** A `_local` document: our checkpoints. */
export interface CheckpointDocument {
  readonly revision: string;
  readonly body: JsonText;
}

export interface Endpoint {
  /** For people: without a password. */
  readonly shownUrl: string;
  /** Whether it has said that what it acknowledges is durable, so that `commit` does nothing there. */
  readonly writesDurably: boolean;
  /** Whether a server has answered as a CouchDB does; absent for our own databases. */
  readonly isRecognized?: boolean;
  /** Whether it has said that it has `continueLog`. */
  readonly continuesLogs: boolean;
  /** The least time in which an answer began lately: how far away the endpoint is. Undefined in our own store, and before the first answer. */
  readonly roundTripMs: number | undefined;

  /**
   * Creates the database; returns false if it existed. Where it is not there afterwards, `info` throws what kept it from that.
   */
  create(parameters: Readonly<Record<string, string>>, signal: AbortSignal): Promise<boolean>;
  info(signal: AbortSignal): Promise<EndpointInfo>;

  /** Batches of items, in order. Ends when the feed does: never, if continuous. */
  changes(request: ChangesRequest, signal: AbortSignal): AsyncIterable<readonly ChangesItem[]>;
  /** How many changes follow `since`; undefined when the source cannot say. */
  pendingChangeCount(since: SourceSequence, signal: AbortSignal): Promise<number | undefined>;

  /** What the endpoint lacks. `once` as in `writeDocuments`. */
  missingRevisions(
    revisions: ReadonlyMap<string, readonly string[]>,
    signal: AbortSignal,
    options?: { readonly once?: boolean },
  ): Promise<ReadonlyMap<string, MissingRevisions>>;

  /** Reads many revisions at once; undefined when the endpoint cannot. Results in the order of the requests. */
  readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
    options?: ReadRevisionsOptions,
  ): Promise<readonly BulkReadResult[] | undefined>;
  /** Reads one revision, or the leaves that descend from it, each handed to `consume`, with attachments. False: missing. */
  readRevision(
    request: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean>;

  /**
   * The MD5 of an attachment's bytes, not compressed, in hexadecimal digits; undefined when there is no such attachment. Its `digest` is of
   * the bytes as they are stored, so it depends on who compressed them.
   */
  attachmentMd5(
    revision: Pick<RevisionRequest, "id" | "revision">,
    name: string,
    signal: AbortSignal,
  ): Promise<string | undefined>;

  /** The winner of a document, as text; undefined when there is none. For the code of filters. */
  readDocument(id: string, signal: AbortSignal): Promise<JsonText | undefined>;

  /** Writes revisions made elsewhere; returns what was refused. `once`: an answer that says "later" is not waited for. */
  writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    options?: { readonly once?: boolean },
  ): Promise<readonly WriteFailure[]>;
  writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult>;

  /** The security object, as text. */
  security(signal: AbortSignal): Promise<JsonText>;
  setSecurity(text: JsonText, signal: AbortSignal): Promise<void>;

  readLocal(id: string, signal: AbortSignal): Promise<CheckpointDocument | undefined>;
  /**
   * Writes a `_local` document over `parent`; the new revision, or undefined on a conflict. `instanceStartTime`: of the database that it
   * is meant for. Our own store refuses it for another one; a server cannot be asked to.
   */
  writeLocal(
    id: string,
    body: JsonText,
    parent: string | undefined,
    signal: AbortSignal,
    instanceStartTime?: string,
  ): Promise<string | undefined>;
  /**
   * Writes the log of a run that went on where the stored one ends, with that one's history behind its own entry, in one request; the
   * new revision. False: the stored one ends elsewhere; undefined: the endpoint does not offer it, or has none, and what is stored has to
   * be read. `madeAt`: the run may have begun at the beginning, and there be no log, if this is when the database was made.
   */
  continueLog(
    id: string,
    log: JsonText,
    signal: AbortSignal,
    options?: { readonly madeAt?: string },
  ): Promise<string | false | undefined>;
  /** Makes what was written durable; the instance start time, to notice a re-created database. */
  commit(signal: AbortSignal): Promise<string>;
}

/** An answer that names an error, in the server's own words. */
export interface ServerAnswer {
  readonly status: number;
  readonly error: string;
  readonly reason: string;
}

/**
 * An endpoint did not do what was asked. `error` and `reason` are what `_scheduler` and `_replicate` show, in CouchDB's words;
 * neither holds a credential.
 */
/** A value that has to be stored as it came, and repeats what was sent in confidence. */
export function repeatsCredential(what: string): EndpointError {
  return new EndpointError("credential_repeated", `${what} of the server repeats a credential`);
}

export class EndpointError extends OperationalError {
  override readonly name = "EndpointError";
  readonly error: string;
  readonly reason: string;
  /** What the server answered, if that is why. */
  readonly answer: ServerAnswer | undefined;
  /** What was tried with a document, if one is why: a source is to blame for what cannot be read, a target for the rest. */
  readonly documentPhase: "read" | "write" | undefined;

  constructor(
    error: string,
    reason: string,
    options: ErrorOptions & {
      readonly answer?: ServerAnswer;
      readonly documentPhase?: "read" | "write";
    } = {},
  ) {
    super("REPLICATOR_ENDPOINT_FAILED", "An endpoint failed", { error, reason }, options);
    this.error = error;
    this.reason = reason;
    this.answer = options.answer;
    this.documentPhase = options.documentPhase;
  }
}

/** What a source has as a document is none by the protocol: to ask again changes nothing. */
export class InvalidDocumentError extends OperationalError {
  override readonly name = "InvalidDocumentError";
  readonly error: string;
  readonly reason: string;

  constructor(error: string, reason: string, options?: ErrorOptions) {
    super("REPLICATOR_DOCUMENT_INVALID", "A document is none", { error, reason }, options);
    this.error = error;
    this.reason = reason;
  }
}
