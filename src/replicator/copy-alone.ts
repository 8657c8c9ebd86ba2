/**
 * The way of a document that travels alone: a design document, so that a refusal hits only it, or one with attachments, so that
 * their bytes stream through without being held.
 */
import { errorCode, OperationalError, type Runtime } from "../base/index.ts";
import type { BatchObserver, BatchOutcome } from "./batch-outcome.ts";
import type { BulkWriter } from "./bulk-writer.ts";
import {
  type Endpoint,
  EndpointError,
  InvalidDocumentError,
  type PlainDocument,
  type RevisionRequest,
  type StreamedDocument,
  type WriteFailure,
} from "./endpoint.ts";
import type { ReplicationOptions } from "./replication.ts";
import type { CopyLimits } from "./replicator-config.ts";

/** The first pause before a document that failed is read again; it doubles twice each time, as CouchDB's. */
const DOCUMENT_PAUSE_MS_FIRST = 1000;
const DOCUMENT_PAUSE_MS_MAX = 300_000;

/** What came of reading a document once. `plain`: what of it is to be written in bulk. */
type Attempt =
  | { readonly kind: "copied"; readonly plain: readonly PlainDocument[] }
  | { readonly kind: "missing" | "missing-stub" }
  | { readonly kind: "failed"; readonly error: unknown };

export interface CopierParts {
  readonly runtime: Runtime;
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly options: ReplicationOptions;
  /** Read at each use. */
  readonly limits: CopyLimits;
}

export class LoneCopier {
  readonly #parts: CopierParts;
  readonly #observer: BatchObserver;

  constructor(parts: CopierParts, observer: BatchObserver) {
    this.#parts = parts;
    this.#observer = observer;
  }

  /** Reads one revision and passes it on; repeats both together, because an attachment's bytes cannot be read twice. */
  async copy(
    request: RevisionRequest,
    writer: BulkWriter,
    batch: BatchOutcome,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock } = this.#parts.runtime;
    let ancestors = request.ancestors;
    let pauseMs = DOCUMENT_PAUSE_MS_FIRST;
    let missingCount = 0;
    let failureCount = 0;
    for (;;) {
      const outcome = await this.#tryAlone({ ...request, ancestors }, batch, signal);
      if (outcome.kind === "copied") {
        // Not while it is read: a bulk write that fails is no failure of this document, and takes others with it.
        for (const document of outcome.plain) await writer.add(document, signal);
        this.#observer.count({ docsRead: outcome.plain.length });
        return;
      }
      // Neither side can be trusted about what the target has: send everything.
      ancestors = [];
      if (outcome.kind === "failed") {
        if (outcome.error instanceof InvalidDocumentError) {
          const { error, reason } = outcome.error;
          this.#failRead(request, { status: undefined, error, reason }, batch);
          return;
        }
        if (++failureCount > this.#parts.options.retriesPerRequest) throw outcome.error;
        await clock.sleep(pauseMs, signal);
        pauseMs = Math.min(pauseMs * 4, DOCUMENT_PAUSE_MS_MAX);
        continue;
      }
      if (++missingCount > 1) {
        if (outcome.kind === "missing-stub") {
          const { id, revision } = request;
          throw new EndpointError("missing_doc", `could not copy revision ${revision} of ${id}`);
        }
        // CouchDB stops the job here, and at every start again: one document holds up all others.
        const reason = "the source announced the revision and does not have it";
        this.#failRead(request, { status: 404, error: "not_found", reason }, batch);
        return;
      }
      if (outcome.kind === "missing")
        await clock.sleep(this.#parts.limits.missingDocumentPauseMs, signal);
    }
  }

  /** One document holds up no others. */
  #failRead(
    { id, revision }: RevisionRequest,
    why: Pick<WriteFailure, "status" | "error" | "reason">,
    batch: BatchOutcome,
  ): void {
    batch.failed("read", [{ id, revision, ...why }]);
    this.#observer.count({ docWriteFailures: 1 });
  }

  async #tryAlone(
    request: RevisionRequest,
    batch: BatchOutcome,
    signal: AbortSignal,
  ): Promise<Attempt> {
    const plain: PlainDocument[] = [];
    let missingStub = false;
    try {
      const found = await this.#parts.source.readRevision(
        request,
        async (document) => {
          if (isPlain(document)) plain.push({ id: document.id, text: document.text });
          else if (!(await this.#writeAlone(document, batch, signal))) missingStub = true;
        },
        signal,
      );
      if (missingStub) return { kind: "missing-stub" };
      return found ? { kind: "copied", plain } : { kind: "missing" };
    } catch (error) {
      signal.throwIfAborted();
      const isOperational = error instanceof OperationalError;
      if (!isOperational || errorCode(error) === "JOBS_HALTED") throw error;
      return { kind: "failed", error };
    }
  }

  /** False when the target lacks an attachment that was not sent. */
  async #writeAlone(
    document: StreamedDocument,
    batch: BatchOutcome,
    signal: AbortSignal,
  ): Promise<boolean> {
    const result = await this.#parts.target.writeDocument(document, signal);
    if (result.kind === "missing-stub") return false;
    if (result.kind === "refused") {
      batch.failed("write", [result.failure]);
      this.#observer.count({ docsRead: 1, docWriteFailures: 1 });
    } else {
      batch.written(document);
      this.#observer.count({ docsRead: 1, docsWritten: 1 });
    }
    return true;
  }
}

/** Whether a document can travel in bulk: it has no attachments, and is not refused with others. */
function isPlain({ id, outline, hasStubs }: StreamedDocument): boolean {
  return outline.length === 0 && !hasStubs && !isDesignDocument(id);
}

export function isDesignDocument(id: string): boolean {
  return id.startsWith("_design/");
}
