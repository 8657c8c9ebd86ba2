/**
 * Encodes and decodes failures, counters and retry requests. The first element is the format
 * version.
 */
import { assert, utf8Decode, utf8Encode } from "../../base/index.ts";
import { packTuple, unpackTuple } from "../../kv/index.ts";
import type { DocumentFailure, RetryRequest } from "./run-failures.ts";

/** A failure, with the times and the number of its attempts. */
export interface ListedFailure extends DocumentFailure {
  readonly firstMs: number;
  readonly lastMs: number;
  readonly tries: number;
}

const FORMAT = 1;

/**
 * Encodes a failure. Its strings are stored as JSON within the tuple, because ids and reasons can
 * contain unpaired surrogates.
 */
export function encodeFailure(failure: ListedFailure): Uint8Array {
  const { id, revision, phase, status, error, reason, firstMs, lastMs, tries } = failure;
  const text = JSON.stringify({ id, revision, phase, status, error, reason });
  return packTuple([FORMAT, firstMs, lastMs, tries, utf8Encode(text)]);
}

export function decodeFailure(value: Uint8Array): ListedFailure {
  const [format, firstMs, lastMs, tries, text] = unpackTuple(value);
  assert(format === FORMAT, "The failure must have a supported format version");
  assert(
    typeof firstMs === "number" && typeof lastMs === "number",
    "A failure must have timestamps",
  );
  assert(
    typeof tries === "number" && text instanceof Uint8Array,
    "A failure must have a number of attempts",
  );
  const failure = JSON.parse(utf8Decode(text)) as DocumentFailure;
  return { ...failure, status: failure.status, firstMs, lastMs, tries };
}

export function encodeCount(count: number): Uint8Array {
  return packTuple([FORMAT, count]);
}

export function decodeCount(value: Uint8Array): number {
  const [format, count] = unpackTuple(value);
  assert(format === FORMAT && typeof count === "number", "A count must be a number");
  return count;
}

/** Encodes a retry request. Older versions ignore `ids`, and retry the whole list. */
export function encodeRetryRequest({ request, ids }: RetryRequest): Uint8Array {
  if (ids === undefined) return packTuple([FORMAT, request]);
  return packTuple([FORMAT, request, utf8Encode(JSON.stringify(ids))]);
}

export function decodeRetryRequest(value: Uint8Array): RetryRequest {
  const [format, request, ids] = unpackTuple(value);
  assert(format === FORMAT && typeof request === "string", "A retry request must have an id");
  if (!(ids instanceof Uint8Array)) return { request };
  return { request, ids: JSON.parse(utf8Decode(ids)) as string[] };
}
