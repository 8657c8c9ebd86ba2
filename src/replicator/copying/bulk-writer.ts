/**
 * Writes documents to the target in bulk once there are enough for a request. Attachments, if any,
 * are inline.
 *
 * A single document can make the target fail for a whole batch, for example if a validation
 * function times out in CouchDB, or a proxy rejects a long body. A failed batch is therefore
 * bisected down to the responsible documents.
 */
import { type RefusedBatch, splitRefused } from "../../documents/index.ts";
import {
  EndpointError,
  type EndpointWriter,
  type PlainDocument,
  type WriteFailure,
} from "../endpoints/endpoint.ts";
import { namedRevision } from "../endpoints/named-revision.ts";
import { mayConcernOne } from "../endpoints/suspicion.ts";
import type { BatchObserver, BatchOutcome } from "./batch-outcome.ts";
import type { FailureAttribution } from "./failure-attribution.ts";

/** Maximum size of a write, as in CouchDB 3.5. */
export const WRITE_BYTES_MAX = 4 * 1024 * 1024;

export interface BulkWriterParts {
  readonly target: Pick<EndpointWriter, "writeDocuments">;
  readonly attribution: FailureAttribution;
}

/** Documents that were not written, and the target's error. */
type Unwritten = RefusedBatch<PlainDocument, unknown>;

export class BulkWriter {
  readonly #parts: BulkWriterParts;
  readonly #observer: BatchObserver;
  readonly #outcome: BatchOutcome;
  #documents: PlainDocument[] = [];
  #length = 0;

  constructor(parts: BulkWriterParts, observer: BatchObserver, outcome: BatchOutcome) {
    this.#parts = parts;
    this.#observer = observer;
    this.#outcome = outcome;
  }

  /** Length of the documents waiting to be written, in characters. */
  get length(): number {
    return this.#length;
  }

  /** Adds the document if it fits into the next write. Returns false if it does not fit. */
  tryAdd(document: PlainDocument): boolean {
    const isFirst = this.#documents.length === 0;
    if (!isFirst && this.#length + document.length > WRITE_BYTES_MAX) return false;
    this.#documents.push(document);
    this.#length += document.length;
    return true;
  }

  async add(document: PlainDocument, signal: AbortSignal): Promise<void> {
    while (!this.tryAdd(document)) await this.flush(signal);
  }

  async flush(signal: AbortSignal): Promise<void> {
    const documents = this.#documents;
    this.#documents = [];
    this.#length = 0;
    if (documents.length === 0) return;
    for (const unwritten of await this.#write(documents, signal)) {
      // Check first whether the target fails for every document. In this case, bisecting is
      // pointless.
      await this.#parts.attribution.examine(unwritten.cause, signal);
      await splitRefused(unwritten, {
        write: (half) => this.#write(half, signal, { once: true }),
        refuse: (document, error) => this.#writeLast(document, error, signal),
        // Before skipping a document, write both halves of the failed batch: a success in one of
        // them shows that the target works.
        bothHalvesFirst: true,
      });
    }
  }

  /**
   * Writes documents, and records the accepted and rejected ones. Returns the documents that were
   * neither accepted nor rejected, grouped by their error.
   */
  async #write(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    options?: { readonly once: boolean },
  ): Promise<readonly Unwritten[]> {
    const { target, attribution } = this.#parts;
    let failures: readonly WriteFailure[];
    try {
      failures = await target.writeDocuments(documents, signal, options);
    } catch (error) {
      signal.throwIfAborted();
      if (!mayConcernOne(error)) throw error;
      return [{ items: documents, cause: error }];
    }
    const unwritten = failures.map((failure) => unwrittenOf(failure, documents));
    const refused = failures.filter((_, index) => unwritten[index] === undefined);
    this.#outcome.failed("write", refused);
    const failedIds = new Set(failures.map(({ id }) => id));
    for (const document of documents)
      if (!failedIds.has(document.id)) this.#outcome.written(document);
    const writtenCount = documents.length - failures.length;
    this.#observer.count({ docsWritten: writtenCount, docWriteFailures: refused.length });
    attribution.succeeded(writtenCount + refused.length);
    return unwritten.filter((part) => part !== undefined);
  }

  async #writeLast(document: PlainDocument, error: unknown, signal: AbortSignal): Promise<void> {
    const { id } = document;
    const isListed = this.#observer.failures.has(id);
    const answer = await this.#parts.attribution.passOver(error, isListed, signal);
    // The target might have caused the earlier failures, but it has just answered the control
    // request. If one more attempt fails, the document is responsible.
    const isGuilty = isListed || (await this.#write([document], signal)).length > 0;
    if (!isGuilty) return;
    this.#outcome.failed("write", [{ id, revision: namedRevision(document.text), ...answer }]);
    this.#observer.count({ docWriteFailures: 1 });
  }
}

/**
 * Returns the document to be written again if the row for it reports a server error; undefined if
 * the row rejects the document.
 */
function unwrittenOf(
  { id, revision, status, error, reason }: WriteFailure,
  documents: readonly PlainDocument[],
): Unwritten | undefined {
  if (status === undefined || status < 500) return undefined;
  const named = documents.filter(
    (document) => document.id === id && namedRevision(document.text) === revision,
  );
  if (named.length === 0) return undefined;
  const shown = `${status} for ${revision} of ${id}: ${error}: ${reason}`;
  const answer = { status, error, reason };
  return { items: named, cause: new EndpointError("bulk_docs_failed", shown, { answer }) };
}
