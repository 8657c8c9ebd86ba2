/**
 * The store as a transaction sees it: a snapshot with the transaction's own writes on top.
 * Everything here is synchronous.
 */
import { EMPTY_BYTES, type Page } from "../../base/index.ts";
import {
  BEHIND_LAST_KEY,
  copyBytes,
  FIRST_KEY,
  keyAfter,
  keyFromText,
  keyText,
} from "../key-bytes.ts";
import type { KeySelector } from "../key-selector.ts";
import type { Key, KeyValue, RangeOptions, Value } from "../transaction.ts";
import { type BufferedWrite, valueAfter, type WriteBuffer } from "./write-buffer.ts";

/** Contents of the store at one version. */
export interface StoreSnapshot {
  readonly version: number;
  /** Returns a copy that belongs to the caller. */
  get(key: Key): Value | undefined;
  /**
   * Rows from `begin` (inclusive) to `end` (exclusive), in ascending or descending order. Limits
   * can be infinite.
   */
  page(begin: Key, end: Key, options: PageOptions): Page<KeyValue>;
  /** Releases the snapshot. Idempotent. */
  release(): void;
}

export interface PageOptions {
  readonly reverse: boolean;
  readonly rowCountMax: number;
  readonly byteCountMax: number;
  readonly lengthsOnly: boolean;
}

export interface ReadView {
  readonly snapshot: StoreSnapshot;
  readonly buffer: WriteBuffer;
}

/** Number of stored rows merged with the buffer at a time. */
const MERGE_ROW_COUNT = 500;

export function readPage(
  view: ReadView,
  begin: Key,
  end: Key,
  options: RangeOptions,
): Page<KeyValue> {
  const reverse = options.reverse ?? false;
  const rowCountMax = options.limit ?? Number.POSITIVE_INFINITY;
  const byteCountMax = options.byteLimit ?? Number.POSITIVE_INFINITY;
  const lengthsOnly = options.lengthsOnly ?? false;
  const pageOptions = { reverse, rowCountMax, byteCountMax, lengthsOnly };
  if (view.buffer.leavesAlone(begin, end)) return view.snapshot.page(begin, end, pageOptions);
  return mergedPage(view, begin, end, pageOptions);
}

/** The key that a selector resolves to: empty before the first key, 0xff after the last. */
export function resolveSelector(view: ReadView, selector: KeySelector): Key {
  const pivot = selector.orEqual ? keyAfter(selector.key) : selector.key;
  const forward = selector.offset > 0;
  const limit = forward ? selector.offset : 1 - selector.offset;
  const page = forward
    ? readPage(view, pivot, BEHIND_LAST_KEY, { limit })
    : readPage(view, FIRST_KEY, pivot, { limit, reverse: true });
  if (page.entries.length === limit) return (page.entries[limit - 1] as KeyValue).key;
  return forward ? BEHIND_LAST_KEY : EMPTY_BYTES;
}

function mergedPage(
  { snapshot, buffer }: ReadView,
  begin: Key,
  end: Key,
  { reverse, rowCountMax, byteCountMax, lengthsOnly }: PageOptions,
): Page<KeyValue> {
  const merged: KeyValue[] = [];
  let byteCount = 0;
  let from = begin;
  let to = end;
  for (;;) {
    const stored = snapshot.page(from, to, {
      reverse,
      rowCountMax: Math.min(rowCountMax, MERGE_ROW_COUNT),
      byteCountMax,
      lengthsOnly,
    });
    const last = stored.entries[stored.entries.length - 1];
    const exhausted = stored.stoppedBy === "exhausted" || last === undefined;
    // Bounds of the part of the range that this page covers.
    const settledFrom = reverse && !exhausted ? last.key : from;
    const settledTo = !reverse && !exhausted ? keyAfter(last.key) : to;
    const writes = buffer.within(settledFrom, settledTo, reverse);
    for (const row of mergeRows(stored.entries, writes, buffer, reverse)) {
      if (merged.length >= rowCountMax || byteCount >= byteCountMax) break;
      merged.push(row);
      byteCount += row.key.length + row.value.length;
    }
    if (merged.length >= rowCountMax) return { entries: merged, stoppedBy: "row-limit" };
    if (byteCount >= byteCountMax) return { entries: merged, stoppedBy: "byte-limit" };
    if (exhausted) return { entries: merged, stoppedBy: "exhausted" };
    if (reverse) to = settledFrom;
    else from = settledTo;
  }
}

function* mergeRows(
  rows: readonly KeyValue[],
  writes: readonly { readonly text: string; readonly write: BufferedWrite }[],
  buffer: WriteBuffer,
  reverse: boolean,
): Iterable<KeyValue> {
  let next = 0;
  for (const row of rows) {
    const text = keyText(row.key);
    for (; next < writes.length; next++) {
      const { text: ownText, write } = writes[next] as { text: string; write: BufferedWrite };
      if (reverse ? ownText <= text : ownText >= text) break;
      yield* ownRow(ownText, write, undefined);
    }
    const own = writes[next];
    if (own?.text === text) {
      next++;
      yield* ownRow(text, own.write, row.value);
    } else if (!buffer.isCleared(text)) yield row;
  }
  for (; next < writes.length; next++) {
    const { text, write } = writes[next] as { text: string; write: BufferedWrite };
    yield* ownRow(text, write, undefined);
  }
}

function* ownRow(
  text: string,
  write: BufferedWrite,
  stored: Value | undefined,
): Iterable<KeyValue> {
  const value = valueAfter(write, stored);
  if (value !== undefined) yield { key: keyFromText(text), value: copyBytes(value) };
}
