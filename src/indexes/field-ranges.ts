/**
 * Ranges of field values that can match a selector, as far as an ordered index can use them
 * (`mango_idx_view:range`).
 */
import { isJsonObject } from "../base/index.ts";
import { compareJson, selectorFields } from "../protocol/index.ts";

/** One end of a range. A bound without a value leaves the range unbounded at this end. */
export interface Bound {
  readonly operator: "$gt" | "$gte" | "$eq" | "$lt" | "$lte";
  readonly value?: unknown;
  /** Value that `_explain` shows for this bound. */
  readonly shown?: unknown;
}

export interface Range {
  readonly low: Bound;
  readonly high: Bound;
}

/** Ranges by field. "empty" means that no value of the field matches. */
export type FieldRanges = ReadonlyMap<string, Range | "empty">;

const OPEN: Range = { low: { operator: "$gt" }, high: { operator: "$lt" } };
/** The highest character in the collation. */
const HIGHEST = "\uffff";

/**
 * Returns ranges by field, for all fields that an index can serve. As in CouchDB, if no value of a
 * field can match, the result contains that field alone.
 */
export function fieldRanges(selector: unknown): FieldRanges {
  const ranges = new Map<string, Range | "empty">();
  for (const field of selectorFields(selector).indexable) {
    const range = rangeOf(selector, field, OPEN);
    if (range === "empty") return new Map([[field, "empty"]]);
    ranges.set(field, range);
  }
  return ranges;
}

function rangeOf(term: unknown, field: string, range: Range): Range | "empty" {
  if (!isJsonObject(term)) return range;
  const [name, argument] = Object.entries(term)[0] ?? [];
  if (name === "$and" && Array.isArray(argument)) {
    return argument.reduce<Range | "empty">(
      (narrowed, inner) => (narrowed === "empty" ? narrowed : rangeOf(inner, field, narrowed)),
      range,
    );
  }
  if (name !== field) return range;
  const [operator, operand] = isJsonObject(argument)
    ? (Object.entries(argument)[0] ?? ["$eq", {}])
    : ["$eq", argument];
  return narrow(range, operator, operand);
}

function narrow(range: Range, operator: string, value: unknown): Range | "empty" {
  switch (operator) {
    case "$eq":
      return narrowToOne(range, { operator, value, shown: value });
    case "$gt":
    case "$gte":
      return narrowLow(range, { operator, value, shown: value });
    case "$lt":
    case "$lte":
      return narrowHigh(range, { operator, value, shown: value });
    case "$beginsWith":
      return typeof value === "string" ? narrowToPrefix(range, value) : range;
    default:
      return range;
  }
}

function narrowToPrefix(range: Range, prefix: string): Range | "empty" {
  const value = collatedPrefix(prefix);
  const from = narrowLow(range, { operator: "$gte", value, shown: prefix });
  if (from === "empty") return from;
  const shown = prefix + HIGHEST;
  return narrowHigh(from, { operator: "$lte", value: value + HIGHEST, shown });
}

/**
 * Returns the part of a prefix that a following mark cannot change into another letter (и followed
 * by a breve is й).
 */
function collatedPrefix(prefix: string): string {
  return prefix.replace(/[^\0-\x7f]+$/u, "");
}

/**
 * Classifies a value as below the range, at its low end, inside it, at its high end, or above it.
 */
function placeOf({ low, high }: Range, value: unknown): "min" | "low" | "mid" | "high" | "max" {
  const fromLow = "value" in low ? compareJson(value, low.value) : 1;
  if (fromLow < 0) return "min";
  if (fromLow === 0) return "low";
  const fromHigh = "value" in high ? compareJson(value, high.value) : -1;
  if (fromHigh < 0) return "mid";
  return fromHigh === 0 ? "high" : "max";
}

function one({ value, shown }: Bound): Range {
  const bound = { operator: "$eq", value, shown } as const;
  return { low: bound, high: bound };
}

const isClosed = ({ operator }: Bound): boolean => ["$gte", "$lte", "$eq"].includes(operator);

function narrowToOne(range: Range, bound: Bound): Range | "empty" {
  const place = placeOf(range, bound.value);
  if (place === "mid") return one(bound);
  if (place === "low") return isClosed(range.low) ? one(bound) : "empty";
  if (place === "high") return isClosed(range.high) ? one(bound) : "empty";
  return "empty";
}

function narrowLow(range: Range, low: Bound): Range | "empty" {
  const place = placeOf(range, low.value);
  if (place === "min" || (place === "low" && low.operator === "$gte")) return range;
  if (place === "low" && range.low.operator === "$eq") return "empty";
  if (place === "low" || place === "mid") return { ...range, low };
  if (place === "high" && low.operator === "$gte" && isClosed(range.high)) return one(low);
  return "empty";
}

function narrowHigh(range: Range, high: Bound): Range | "empty" {
  const place = placeOf(range, high.value);
  if (place === "max" || (place === "high" && high.operator === "$lte")) return range;
  if (place === "high" && range.high.operator === "$eq") return "empty";
  if (place === "high" || place === "mid") return { ...range, high };
  if (place === "low" && high.operator === "$lte" && isClosed(range.low)) return one(high);
  return "empty";
}
