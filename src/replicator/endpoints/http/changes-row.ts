/** A row of a server's changes feed. */
import type { JsonValue } from "../../../base/index.ts";
import { SEQUENCE_LENGTH_MAX } from "../../request/start-sequence.ts";
import {
  type ChangedDocument,
  EndpointError,
  parseSequence,
  type SourceSequence,
  storableSequence,
} from "../endpoint.ts";
import type { ServerWords } from "./server-words.ts";

/** Nesting level of a revision in a row, counted from the row. */
export const REVISION_DEPTH = 3;

/**
 * Returns the changes in the rows, in order. Throws an EndpointError for an invalid row or a
 * sequence that is too long.
 */
export function changesOf(
  rows: readonly JsonValue[],
  words: ServerWords,
): readonly ChangedDocument[] {
  const changes: ChangedDocument[] = [];
  for (const row of rows) {
    const id = row.member("id")?.string;
    if (isTooLong(row.member("seq")?.length)) throw sequenceTooLong();
    if (id === undefined || row.member("changes")?.isArray !== true) throw noRow(row, words);
    // Rows with an empty id are skipped, as in CouchDB: such a document cannot be requested.
    if (id !== "") changes.push(new ChangesRow(id, row));
  }
  return changes;
}

/** Returns the error for an invalid row. Skipping the row could lose a document. */
function noRow({ text }: JsonValue, words: ServerWords): EndpointError {
  const reason = `a row of the source's changes feed has no id or no changes: ${words.shown(text)}`;
  return new EndpointError("changes_req_failed", reason);
}

/**
 * Returns the sequence of the last row, whether or not it is a change, or `before` if there are no
 * rows.
 */
export function lastSequenceOf(rows: readonly JsonValue[], before: SourceSequence): SourceSequence {
  const lastRow = rows.at(-1);
  return (lastRow && sequenceOf(lastRow)) ?? before;
}

/**
 * A row of the feed. Thousands of rows wait in the queue, so each row is kept as bytes and parsed
 * only when it is processed.
 */
class ChangesRow implements ChangedDocument {
  readonly id: string;
  readonly #row: JsonValue;

  constructor(id: string, row: JsonValue) {
    this.id = id;
    this.#row = row;
  }

  get sequence(): SourceSequence {
    return sequenceOf(this.#row);
  }

  get revisions(): readonly string[] {
    const listed = this.#row.member("changes")?.elements() ?? [];
    // In a row with `removed`, the first listed revision no longer exists
    // (`couch_replicator_changes_reader`).
    const isRemoved = this.#row.member("removed")?.text === "true";
    const present = isRemoved ? listed.slice(1) : listed;
    // A revision that is not a string is kept as JSON text, so that the list of failures can name
    // it.
    return present.map((change) => revisionOf(change.member("rev")));
  }

  /** The winning revision is deleted only if all leaves are deleted. */
  get isDeleted(): boolean {
    return this.#row.member("deleted")?.text === "true";
  }

  get sizeBytes(): number {
    return this.#row.length;
  }
}

function revisionOf(named: JsonValue | undefined): string {
  return named?.string ?? named?.text ?? "";
}

function sequenceOf(row: JsonValue): SourceSequence {
  return sequenceValue(row.member("seq"));
}

/**
 * Returns the sequence in a response; undefined if it is missing. Throws an EndpointError if it is
 * too long.
 */
export function sequenceValue(value: JsonValue | undefined): SourceSequence {
  if (isTooLong(value?.length)) throw sequenceTooLong();
  if (value === undefined) return undefined;
  return storableSequence(value.string ?? parseSequence(value.text));
}

/** Whether a response states the sequence at which it ends. */
export function saysWhere(sequence: SourceSequence): boolean {
  return sequence !== undefined && sequence !== null;
}

/** Converts a parsed sequence to the storable form. Throws an EndpointError if it is too long. */
export function checkedSequence(sequence: SourceSequence): SourceSequence {
  if (isTooLong(JSON.stringify(sequence)?.length)) throw sequenceTooLong();
  return storableSequence(sequence);
}

function isTooLong(length = 0): boolean {
  return length > SEQUENCE_LENGTH_MAX;
}

function sequenceTooLong(): EndpointError {
  const reason = `a sequence of the source has more than ${SEQUENCE_LENGTH_MAX} characters`;
  return new EndpointError("changes_req_failed", reason);
}
