/**
 * Writes documents whose attachments, if any, are in their texts to the target in bulk, as soon as there are enough for one write.
 *
 * A target may fail for a whole batch because of one document, such as a CouchDB whose validation function takes too
 * long for it, or a proxy that breaks off a body that is too long. So a batch for which the target fails is sent in
 * halves, down to the documents to blame.
 */
import { type RefusedBatch, splitRefused } from "../../documents/index.ts";
import {
  type Endpoint,
  EndpointError,
  type PlainDocument,
  type WriteFailure,
} from "../endpoints/endpoint.ts";
import { namedRevision } from "../endpoints/named-revision.ts";
import { mayConcernOne } from "../endpoints/suspicion.ts";
import type { BatchObserver, BatchOutcome } from "./batch-outcome.ts";
import type { Blame } from "./copy-blame.ts";

/** A write to the target holds at most so much text; CouchDB 3.5's figure. */
export const WRITE_BYTES_MAX = 4 * 1024 * 1024;

export interface BulkWriterParts {
  readonly target: Pick<Endpoint, "writeDocuments">;
  readonly blame: Blame;
}

/** Documents over which the target failed, and how. */
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

  /** Of the documents that are to be written, in characters. */
  get length(): number {
    return this.#length;
  }

  /** Takes the document if it fits into the next write; false: it was not taken. */
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
      // A target that is in trouble as a whole need not be asked again and again.
      await this.#parts.blame.examine(unwritten.cause, signal);
      await splitRefused(unwritten, {
        write: (half) => this.#write(half, signal, { once: true }),
        refuse: (document, error) => this.#writeLast(document, error, signal),
        // What succeeds tells a target that takes some from one that takes none.
        bothHalvesFirst: true,
      });
    }
  }

  /** Writes documents, and settles what the target took or refused; returns the others. */
  async #write(
    documents: readonly PlainDocument[],
    signal: AbortSignal,
    options?: { readonly once: boolean },
  ): Promise<readonly Unwritten[]> {
    const { target, blame } = this.#parts;
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
    blame.succeeded(writtenCount + refused.length);
    return unwritten.filter((part) => part !== undefined);
  }

  async #writeLast(document: PlainDocument, error: unknown, signal: AbortSignal): Promise<void> {
    const { id } = document;
    const isListed = this.#observer.failures.has(id);
    const answer = await this.#parts.blame.passOver(error, isListed, signal);
    // The target works at this moment, so this try tells; earlier ones may have met it in a bad one.
    const isGuilty = isListed || (await this.#write([document], signal)).length > 0;
    if (!isGuilty) return;
    this.#outcome.failed("write", [{ id, revision: namedRevision(document.text), ...answer }]);
    this.#observer.count({ docWriteFailures: 1 });
  }
}

/** The document of a row that tells of the server's own trouble; undefined for a refusal. */
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
