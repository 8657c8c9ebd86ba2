/**
 * Single-field conditions of a normalized selector: conditions that an index can serve, and the
 * bounds of matching ids.
 */
import { isJsonObject } from "../base/index.ts";

/** The highest code point. */
const HIGHEST = "\u{10ffff}";
/** The lower character that CouchDB uses instead (`mango_idx_view:range/5`). */
const HIGHEST_SHOWN = "\uffff";

/** Operators that an ordered index can serve (`mango_idx_view:indexable`). */
const INDEXABLE = ["$eq", "$lt", "$lte", "$gt", "$gte", "$exists", "$beginsWith"];

export interface SelectorFields {
  /** Names of the fields that an index can serve, sorted as in `_explain`. */
  readonly indexable: readonly string[];
  readonly unindexable: readonly string[];
}

/** Bounds of the ids of documents that can match. */
export interface IdBounds {
  /**
   * Present if an upper bound is not a string. No id can match then: as Erlang terms, all other
   * JSON values sort before strings.
   */
  readonly isEmpty?: true;
  readonly low?: string;
  readonly high?: string;
  /** The upper bound that `_explain` shows. It is CouchDB's, which excludes ids above U+FFFF. */
  readonly shownHigh?: string;
}

interface Condition {
  readonly field: string;
  readonly operator: string;
  readonly operand: unknown;
  /** Whether every matching document must fulfil the condition; false below `$or` and the like. */
  readonly isNecessary: boolean;
}

export function selectorFields(normalized: unknown): SelectorFields {
  const all = [...conditions(normalized)];
  const indexable = new Set(
    all
      .filter(({ isNecessary, operator }) => isNecessary && INDEXABLE.includes(operator))
      .map(({ field }) => field),
  );
  const others = all.map(({ field }) => field).filter((field) => !indexable.has(field));
  return { indexable: [...indexable].sort(), unindexable: [...new Set(others)].sort() };
}

/** Returns the range of ids that a normalized selector allows. */
export function selectorIdBounds(normalized: unknown): IdBounds {
  let bounds: IdBounds = {};
  for (const { field, operator, operand, isNecessary } of conditions(normalized)) {
    if (field !== "_id" || !isNecessary) continue;
    const isPrefix = operator === "$beginsWith";
    const isLow = isPrefix || ["$eq", "$gt", "$gte"].includes(operator);
    const isHigh = isPrefix || ["$eq", "$lt", "$lte"].includes(operator);
    if (isHigh && typeof operand !== "string") bounds = { ...bounds, isEmpty: true };
    if (typeof operand !== "string") continue;
    if (isLow && (bounds.low ?? "") <= operand) bounds = { ...bounds, low: operand };
    const high = isPrefix ? operand + HIGHEST : operand;
    const shownHigh = isPrefix ? operand + HIGHEST_SHOWN : operand;
    if (isHigh && (bounds.high ?? high) >= high) bounds = { ...bounds, high, shownHigh };
  }
  return bounds;
}

function* conditions(term: unknown, isNecessary = true): Generator<Condition> {
  if (!isJsonObject(term)) return;
  const [name, argument] = Object.entries(term)[0] ?? [];
  if (name === undefined) return;
  if (name.startsWith("$")) {
    const terms = Array.isArray(argument) ? argument : [argument];
    for (const inner of terms) yield* conditions(inner, isNecessary && name === "$and");
    return;
  }
  const [operator, operand] = isJsonObject(argument)
    ? (Object.entries(argument)[0] ?? ["$eq", {}])
    : ["$eq", argument];
  yield { field: name, operator, operand, isNecessary };
}
