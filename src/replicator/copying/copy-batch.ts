/**
 * Copies a batch of changes: asks the target which revisions it lacks, reads them from the source,
 * and writes them to the target.
 *
 * Documents without attachments are copied in bulk. Design documents are copied individually, so
 * that a rejection does not affect others. Documents with attachments are also copied individually
 * and streamed, unless the attachments are small enough to be inlined.
 */

import {
  append,
  backoff,
  inSpan,
  type Runtime,
  runTogether,
  utf8Encode,
} from "../../base/index.ts";
import type { ReplicationOptions } from "../../contract/index.ts";
import { isRevision, type MissingRevisions } from "../../databases/index.ts";
import { type BatchSizes, batchesOf } from "../../documents/index.ts";
import { isWellFormed } from "../../protocol/index.ts";
import {
  type BulkReadResult,
  type ChangedDocument,
  type Endpoint,
  EndpointError,
  type EndpointWriter,
  type PlainDocument,
  type RevisionRequest,
} from "../endpoints/endpoint.ts";
import { mayConcernOneAsked } from "../endpoints/suspicion.ts";
import type { DocumentFailure } from "../failures/run-failures.ts";
import type { CopyLimits } from "../replicator-config.ts";
import type { Omissions } from "../request/replication.ts";
import { AdaptiveChoice } from "./adaptive-choice.ts";
import { type BatchObserver, BatchOutcome } from "./batch-outcome.ts";
import { BulkWriter, WRITE_BYTES_MAX } from "./bulk-writer.ts";
import { FailureAttribution } from "./failure-attribution.ts";
import { type CopyTurns, Governor } from "./governor.ts";
import { type CopierParts, IsolatedCopy, isDesignDocument } from "./isolated-copy.ts";
import { IsolatedCopyStage } from "./isolated-copy-stage.ts";
import { isChangeOmitted, isOmitted, wireOf } from "./omitted.ts";

/**
 * Initial maximum number of revisions per bulk read. It is low because document sizes are still
 * unknown.
 */
const BULK_ROWS_FIRST = 100;
/** Maximum number of revisions per bulk read, however short the documents are. */
const BULK_ROWS_MAX = 500;
/**
 * Factor by which the estimated document length is multiplied after each page. If the mean length
 * on a page is larger than the result, the mean becomes the estimate.
 */
const LENGTH_DECAY = 0.9;
/** Maximum total size of the attachments inlined for one document. */
const SMALL_BYTES_MAX = 128 * 1024;
/** Maximum total size of the attachments inlined in one bulk read. */
const SMALL_PAGE_BYTES = 1024 * 1024;
/**
 * CouchDB 3.5's thresholds beyond which `_revs_diff` requests, or bulk reads, are useless too often
 * and are no longer sent.
 */
const REVISIONS_DIFFERENCE_LIMITS = { decay: 0.4, vainRatioMax: 0.95 };
const BULK_GET_LIMITS = { decay: 0.25, vainRatioMax: 0.5 };
/**
 * Minimum and maximum pause between retries of failed documents, for a job that must not skip them.
 */
const HOLD_PAUSE_MS = { min: 1000, max: 60_000 };

/** Maximum number of characters shown from an invalid revision. */
const SHOWN_REVISION_LENGTH_MAX = 100;

const NONE: readonly string[] = [];

/** Base64 characters per byte of an inlined attachment. */
const BASE64_CHARACTERS = 4 / 3;

export type RevisionsOfDocument = Pick<ChangedDocument, "id" | "revisions"> &
  Partial<Pick<ChangedDocument, "isDeleted">>;

export class BatchCopier {
  readonly governor: Governor;
  readonly #runtime: Runtime;
  readonly #source: Endpoint;
  readonly #target: Endpoint;
  readonly #options: ReplicationOptions;
  readonly #omissions: Omissions | undefined;
  readonly #copyLimits: CopyLimits;
  readonly #observer: BatchObserver;
  readonly #sourceAttribution: FailureAttribution;
  readonly #targetAttribution: FailureAttribution;
  /** Copies documents individually. All copiers of the job share this stage. */
  readonly #isolated: IsolatedCopyStage;
  /**
   * The target, wrapped so that the durations of writes adjust the concurrency of the writing
   * stage.
   */
  readonly #timedTarget: Pick<EndpointWriter, "writeDocuments">;
  readonly #revisionsDifference = new AdaptiveChoice(REVISIONS_DIFFERENCE_LIMITS);
  readonly #bulkGet = new AdaptiveChoice(BULK_GET_LIMITS);
  #bulkRowCount = BULK_ROWS_FIRST;
  /**
   * Estimated length of a document: the largest mean of recent pages; undefined before the first
   * page.
   */
  #documentLength: number | undefined;

  constructor(parts: CopierParts, observer: BatchObserver) {
    const { runtime, source, target, options, omissions, copyLimits, readsAhead = false } = parts;
    this.#runtime = runtime;
    this.#source = source;
    this.#target = target;
    this.#options = options;
    this.#omissions = omissions;
    this.#copyLimits = copyLimits;
    this.#observer = observer;
    this.#sourceAttribution = FailureAttribution.ofSource(source);
    this.#targetAttribution = FailureAttribution.ofTarget(target);
    if (parts.lacksAll === true) this.#revisionsDifference.expectVain(runtime.clock.monotonicMs());
    const attributions = {
      sourceAttribution: this.#sourceAttribution,
      targetAttribution: this.#targetAttribution,
    };
    const copier = new IsolatedCopy({ ...parts, ...attributions }, observer);
    const governor = new Governor(runtime.clock, options, readsAhead);
    this.governor = governor;
    this.#isolated = new IsolatedCopyStage({ stage: governor.isolated, source, target, copier });
    this.#timedTarget = {
      writeDocuments: (...args) =>
        governor.writing.timed(
          () => target.roundTripMs,
          () => target.writer.writeDocuments(...args),
        ),
    };
  }

  /**
   * Copies missing revisions of `changes`, within the copiers' limits. With the failure policy
   * `skip`, every revision is on the target or on the list of failures when the promise resolves.
   * With `hold`, failures are retried indefinitely; with `crash`, the first failure is thrown.
   */
  async copy(changes: readonly RevisionsOfDocument[], signal: AbortSignal): Promise<void> {
    const failures = await inSpan(
      this.#runtime.spans,
      "replication.batch",
      () => ({ "replication.documents": changes.length }),
      () => this.#tryOnce(changes, this.governor.copierTurns, signal),
    );
    const [first] = failures;
    if (first === undefined) return;
    const { failurePolicy } = this.#options;
    switch (failurePolicy) {
      case "skip":
        return;
      case "hold":
        return this.#hold(failures, signal);
      case "crash": {
        const { id, revision, phase, error, reason } = first;
        const sentence = `${revision} of ${id}: ${error}: ${reason}`;
        throw new EndpointError("document_failed", sentence, { documentPhase: phase });
      }
      default:
        failurePolicy satisfies never;
    }
  }

  /** Retries failed documents until all have arrived. */
  async #hold(failed: readonly DocumentFailure[], signal: AbortSignal): Promise<void> {
    let failures = failed;
    for (let round = 1; failures.length > 0; round++) {
      await this.#runtime.clock.sleep(backoff(HOLD_PAUSE_MS, round), signal);
      const left = failures.map(({ id, revision }) => ({ id, revisions: [revision] }));
      failures = await this.#tryOnce(left, this.governor.copierTurns, signal, { isRetry: true });
    }
  }

  /**
   * Copies missing revisions of `changes`, and adds failures to the list of failures. The copiers'
   * limits do not apply.
   */
  tryOnce(
    changes: readonly RevisionsOfDocument[],
    signal: AbortSignal,
  ): Promise<readonly DocumentFailure[]> {
    return this.#tryOnce(changes, this.governor.retryTurns, signal);
  }

  /**
   * Retries revisions on the list of failures once. Revisions that no longer exist on the source
   * are removed from the list.
   */
  async retry(listed: readonly RevisionsOfDocument[], signal: AbortSignal): Promise<void> {
    await this.#tryOnce(listed, this.governor.retryTurns, signal, { isRetry: true });
  }

  async #tryOnce(
    changes: readonly RevisionsOfDocument[],
    turns: CopyTurns,
    signal: AbortSignal,
    options: { readonly isRetry?: boolean } = {},
  ): Promise<readonly DocumentFailure[]> {
    const revisions = new Map<string, readonly string[]>();
    const outcome = new BatchOutcome(this.#observer, options);
    let askedCount = 0;
    let leftOutCount = 0;
    for (const change of changes) {
      const { id, revisions: named } = change;
      if (isChangeOmitted(this.#omissions, change)) {
        leftOutCount++;
        continue;
      }
      if (this.#isTooLong(id)) {
        const reason = `the id is longer than ${this.#copyLimits.documentIdBytesMax} bytes`;
        this.#passOver(id, named, { error: "document_id_too_long", reason }, outcome);
        continue;
      }
      if (!isWellFormed(id)) {
        const reason = "the id has an unpaired surrogate, so no database can store it";
        this.#passOver(id, named, { error: "document_id_invalid", reason }, outcome);
        continue;
      }
      const changed = this.#withoutInvalidRevisions(id, named, outcome);
      if (changed.length === 0) continue;
      // A document can occur in several rows of a batch, but must occur only once in the request.
      const before = revisions.get(id) ?? [];
      const isSingle = before.length === 0 && changed.length === 1;
      revisions.set(id, isSingle ? changed : [...new Set([...before, ...changed])]);
      askedCount += changed.length;
    }
    if (leftOutCount > 0) this.#observer.count({ docsLeftOut: leftOutCount });
    if (revisions.size === 0 && outcome.failures.length === 0) return [];
    const { small, ...bulk } = await this.#copyInBulk(
      revisions,
      askedCount,
      outcome,
      turns,
      signal,
    );
    const notSmall = await this.#copySmall(small, outcome, turns, signal);
    const alone = [...bulk.alone, ...notSmall];
    if (alone.length > 0) await turns.writing.run(() => this.#copyIsolated(alone, outcome, signal));
    await outcome.record(revisions);
    return outcome.failures;
  }

  /**
   * Copies documents without attachments in bulk. Returns the requests for documents that could not
   * be copied in this way.
   */
  async #copyInBulk(
    revisions: ReadonlyMap<string, readonly string[]>,
    askedCount: number,
    outcome: BatchOutcome,
    turns: CopyTurns,
    signal: AbortSignal,
  ): Promise<Unread> {
    const writer = this.#openWriter(outcome);
    const expected = askedCount * (this.#documentLength ?? WRITE_BYTES_MAX);
    const held = await turns.room.take(Math.min(expected, WRITE_BYTES_MAX));
    try {
      const unread = await turns.reading.run(async () => {
        const requests = revisions.size === 0 ? [] : await this.#missing(revisions, signal);
        this.#observer.count({ missingChecked: askedCount, missingFound: requests.length });
        return this.#readInBulk(requests, writer, signal);
      });
      held.resize(writer.length);
      if (writer.length > 0) await turns.writing.run(() => writer.flush(signal));
      return unread;
    } finally {
      held.release();
    }
  }

  /**
   * Copies documents with inlined attachments. Returns the requests for documents that must be read
   * individually.
   */
  async #copySmall(
    small: readonly SmallRequest[],
    outcome: BatchOutcome,
    { reading, writing, room }: CopyTurns,
    signal: AbortSignal,
  ): Promise<readonly RevisionRequest[]> {
    const alone: RevisionRequest[] = [];
    const copyPage =
      (page: readonly SmallRequest[]) =>
      async (pageSignal: AbortSignal): Promise<void> => {
        const byteCount = page.reduce((sum, request) => sum + request.byteCount, 0);
        const held = await room.take(byteCount * BASE64_CHARACTERS);
        try {
          const writer = this.#openWriter(outcome);
          append(alone, await reading.run(() => this.#readSmall(page, writer, pageSignal)));
          held.resize(writer.length);
          if (writer.length > 0) await writing.run(() => writer.flush(pageSignal));
        } finally {
          held.release();
        }
      };
    if (small.length > 0)
      await runTogether(signal, [...batchesOf(small, SMALL_SIZES)].map(copyPage));
    return alone;
  }

  async #copyIsolated(
    requests: readonly RevisionRequest[],
    outcome: BatchOutcome,
    signal: AbortSignal,
  ): Promise<void> {
    const writer = this.#openWriter(outcome);
    await this.#isolated.copy(requests, writer, outcome, signal);
    await writer.flush(signal);
  }

  #openWriter(outcome: BatchOutcome): BulkWriter {
    const parts = { target: this.#timedTarget, attribution: this.#targetAttribution };
    return new BulkWriter(parts, this.#observer, outcome);
  }

  #read<T>(endpoint: Endpoint, ask: () => Promise<T>): Promise<T> {
    return this.governor.reading.timed(() => endpoint.roundTripMs, ask);
  }

  #isTooLong(id: string): boolean {
    const { documentIdBytesMax } = this.#copyLimits;
    return id.length * 3 > documentIdBytesMax && utf8Encode(id).length > documentIdBytesMax;
  }

  /**
   * Removes the invalid revisions of a changes row, because one invalid revision would make the
   * whole request fail.
   */
  #withoutInvalidRevisions(
    id: string,
    revisions: readonly string[],
    outcome: BatchOutcome,
  ): readonly string[] {
    if (revisions.every(isRevision)) return revisions;
    const reason = "the source's changes name a revision that is not of the form N-hash";
    const impossible = revisions
      .filter((revision) => !isRevision(revision))
      .map((revision) => revision.slice(0, SHOWN_REVISION_LENGTH_MAX));
    this.#passOver(id, impossible, { error: "revision_invalid", reason }, outcome);
    return revisions.filter(isRevision);
  }

  /**
   * Records a failure for each revision that cannot be copied. CouchDB records no failure: it
   * counts a document whose id is too long, and crashes on an invalid revision.
   */
  #passOver(
    id: string,
    revisions: readonly string[],
    { error, reason }: Pick<DocumentFailure, "error" | "reason">,
    outcome: BatchOutcome,
  ): void {
    outcome.failed(
      "read",
      revisions.map((revision) => ({ id, revision, status: undefined, error, reason })),
    );
    this.#observer.count({ docWriteFailures: 1 });
  }

  /**
   * Returns the revisions that the target lacks. If the target has lacked almost all revisions so
   * far, sends no request, and assumes that all of `revisions` are missing.
   */
  async #missing(
    revisions: ReadonlyMap<string, readonly string[]>,
    signal: AbortSignal,
  ): Promise<readonly RevisionRequest[]> {
    const { clock } = this.#runtime;
    const missing = await this.#askMissing(revisions, signal);
    const requests: RevisionRequest[] = [];
    if (missing === undefined) {
      for (const [id, changed] of revisions) {
        for (const revision of changed) requests.push({ id, revision, ancestors: NONE });
      }
      return requests;
    }
    let askedCount = 0;
    for (const { length } of revisions.values()) askedCount += length;
    let unknownCount = 0;
    for (const [id, { missing: lacking, possibleAncestors }] of missing) {
      if (possibleAncestors.length === 0) unknownCount += lacking.length;
      for (const revision of lacking) requests.push({ id, revision, ancestors: possibleAncestors });
    }
    // The response is also useful for a missing revision with possible ancestors, because
    // attachments of these ancestors need not be transferred.
    this.#revisionsDifference.record(askedCount, askedCount - unknownCount, clock.monotonicMs());
    return requests;
  }

  /**
   * Asks the target which revisions it lacks. Returns undefined if the request is not worthwhile,
   * or if one of the documents might have made the request fail.
   */
  async #askMissing(
    revisions: ReadonlyMap<string, readonly string[]>,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, MissingRevisions> | undefined> {
    const { clock } = this.#runtime;
    const choice = this.#revisionsDifference;
    if (!choice.isWorthwhile(clock.monotonicMs())) return undefined;
    try {
      const once = choice.isGivenUp;
      return await this.#read(this.#target, () =>
        this.#target.missingRevisions(revisions, signal, { once }),
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!mayConcernOneAsked(error)) throw error;
      await this.#targetAttribution.examine(error, signal);
      choice.giveUp(clock.monotonicMs());
      return undefined;
    }
  }

  /** Reads the documents that can be read in bulk. Returns the requests for all other documents. */
  async #readInBulk(
    requests: readonly RevisionRequest[],
    writer: BulkWriter,
    signal: AbortSignal,
  ): Promise<Unread> {
    const { clock } = this.#runtime;
    if (!this.#options.useBulkGet || !this.#bulkGet.isWorthwhile(clock.monotonicMs()))
      return { alone: requests, small: [] };
    const inBulk = requests.filter(({ id }) => !isDesignDocument(id));
    if (inBulk.length === 0) return { alone: requests, small: [] };
    const alone = requests.filter(({ id }) => isDesignDocument(id));
    const small: SmallRequest[] = [];
    for (let start = 0; start < inBulk.length; ) {
      const page = inBulk.slice(start, start + this.#bulkRowCount);
      // If the source did not respond to the last bulk read, send this read without retries.
      const once = this.#bulkGet.isGivenUp;
      const results = await this.#read(this.#source, () =>
        this.#source.reader.readRevisions(page, signal, { once }),
      );
      if (results === undefined) {
        this.#bulkGet.giveUp(clock.monotonicMs());
        append(
          alone,
          small.map(({ request }) => request),
        );
        append(alone, inBulk.slice(start));
        return { alone, small: [] };
      }
      const rest = await this.#passOn(page.slice(0, results.length), results, writer, signal);
      append(alone, rest.alone);
      append(small, rest.small);
      start += results.length;
    }
    return { alone, small };
  }

  /**
   * Reads documents with inlined attachments. Returns the requests for documents that must be read
   * individually.
   */
  async #readSmall(
    page: readonly SmallRequest[],
    writer: BulkWriter,
    signal: AbortSignal,
  ): Promise<RevisionRequest[]> {
    const requests = page.map(({ request }) => request);
    const alone: RevisionRequest[] = [];
    let leftOutCount = 0;
    for (let start = 0; start < requests.length; ) {
      const rest = requests.slice(start);
      const results = await this.#read(this.#source, () =>
        this.#source.reader.readRevisions(rest, signal, { attachments: true }),
      );
      if (results === undefined) {
        append(alone, rest);
        break;
      }
      for (const [index, result] of results.entries()) {
        if (result.kind === "separately") {
          alone.push(rest[index] as RevisionRequest);
          continue;
        }
        for (const document of result.documents) {
          if (isOmitted(this.#omissions, document)) leftOutCount++;
          else await writer.add(document, signal);
        }
      }
      start += results.length;
    }
    const readCount = requests.length - alone.length;
    this.#sourceAttribution.succeeded(readCount);
    this.#observer.count({ docsRead: readCount, docsLeftOut: leftOutCount });
    return alone;
  }

  /**
   * Passes the documents in the response to a bulk read to the writer. Returns the requests for all
   * other documents: `small` for those with only small attachments, `alone` for the rest.
   */
  async #passOn(
    page: readonly RevisionRequest[],
    results: readonly BulkReadResult[],
    writer: BulkWriter,
    signal: AbortSignal,
  ): Promise<Unread> {
    const alone: RevisionRequest[] = [];
    const small: SmallRequest[] = [];
    const omissions = this.#omissions;
    let length = 0;
    let leftOutCount = 0;
    for (let index = 0; index < results.length; index++) {
      const result = results[index] as BulkReadResult;
      if (result.kind === "separately") {
        // The outline is enough to recognize an omitted document, so its attachments are not
        // fetched.
        const isLeftOut = result.outlines?.every((outline) => isOmitted(omissions, outline));
        const request = page[index] as RevisionRequest;
        const byteCount = smallBytes(request, result.outlines);
        if (isLeftOut === true) leftOutCount += result.outlines?.length ?? 0;
        else if (byteCount === undefined) alone.push(request);
        else small.push({ request, byteCount });
        continue;
      }
      for (const document of result.documents) {
        length += document.length;
        if (isOmitted(omissions, document)) {
          leftOutCount++;
          continue;
        }
        if (!writer.tryAdd(document)) await writer.add(document, signal);
      }
    }
    const usedCount = page.length - alone.length;
    const readCount = usedCount - small.length;
    this.#sourceAttribution.succeeded(usedCount);
    this.#bulkGet.record(page.length, usedCount, this.#runtime.clock.monotonicMs());
    this.#observer.count({
      bulkGetAttempts: page.length,
      bulkGetDocs: readCount,
      docsRead: readCount,
      docsLeftOut: leftOutCount,
    });
    // Choose the row count of the next read so that its documents fill one write.
    const meanLength = Math.max(1, length / page.length);
    this.#documentLength = Math.max(meanLength, LENGTH_DECAY * (this.#documentLength ?? 0));
    const fitting = Math.floor(WRITE_BYTES_MAX / meanLength);
    this.#bulkRowCount = Math.max(1, Math.min(BULK_ROWS_MAX, fitting));
    return { alone, small };
  }
}

/**
 * Requests for which a bulk read without attachments returned no document. The requests in `small`
 * are sent in bulk with inlined attachments, and those in `alone` individually.
 */
interface Unread {
  readonly alone: readonly RevisionRequest[];
  readonly small: readonly SmallRequest[];
}

/** Request for a document with small attachments, which are inlined. */
interface SmallRequest {
  readonly request: RevisionRequest;
  readonly byteCount: number;
}

const SMALL_SIZES: BatchSizes<SmallRequest> = {
  countMax: BULK_ROWS_MAX,
  lengthMax: SMALL_PAGE_BYTES,
  lengthOf: ({ byteCount }) => byteCount,
};

/**
 * Returns the total size of a document's attachments. Returns undefined if they cannot be inlined:
 * some are too large, the target might already have some, or one is compressed and would not be
 * inlined in its stored form.
 */
function smallBytes(
  { ancestors }: RevisionRequest,
  outlines: readonly PlainDocument[] | undefined,
): number | undefined {
  if (outlines === undefined || ancestors.length > 0) return undefined;
  let byteCount = 0;
  for (const outline of outlines) {
    const wire = wireOf(outline);
    if (wire === undefined) return undefined;
    for (const { content, encoding, length } of wire.attachments) {
      if (content.kind !== "stub" || encoding !== undefined || length === undefined)
        return undefined;
      byteCount += length;
    }
  }
  return byteCount <= SMALL_BYTES_MAX ? byteCount : undefined;
}
