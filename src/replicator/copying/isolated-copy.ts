/**
 * Copies a document individually: a design document, whose rejection must not affect others, or a
 * document with large or compressed attachments, which are streamed without buffering.
 */
import { errorCode, OperationalError, type Runtime } from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import { DIGEST_MISMATCH } from "../endpoints/attachment-digests.ts";
import {
  type Endpoint,
  EndpointError,
  InvalidDocumentError,
  type PlainDocument,
  type RevisionRequest,
  type StreamedDocument,
  TextDocument,
  type WriteFailure,
  type WriteResult,
} from "../endpoints/endpoint.ts";
import { namedRevision } from "../endpoints/named-revision.ts";
import { suspicionOf } from "../endpoints/suspicion.ts";
import type { DocumentFailure } from "../failures/run-failures.ts";
import type { CopyLimits } from "../replicator-config.ts";
import type { Omissions } from "../request/replication.ts";
import type { BatchObserver, BatchOutcome } from "./batch-outcome.ts";
import type { BulkWriter } from "./bulk-writer.ts";
import { AttachmentReading, AttachmentsBroken } from "./copy-attachments.ts";
import type { FailureAttribution } from "./failure-attribution.ts";
import { isGone } from "./gone-revision.ts";
import { isOmitted, wireOf } from "./omitted.ts";

/**
 * First pause before a failed document is read again. The pause is quadrupled after each attempt,
 * as in CouchDB.
 */
const DOCUMENT_PAUSE_MS_FIRST = 1000;
/**
 * Maximum pause between attempts. CouchDB allows five minutes. During such a long pause, a run
 * would count as stalled, or a failing run would count as healthy.
 */
const DOCUMENT_PAUSE_MS_MAX = 16_000;
/**
 * Maximum number of times that a copy is repeated after error responses. Retries of single requests
 * are not included.
 */
const ANSWERED_REPEATS_MAX = 2;

const MISSING = {
  status: 404,
  error: "not_found",
  reason: "the source announced the revision but does not have it",
};
const MISSING_STUB = {
  status: 412,
  error: "missing_stub",
  reason: "the source did not send an attachment that the target does not have",
};

/**
 * Result of one attempt. `copied`: the documents in `plain` still have to be written in bulk.
 * `doubtful-stub`: the document was not written.
 */
type Attempt =
  | { readonly kind: "copied"; readonly plain: readonly PlainDocument[] }
  | { readonly kind: "missing" | "missing-stub" | "doubtful-stub" }
  | { readonly kind: "failed"; readonly side: "source" | "target"; readonly error: unknown };

export interface CopierParts {
  readonly runtime: Runtime;
  readonly source: Endpoint;
  readonly target: Endpoint;
  readonly options: ReplicationOptions;
  /** Revisions to omit; none if absent. */
  readonly omissions?: Omissions | undefined;
  /** Limits for single documents. Read at each use, so that changed settings apply. */
  readonly copyLimits: CopyLimits;
  /** Whether reading overlaps with writing even for nearby servers. False by default. */
  readonly readsAhead?: boolean;
  /** Whether the target is known to be empty. False by default. */
  readonly lacksAll?: boolean;
}

export interface IsolatedCopyParts extends CopierParts {
  readonly sourceAttribution: FailureAttribution;
  readonly targetAttribution: FailureAttribution;
}

/** State of a document while it is copied. */
interface Journey {
  readonly request: RevisionRequest;
  readonly batch: BatchOutcome;
  readonly onText: (length: number) => void;
  readonly isListed: boolean;
  /** Maximum number of error responses that lead to another attempt. */
  readonly answeredMax: number;
  answeredCount: number;
  /** Number of attempts that failed without an error response. */
  failureCount: number;
  missingCount: number;
  /** Pause before the next attempt after a failure. */
  pauseMs: number;
}

export class IsolatedCopy {
  readonly #parts: IsolatedCopyParts;
  readonly #observer: BatchObserver;

  constructor(parts: IsolatedCopyParts, observer: BatchObserver) {
    this.#parts = parts;
    this.#observer = observer;
  }

  /**
   * Reads and writes one revision. Each attempt repeats both, because a stream of attachments
   * cannot be read twice. Calls `onText` with the length of the buffered text.
   */
  async copy(
    request: RevisionRequest,
    writer: BulkWriter,
    batch: BatchOutcome,
    signal: AbortSignal,
    onText: (length: number) => void,
  ): Promise<void> {
    const journey = this.#begin(request, batch, onText);
    let attempt = await this.#tryIsolated(journey, signal);
    while (attempt.kind !== "copied") {
      const isOver =
        attempt.kind === "failed"
          ? await this.#afterFailure(journey, attempt, signal)
          : attempt.kind !== "doubtful-stub" &&
            (await this.#afterMissing(journey, attempt.kind, signal));
      if (isOver) return;
      // A repeated attempt includes all attachments, since the first attempt might have omitted
      // attachments that the target lacks.
      const all = { ...journey, request: { ...request, ancestors: [] } };
      attempt = await this.#tryIsolated(all, signal);
    }
    // Documents for bulk writing are added after the attempts: if the bulk write fails, another
    // document might be the cause.
    for (const document of attempt.plain) await writer.add(document, signal);
    this.#observer.count({ docsRead: attempt.plain.length });
  }

  #begin(request: RevisionRequest, batch: BatchOutcome, onText: (length: number) => void): Journey {
    const { retriesPerRequest } = this.#parts.options;
    const isListed = this.#observer.failures.has(request.id);
    return {
      request,
      batch,
      onText,
      isListed,
      answeredMax: isListed ? 0 : Math.min(ANSWERED_REPEATS_MAX, retriesPerRequest),
      answeredCount: 0,
      failureCount: 0,
      missingCount: 0,
      pauseMs: DOCUMENT_PAUSE_MS_FIRST,
    };
  }

  /** Waits before the next attempt and returns false, or skips the document and returns true. */
  async #afterFailure(
    journey: Journey,
    { side, error }: Attempt & { readonly kind: "failed" },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { request, batch } = journey;
    if (error instanceof InvalidDocumentError) {
      const { error: name, reason } = error;
      this.#fail("read", request, { status: undefined, error: name, reason }, batch);
      return true;
    }
    const kind = suspicionOf(error)?.kind;
    const isAnswered = kind === "answered";
    // Do not try again: the request was already repeated for the maximum time without a response.
    const isHanging = kind === "unanswered" && side === "source";
    const isTriedOut = journey.failureCount >= this.#parts.options.retriesPerRequest;
    if (isAnswered ? isLast(journey) : isHanging || isTriedOut) {
      await this.#passOver(journey, { side, error }, isAnswered, signal);
      return true;
    }
    if (isAnswered) journey.answeredCount++;
    else journey.failureCount++;
    await this.#parts.runtime.clock.sleep(journey.pauseMs, signal);
    journey.pauseMs = Math.min(journey.pauseMs * 4, DOCUMENT_PAUSE_MS_MAX);
    return false;
  }

  async #passOver(
    { request, batch, isListed }: Journey,
    { side, error }: { readonly side: "source" | "target"; readonly error: unknown },
    isAnswered: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const { sourceAttribution, targetAttribution } = this.#parts;
    // On the last attempt, `#writeIsolated` has already sent the control request after the target's
    // error response. If this response is still thrown, the target is responsible, not the
    // document.
    if (isAnswered && side === "target") throw error;
    const attribution = side === "target" ? targetAttribution : sourceAttribution;
    const why = await attribution.passOver(error, isListed, signal);
    this.#fail(side === "target" ? "write" : "read", request, why, batch);
  }

  /**
   * After a document was missing once, waits before the next attempt and returns false. If it was
   * missing again, skips the document and returns true.
   */
  async #afterMissing(
    journey: Journey,
    kind: "missing" | "missing-stub",
    signal: AbortSignal,
  ): Promise<boolean> {
    const { runtime, copyLimits, source, sourceAttribution } = this.#parts;
    const { request, batch } = journey;
    if (++journey.missingCount === 1) {
      if (kind === "missing") await runtime.clock.sleep(copyLimits.missingDocumentPauseMs, signal);
      return false;
    }
    // The target again lacks an attachment that the source did not send. CouchDB would fail the
    // whole job in every run.
    if (kind === "missing-stub") {
      this.#fail("write", request, MISSING_STUB, batch);
      return true;
    }
    // Throws if the database was deleted. In this case, every document is missing.
    await sourceAttribution.examine(undefined, signal);
    // A retry that records no failure removes the document from the list. Therefore, record a
    // failure unless the document no longer exists on the source.
    const isOver = batch.isRetry && (await isGone(source, request, signal));
    if (!isOver) this.#fail("read", request, MISSING, batch);
    return true;
  }

  /** Records the failure on the list, so that the document does not block others. */
  #fail(
    phase: DocumentFailure["phase"],
    { id, revision }: RevisionRequest,
    why: Pick<WriteFailure, "status" | "error" | "reason">,
    batch: BatchOutcome,
  ): void {
    batch.failed(phase, [{ id, revision, ...why }]);
    this.#observer.count({ docWriteFailures: 1 });
  }

  async #tryIsolated(journey: Journey, signal: AbortSignal): Promise<Attempt> {
    const { source, sourceAttribution, omissions } = this.#parts;
    const plain: PlainDocument[] = [];
    let plainLength = 0;
    let missingStub = false;
    let doubtfulStub = false;
    let leftOutCount = 0;
    let side: "source" | "target" = "source";
    try {
      const found = await source.reader.readRevision(
        journey.request,
        async (document) => {
          journey.onText(plainLength + document.text.length);
          if (isOmitted(omissions, document)) {
            leftOutCount++;
            return;
          }
          if (isPlain(document)) {
            plain.push(new TextDocument(document.id, document.text));
            plainLength += document.text.length;
            return;
          }
          if (journey.request.ancestors.length > 0 && hasDoubtfulStub(document)) {
            doubtfulStub = true;
            return;
          }
          side = "target";
          if (!(await this.#writeIsolated(document, journey, signal))) missingStub = true;
          side = "source";
        },
        signal,
      );
      if (doubtfulStub) return { kind: "doubtful-stub" };
      if (missingStub) return { kind: "missing-stub" };
      if (!found) return { kind: "missing" };
      sourceAttribution.succeeded(1);
      if (leftOutCount > 0)
        this.#observer.count({ docsRead: leftOutCount, docsLeftOut: leftOutCount });
      return { kind: "copied", plain };
    } catch (error) {
      signal.throwIfAborted();
      const isSource = error instanceof AttachmentsBroken;
      const cause = isSource ? error.cause : error;
      const isOperational = cause instanceof OperationalError;
      if (!isOperational || errorCode(cause) === "JOBS_HALTED") throw cause;
      return { kind: "failed", side: isSource ? "source" : side, error: cause };
    }
  }

  /**
   * Writes one document with its attachments. Returns false if the target lacks an attachment that
   * was not sent.
   */
  async #writeIsolated(
    document: StreamedDocument,
    journey: Journey,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { batch, isListed } = journey;
    const { target, targetAttribution } = this.#parts;
    const { id, text } = document;
    const reading = new AttachmentReading(document.attachments);
    let result: WriteResult;
    try {
      result = await target.writer.writeDocument({ ...document, attachments: reading }, signal);
    } catch (error) {
      signal.throwIfAborted();
      // If reading from the source failed, the target's error is only a consequence.
      if (reading.failure !== undefined) throw new AttachmentsBroken(reading.failure);
      if (!isLast(journey) || suspicionOf(error)?.kind !== "answered") throw error;
      const answer = await targetAttribution.passOver(error, isListed, signal);
      result = { kind: "refused", failure: { id, revision: namedRevision(text), ...answer } };
    }
    if (result.kind === "missing-stub") return false;
    if (result.kind === "refused") {
      const { status = 400, error, reason } = result.failure;
      // The bytes might have been damaged in transit, so read them again before recording a
      // failure.
      if (error === DIGEST_MISMATCH && !isLast(journey)) {
        throw new EndpointError(error, reason, { answer: { status, error, reason } });
      }
      // Send a control request: if permissions were revoked during the run, the target rejects all
      // documents.
      if (status === 401 || status === 403) await targetAttribution.examine(undefined, signal);
      batch.failed("write", [result.failure]);
      this.#observer.count({ docsRead: 1, docWriteFailures: 1 });
    } else {
      targetAttribution.succeeded(1);
      batch.written(document);
      this.#observer.count({ docsRead: 1, docsWritten: 1 });
    }
    return true;
  }
}

/** Whether this attempt is the last: if it ends with an error response, the document is skipped. */
function isLast({ answeredCount, answeredMax }: Journey): boolean {
  return answeredCount >= answeredMax;
}

/**
 * Whether a document can be copied in bulk: it has no attachments, and is not a design document.
 */
function isPlain({ id, outline, hasStubs }: StreamedDocument): boolean {
  return outline.length === 0 && !hasStubs && !isDesignDocument(id);
}

/**
 * Whether any stub has an unknown position (`revpos`). The target might then mistake the stub for
 * another attachment: CouchDB assigns position 0 to attachments of unknown origin, and a CouchDB
 * target replaces a stub by the ancestor's attachment of the same name and position, even if the
 * digest differs.
 */
function hasDoubtfulStub(document: StreamedDocument): boolean {
  if (!document.hasStubs) return false;
  const attachments = wireOf(document)?.attachments ?? [];
  return attachments.some(
    ({ content, revisionPosition = 0 }) => content.kind === "stub" && revisionPosition === 0,
  );
}

export function isDesignDocument(id: string): boolean {
  return id.startsWith("_design/");
}
