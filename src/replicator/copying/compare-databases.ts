/**
 * Compares all leaf revisions and attachments of two databases. Each side's changes are read in
 * pages, and the other side is asked which of these leaves it lacks (`_revs_diff`). Memory is
 * limited to a page of changes, regardless of the databases' size.
 *
 * If neither side lacks a leaf of the other side, both have the same leaves: if a leaf of side A
 * were not a leaf on side B, it would have a descendant there, and B would have a leaf that A
 * lacks.
 *
 * A document that changes during the comparison can be reported as a difference.
 */
import { chunksOf, runTogether } from "../../base/index.ts";
import { parseWireDocument } from "../../protocol/index.ts";
import {
  type ChangedDocument,
  type Endpoint,
  isChange,
  type RevisionRequest,
} from "../endpoints/endpoint.ts";
import type { RevisionsOfDocument } from "./copy-batch.ts";

/** Maximum number of documents per `_revs_diff` request. */
const QUESTION_ROWS_MAX = 500;
/**
 * Target length of a bulk read, in characters. It determines the number of documents of the next
 * bulk read.
 */
const READ_LENGTH_MAX = 2_000_000;
const READ_ROWS_FIRST = 100;
const READ_ROWS_MAX = 500;

/** A leaf revision that differs, or one of its attachments. */
export interface Difference {
  readonly id: string;
  readonly revision: string;
  readonly attachment?: string;
  readonly reason: string;
}

export interface Comparison {
  /** Number of documents on the source. */
  readonly documentCount: number;
  readonly leafCount: number;
  readonly attachmentCount: number;
  readonly differenceCount: number;
}

export interface ComparisonObserver {
  /** Called for each difference, in no particular order. */
  difference(difference: Difference): void;
  /** Called with each page of leaves that the target lacks, before the comparison continues. */
  lacking?(documents: readonly RevisionsOfDocument[], signal: AbortSignal): Promise<void>;
  /** Called with the counts so far, after each page of documents. */
  progress?(counts: Comparison): void;
}

/**
 * Compares two databases. Reads the changes of both sides, all documents of the source, and those
 * documents of the target that have attachments.
 */
export async function compareDatabases(
  source: Endpoint,
  target: Endpoint,
  signal: AbortSignal,
  observer: ComparisonObserver,
): Promise<Comparison> {
  const counts = { documentCount: 0, leafCount: 0, attachmentCount: 0, differenceCount: 0 };
  const found = (difference: Difference): void => {
    counts.differenceCount++;
    observer.difference(difference);
  };
  const attachments = new AttachmentComparison(source, target, found);
  const forward = async (taskSignal: AbortSignal): Promise<void> => {
    for await (const documents of leaves(source, taskSignal)) {
      const lacking = await lackingRevisions(target, documents, taskSignal);
      for (const { id, revisions } of lacking) {
        for (const revision of revisions) {
          found({ id, revision, reason: "is not on the target" });
        }
      }
      if (lacking.length > 0) await observer.lacking?.(lacking, taskSignal);
      counts.documentCount += documents.length;
      for (const { revisions } of documents) counts.leafCount += revisions.length;
      counts.attachmentCount += await attachments.compare(without(documents, lacking), taskSignal);
      observer.progress?.({ ...counts });
    }
  };
  const backward = async (taskSignal: AbortSignal): Promise<void> => {
    for await (const documents of leaves(target, taskSignal)) {
      for (const { id, revisions } of await lackingRevisions(source, documents, taskSignal)) {
        for (const revision of revisions) {
          found({ id, revision, reason: "is only on the target" });
        }
      }
    }
  };
  await runTogether(signal, [forward, backward]);
  return counts;
}

/** Yields all documents with their leaves, in pages. */
async function* leaves(
  endpoint: Endpoint,
  signal: AbortSignal,
): AsyncIterable<readonly ChangedDocument[]> {
  const request = {
    since: 0,
    continuous: false,
    selection: { kind: "all" },
    winningRevisionsOnly: false,
  } as const;
  for await (const items of endpoint.changes(request, signal)) {
    yield* chunksOf(items.filter(isChange), QUESTION_ROWS_MAX);
  }
}

async function lackingRevisions(
  endpoint: Endpoint,
  documents: readonly RevisionsOfDocument[],
  signal: AbortSignal,
): Promise<readonly RevisionsOfDocument[]> {
  const asked = new Map(documents.map(({ id, revisions }) => [id, revisions]));
  const lacking = await endpoint.missingRevisions(asked, signal);
  return [...lacking].map(([id, { missing }]) => ({ id, revisions: missing }));
}

/** Returns read requests for those revisions of `documents` that `lacking` does not list. */
function without(
  documents: readonly RevisionsOfDocument[],
  lacking: readonly RevisionsOfDocument[],
): readonly RevisionRequest[] {
  const absent = new Map(lacking.map(({ id, revisions }) => [id, new Set(revisions)]));
  return documents.flatMap(({ id, revisions }) =>
    revisions
      .filter((revision) => absent.get(id)?.has(revision) !== true)
      // With the revision itself as a known ancestor, the source omits the attachments.
      .map((revision) => ({ id, revision, ancestors: [revision] })),
  );
}

/** Compares the attachments of revisions on both sides. */
class AttachmentComparison {
  readonly #source: Endpoint;
  readonly #target: Endpoint;
  readonly #found: (difference: Difference) => void;
  #rowCount = READ_ROWS_FIRST;

  constructor(source: Endpoint, target: Endpoint, found: (difference: Difference) => void) {
    this.#source = source;
    this.#target = target;
    this.#found = found;
  }

  /**
   * Compares the attachments of these revisions on both sides. Returns the number of attachments on
   * the source.
   */
  async compare(requests: readonly RevisionRequest[], signal: AbortSignal): Promise<number> {
    let count = 0;
    for (let start = 0; start < requests.length; ) {
      const asked = requests.slice(start, start + this.#rowCount);
      const read = await this.#source.reader.readRevisions(asked, signal);
      const page = asked.slice(0, read?.length);
      let length = 0;
      for (const [index, request] of page.entries()) {
        const result = read?.[index];
        if (result?.kind === "documents") {
          for (const { text } of result.documents) length += text.length;
        } else count += await this.#compareOne(request, signal);
      }
      start += page.length;
      const fitting = Math.floor((READ_LENGTH_MAX * page.length) / Math.max(1, length));
      this.#rowCount = Math.max(1, Math.min(READ_ROWS_MAX, fitting));
    }
    return count;
  }

  async #compareOne(request: RevisionRequest, signal: AbortSignal): Promise<number> {
    const { id, revision } = request;
    const [here, there] = await Promise.all([
      readOutlines(this.#source, request, signal),
      readOutlines(this.#target, request, signal),
    ]);
    for (const [name, outline] of here) {
      const other = there.get(name);
      if (other === undefined) {
        this.#found({ id, revision, attachment: name, reason: "is not on the target" });
        continue;
      }
      if (other.digest === outline.digest) continue;
      const isSame =
        mayBeStoredOtherwise(outline, other) && (await this.#hasSameBytes(request, name, signal));
      if (isSame) continue;
      const reason = `has the digest ${outline.digest}, but ${other.digest} on the target`;
      this.#found({ id, revision, attachment: name, reason });
    }
    for (const name of there.keys()) {
      if (here.has(name)) continue;
      this.#found({ id, revision, attachment: name, reason: "is only on the target" });
    }
    return here.size;
  }

  /** Whether the decoded contents of an attachment are equal on source and target. */
  async #hasSameBytes(
    request: RevisionRequest,
    name: string,
    signal: AbortSignal,
  ): Promise<boolean> {
    const [here, there] = await Promise.all([
      this.#source.reader.attachmentMd5(request, name, signal),
      this.#target.reader.attachmentMd5(request, name, signal),
    ]);
    return here !== undefined && here === there;
  }
}

/** An attachment's metadata. */
interface AttachmentOutline {
  /** Digest of the stored (possibly compressed) bytes. */
  readonly digest: string;
  readonly encoding: string | undefined;
  /** Length of the decoded bytes. */
  readonly length: number | undefined;
}

/**
 * Whether attachments with different digests can have equal contents, because servers can compress
 * attachments.
 */
function mayBeStoredOtherwise(here: AttachmentOutline, there: AttachmentOutline): boolean {
  const isCompressed = here.encoding !== undefined || there.encoding !== undefined;
  return isCompressed && here.length === there.length;
}

/** Reads a revision. Returns its attachments by name. */
async function readOutlines(
  endpoint: Endpoint,
  request: RevisionRequest,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, AttachmentOutline>> {
  const outlines = new Map<string, AttachmentOutline>();
  await endpoint.reader.readRevision(
    request,
    async ({ text }) => {
      const document = parseWireDocument(text);
      if (document.revision !== request.revision) return;
      for (const { name, digest = "", encoding, length } of document.attachments) {
        outlines.set(name, { digest, encoding, length });
      }
    },
    signal,
  );
  return outlines;
}

/** Formats a difference for display. Example: `doc 1-967a… flag.png is not on the target`. */
export function describeDifference({ id, revision, attachment, reason }: Difference): string {
  return [id, revision, ...(attachment === undefined ? [] : [attachment]), reason].join(" ");
}
