/** What goes to the target in bulk: documents without attachments, until there are enough for one write. */
import type { BatchObserver, BatchOutcome } from "./batch-outcome.ts";
import type { Endpoint, PlainDocument } from "./endpoint.ts";

/** A write to the target holds at most so much text; CouchDB 3.5's figure. */
export const WRITE_BYTES_MAX = 4 * 1024 * 1024;

export class BulkWriter {
  readonly #target: Endpoint;
  readonly #observer: BatchObserver;
  readonly #outcome: BatchOutcome;
  #documents: PlainDocument[] = [];
  #length = 0;

  constructor(target: Endpoint, observer: BatchObserver, outcome: BatchOutcome) {
    this.#target = target;
    this.#observer = observer;
    this.#outcome = outcome;
  }

  /** Takes the document if it fits into the next write; false: it was not taken. */
  tryAdd(document: PlainDocument): boolean {
    const isFirst = this.#documents.length === 0;
    if (!isFirst && this.#length + document.text.length > WRITE_BYTES_MAX) return false;
    this.#documents.push(document);
    this.#length += document.text.length;
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
    const failures = await this.#target.writeDocuments(documents, signal);
    this.#outcome.failed("write", failures);
    const refused = new Set(failures.map(({ id }) => id));
    for (const document of documents)
      if (!refused.has(document.id)) this.#outcome.written(document);
    this.#observer.count({
      docsWritten: documents.length - failures.length,
      docWriteFailures: failures.length,
    });
  }
}
