/**
 * The records of conflict policies, and of the resolutions that they made.
 *
 *   PolicyRecord       format (1), milliseconds since 1970 at which it was set, the policy as JSON
 *   TurnRecord         format (1), milliseconds since 1970 of the last progress, 1 if the
 *                      pass is complete and otherwise 0, id of the last document examined, or ""
 *   ResolutionRecord   format (1), milliseconds since 1970, id, kind of the policy, revision that
 *                      won, resulting revision, number of removed leaves, each: revision, revision
 *                      of its deletion
 *   UnresolvedRecord   format (1), milliseconds since 1970, digest of the leaves, reason
 */
import { assert, type JsonText } from "../../base/index.ts";
import type { Revision } from "../document.ts";
import { RecordReader, RecordWriter } from "./record-bytes.ts";

const FORMAT = 1;

export interface StoredPolicy {
  readonly sinceMs: number;
  readonly text: JsonText;
}

export interface Turn {
  readonly seenMs: number;
  readonly isComplete: boolean;
  readonly afterId: string;
}

/** Resolution of the conflict of a document. */
export interface ResolutionRecord {
  readonly timeMs: number;
  readonly id: string;
  readonly resolve: string;
  /** The leaf that won. */
  readonly kept: Revision;
  /** The only leaf afterwards: `kept`, or a revision that follows it. */
  readonly result: Revision;
  readonly removed: readonly { readonly revision: Revision; readonly deletion: Revision }[];
}

/** A conflict that the policy leaves unresolved, with the reason. */
export interface UnresolvedRecord {
  readonly timeMs: number;
  readonly leavesDigest: string;
  readonly reason: string;
}

export function encodePolicy({ sinceMs, text }: StoredPolicy): Uint8Array {
  return begun(sinceMs).text(text).finish();
}

export function decodePolicy(value: Uint8Array): StoredPolicy {
  const reader = readerOf(value);
  return { sinceMs: reader.integer(), text: reader.text() };
}

export function encodeTurn({ seenMs, isComplete, afterId }: Turn): Uint8Array {
  return begun(seenMs)
    .byte(isComplete ? 1 : 0)
    .text(afterId)
    .finish();
}

export function decodeTurn(value: Uint8Array): Turn {
  const reader = readerOf(value);
  return { seenMs: reader.integer(), isComplete: reader.byte() === 1, afterId: reader.text() };
}

export function encodeResolution(resolution: ResolutionRecord): Uint8Array {
  const { timeMs, id, resolve, kept, result, removed } = resolution;
  const writer = begun(timeMs).text(id).text(resolve).text(kept).text(result);
  writer.integer(removed.length);
  for (const { revision, deletion } of removed) writer.text(revision).text(deletion);
  return writer.finish();
}

export function decodeResolution(value: Uint8Array): ResolutionRecord {
  const reader = readerOf(value);
  const timeMs = reader.integer();
  const [id, resolve, kept, result] = [reader.text(), reader.text(), reader.text(), reader.text()];
  const removed = Array.from({ length: reader.integer() }, () => {
    return { revision: reader.text(), deletion: reader.text() };
  });
  return { timeMs, id, resolve, kept, result, removed };
}

export function encodeUnresolved({ timeMs, leavesDigest, reason }: UnresolvedRecord): Uint8Array {
  return begun(timeMs).text(leavesDigest).text(reason).finish();
}

export function decodeUnresolved(value: Uint8Array): UnresolvedRecord {
  const reader = readerOf(value);
  return { timeMs: reader.integer(), leavesDigest: reader.text(), reason: reader.text() };
}

function begun(timeMs: number): RecordWriter {
  return new RecordWriter().byte(FORMAT).integer(Math.floor(timeMs));
}

function readerOf(value: Uint8Array): RecordReader {
  const reader = new RecordReader(value);
  assert(reader.byte() === FORMAT, "The record must have a supported format version");
  return reader;
}
