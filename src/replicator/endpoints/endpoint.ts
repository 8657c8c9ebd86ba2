/**
 * One side of a replication, as the replicator uses it. There are two implementations: a server
 * that speaks the CouchDB protocol (`HttpEndpoint`) and a local database (`LocalEndpoint`), which
 * needs no socket.
 *
 * Every call ends when its signal aborts. The `error` of an EndpointError determines the class of a
 * failure (`classifyFailure`).
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

/**
 * A position in the source's changes feed: an opaque JSON value whose content is never interpreted.
 * 0 is the beginning of the feed.
 */
export type SourceSequence = unknown;

/**
 * Parses a sequence. If parsing would change its numbers, returns the JSON text itself.
 * `sequenceText` formats both alike.
 */
export function parseSequence(text: JsonText): SourceSequence {
  return keepsForm(text) ? JSON.parse(text) : text;
}

/**
 * A sequence with an unpaired surrogate, wrapped as JSON text, because a `_local` document cannot
 * contain unpaired surrogates.
 */
interface EscapedSequence {
  readonly json: JsonText;
}

/** Converts a sequence to a form that every database can store. */
export function storableSequence(sequence: SourceSequence): SourceSequence {
  if (typeof sequence === "string" && isWellFormed(sequence)) return sequence;
  // In the output of JSON.stringify, only unpaired surrogates are written as `\ud…`.
  const json = JSON.stringify(sequence);
  return json?.includes("\\ud") ? ({ json } satisfies EscapedSequence) : sequence;
}

/** Formats a sequence as a query parameter: strings unchanged, anything else as JSON. */
export function sequenceText(sequence: SourceSequence): string {
  if (typeof sequence === "string") return sequence;
  if (isEscaped(sequence)) return sequenceText(JSON.parse(sequence.json));
  return JSON.stringify(sequence);
}

function isEscaped(sequence: SourceSequence): sequence is EscapedSequence {
  return isJsonObject(sequence) && typeof sequence.json === "string";
}

/**
 * Whether two sequences are identical. Checkpoints are compared with this function: if it returned
 * true for different positions, changes could be skipped.
 */
export function isSameSequence(left: SourceSequence, right: SourceSequence): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}

/**
 * Whether two sequences denote the same position of a feed. Nodes of a CouchDB cluster can encode
 * one position differently: as the sum of all shards' sequences, followed by a packed list
 * (`g1AAAA…`) whose order varies. Only the sums of packed sequences are compared.
 */
export function isSamePosition(left: SourceSequence, right: SourceSequence): boolean {
  const [one, other] = [shardSum(left), shardSum(right)];
  if (one !== undefined && other !== undefined) return one === other;
  return sequenceText(left) === sequenceText(right);
}

function shardSum(sequence: SourceSequence): string | undefined {
  return typeof sequence === "string" ? /^(\d+)-g/.exec(sequence)?.[1] : undefined;
}

/**
 * Minimum round-trip time of a distant endpoint. Shorter times mainly reflect the load of the
 * machine.
 */
export const FAR_MS_MIN = 10;

export interface EndpointInfo {
  readonly updateSequence: SourceSequence;
  /**
   * Creation time, which changes if the database is deleted and re-created; `"0"` for servers that
   * do not report it.
   */
  readonly instanceStartTime: string;
  /**
   * Whether the database contains no documents, not even deleted ones; false for servers that do
   * not report it.
   */
  readonly isEmpty: boolean;
}

/** Creation times of both databases (`instanceStartTime`). */
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
  /** Length of the received row in bytes, used to limit the size of the queue. */
  readonly sizeBytes: number;
}

/** A position of the feed without a change. All changes up to `sequence` have been delivered. */
export interface FeedPosition {
  readonly id?: undefined;
  readonly sequence: SourceSequence;
}

export type ChangesItem = ChangedDocument | FeedPosition;

export function isChange(item: ChangesItem): item is ChangedDocument {
  return item.id !== undefined;
}

export interface ChangesRequest {
  readonly since: SourceSequence;
  /**
   * Whether to wait for new changes. If false, the feed ends with the changes that existed at the
   * time of the request.
   */
  readonly continuous: boolean;
  /**
   * For a one-shot feed: whether to report its end even if the filter selected no change. By
   * default, the end is reported only if the filter selected a change.
   */
  readonly showsEnd?: boolean;
  readonly selection: Selection;
  readonly winningRevisionsOnly: boolean;
}

export interface RevisionRequest {
  readonly id: string;
  readonly revision: string;
  /**
   * Revisions that the target has. Attachments that these revisions already contain need not be
   * sent.
   */
  readonly ancestors: readonly string[];
}

/**
 * A document as JSON text: `_id`, `_rev`, `_revisions` and the body unchanged, with the bytes of
 * any attachments in base64.
 */
export interface PlainDocument {
  readonly id: string;
  /** Approximate number of characters of the text, for limiting the size of a write. */
  readonly length: number;
  /** The text, possibly rendered on each access. */
  readonly text: JsonText;
  /** Writes the text into the buffer, if possible without creating a string first. */
  writeTo(writer: Utf8Writer): void;
  /** The parsed document, if the source has it, so that the target need not parse the text. */
  readonly wire?: WireDocument;
  /** Whether the text contains the bytes of attachments. */
  readonly holdsAttachments?: boolean;
}

/** A document whose text is in memory. */
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

/** Options of a bulk read. */
export interface ReadRevisionsOptions {
  /** Whether to send the request only once, as in `writeDocuments`. */
  readonly once?: boolean;
  /**
   * Whether to include the bytes of attachments in the text. Each document with a compressed
   * attachment must then be requested individually, because the bytes in the text would differ from
   * the stored bytes. Used only for a few documents at a time.
   */
  readonly attachments?: boolean;
}

/**
 * Result of a bulk read for one requested revision. `separately`: the document must be requested
 * individually, because reading it failed or the bytes of its attachments are missing. `outlines`:
 * the document without the attachment bytes, if the source sent it in that form.
 */
export type BulkReadResult =
  | { readonly kind: "documents"; readonly documents: readonly PlainDocument[] }
  | { readonly kind: "separately"; readonly outlines?: readonly PlainDocument[] };

/**
 * One attachment with its bytes as stored. Attachments are in the order of the `follows` members in
 * the document's text.
 */
export interface AttachmentStream {
  readonly name: string;
  /** Stored length in bytes. */
  readonly length: number;
  readonly contentType: string;
  readonly encoding: string | undefined;
  /** The bytes. Can be read once, before the next attachment is requested. */
  readonly body: AsyncIterable<Uint8Array>;
}

/** A document with its attachments. `attachments` is consumed once, in order. */
export interface StreamedDocument {
  readonly id: string;
  readonly text: JsonText;
  /**
   * Whether some attachments are sent as stubs because the target should already have the bytes.
   */
  readonly hasStubs: boolean;
  readonly attachments: AsyncIterable<AttachmentStream>;
  /** Name, length and type of each attachment that follows, in order. */
  readonly outline: readonly Omit<AttachmentStream, "body">[];
}

/** Rejection of a document, with the target's error and reason. */
export interface WriteFailure {
  readonly id: string;
  readonly revision: string;
  /**
   * HTTP status of the response. If the response contains none, the status that CouchDB uses for
   * this error; undefined if CouchDB has no such error.
   */
  readonly status: number | undefined;
  readonly error: string;
  readonly reason: string;
}

/**
 * The outcome of a single write. `missing-stub`: the document must be sent again with all
 * attachments.
 */
export type WriteResult =
  | { readonly kind: "written" }
  | { readonly kind: "refused"; readonly failure: WriteFailure }
  | { readonly kind: "missing-stub" };

/** A `_local` document, such as a checkpoint. */
export interface CheckpointDocument {
  readonly revision: string;
  readonly body: JsonText;
}

export interface EndpointReader {
  /**
   * Reads many revisions, with results in the order of the requests. Can return the results of the
   * leading requests only, at least one, to limit their size. Returns `undefined` if the endpoint
   * does not support it.
   */
  readRevisions(
    requests: readonly RevisionRequest[],
    signal: AbortSignal,
    options?: ReadRevisionsOptions,
  ): Promise<readonly BulkReadResult[] | undefined>;
  /**
   * Reads one revision or, if it is not a leaf, the leaves that descend from it. Passes each
   * document that it reads, with its attachments, to `consume`. Returns false if the revision is
   * missing.
   */
  readRevision(
    request: RevisionRequest,
    consume: (document: StreamedDocument) => Promise<void>,
    signal: AbortSignal,
  ): Promise<boolean>;

  /**
   * Returns the MD5 of an attachment's uncompressed bytes in hex, or undefined if the attachment
   * does not exist. The attachment's `digest` cannot be used, because it is computed from the bytes
   * as stored, possibly compressed.
   */
  attachmentMd5(
    revision: Pick<RevisionRequest, "id" | "revision">,
    name: string,
    signal: AbortSignal,
  ): Promise<string | undefined>;
}

export interface EndpointWriter {
  /**
   * Writes replicated revisions. Returns a failure for each revision that was not accepted. `once`:
   * sends the request only once, even if the server asks to retry it later.
   */
  writeDocuments(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    options?: { readonly once?: boolean },
  ): Promise<readonly WriteFailure[]>;
  writeDocument(document: StreamedDocument, signal: AbortSignal): Promise<WriteResult>;
}

export interface Endpoint {
  /** URL for display, without a password. */
  readonly shownUrl: string;
  /**
   * Whether writes are known to be durable once the server acknowledges them, so that `commit` has
   * no further effect.
   */
  readonly writesDurably: boolean;
  /** Whether a server has identified itself as CouchDB; absent for a local database. */
  readonly isRecognized?: boolean;
  /** Whether the server is known to support `continueLog`. */
  readonly continuesLogs: boolean;
  /**
   * Shortest recent time to the beginning of a response, as a measure of the endpoint's distance.
   * Undefined for a local database, and before the first response.
   */
  readonly roundTripMs: number | undefined;
  readonly reader: EndpointReader;
  readonly writer: EndpointWriter;

  /**
   * Creates the database. Returns false if the database already exists or could not be created. If
   * it could not be created, the next `info` throws the reason.
   */
  create(parameters: Readonly<Record<string, string>>, signal: AbortSignal): Promise<boolean>;
  info(signal: AbortSignal): Promise<EndpointInfo>;

  /** Yields items in order, in batches. A continuous feed never ends. */
  changes(request: ChangesRequest, signal: AbortSignal): AsyncIterable<readonly ChangesItem[]>;
  /** Returns the number of changes after `since`; undefined if the source does not report it. */
  pendingChangeCount(since: SourceSequence, signal: AbortSignal): Promise<number | undefined>;

  /** Returns the revisions that the endpoint lacks. `once`: sends the request only once. */
  missingRevisions(
    revisions: ReadonlyMap<string, readonly string[]>,
    signal: AbortSignal,
    options?: { readonly once?: boolean },
  ): Promise<ReadonlyMap<string, MissingRevisions>>;

  /**
   * Returns the text of a document's winning revision, for use by filter functions; undefined if
   * the document does not exist.
   */
  readDocument(id: string, signal: AbortSignal): Promise<JsonText | undefined>;

  /** Returns the security object, as text. */
  security(signal: AbortSignal): Promise<JsonText>;
  setSecurity(text: JsonText, signal: AbortSignal): Promise<void>;

  /**
   * Returns a `_local` document. Rejects with `read_only` if the account is not allowed to read it.
   */
  readLocal(id: string, signal: AbortSignal): Promise<CheckpointDocument | undefined>;
  /**
   * Writes a `_local` document that replaces revision `parent`. Returns the new revision, or
   * undefined on a conflict. For a database of this node, also rejects the write if the database's
   * creation time is not `instanceStartTime`; servers cannot check this.
   */
  writeLocal(
    id: string,
    body: JsonText,
    parent: string | undefined,
    signal: AbortSignal,
    instanceStartTime?: string,
  ): Promise<string | undefined>;
  /**
   * Writes the log of a run in one request, if the run started at the last sequence of the stored
   * log. The new history consists of the run's own entry, followed by the stored history. Returns
   * the new revision; false if the stored log ends at another sequence; undefined if the endpoint
   * does not support `continueLog`.
   */
  continueLog(
    id: string,
    log: JsonText,
    signal: AbortSignal,
    options?: { readonly madeAt?: string },
  ): Promise<string | false | undefined>;
  /**
   * Makes the writes durable. Returns the instance start time, so that the caller can detect a
   * re-created database.
   */
  commit(signal: AbortSignal): Promise<string>;
}

/** An error response, with the server's error and reason. */
export interface ServerAnswer {
  readonly status: number;
  readonly error: string;
  readonly reason: string;
}

/**
 * Returns the error for a value that would have to be stored unchanged but contains a credential.
 */
export function repeatsCredential(what: string): EndpointError {
  return new EndpointError(
    "credential_repeated",
    `${what} of the server contains a credential of the job`,
  );
}

/**
 * Thrown if an operation on an endpoint fails. `_scheduler` and `_replicate` show `error` and
 * `reason`, which are worded as in CouchDB and contain no credential.
 */
export class EndpointError extends OperationalError {
  override readonly name = "EndpointError";
  readonly error: string;
  readonly reason: string;
  /** The response that caused the error, if any. */
  readonly answer: ServerAnswer | undefined;
  /**
   * Operation that failed because of a document: reading the document from the source, or writing
   * it to the target. Undefined for an error that was not caused by a document.
   */
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

/** Thrown if a source sends a document that violates the protocol. Retrying is pointless. */
export class InvalidDocumentError extends OperationalError {
  override readonly name = "InvalidDocumentError";
  readonly error: string;
  readonly reason: string;

  constructor(error: string, reason: string, options?: ErrorOptions) {
    super("REPLICATOR_DOCUMENT_INVALID", "The document is not valid", { error, reason }, options);
    this.error = error;
    this.reason = reason;
  }
}
