/**
 * Chooses the index for a query (`mango_cursor`, `mango_idx_view`, `mango_idx_special`), and
 * returns the reasons for rejecting other indexes. Pure functions.
 *
 * An index is usable if the selector or the sort requires each of its fields to exist, and if the
 * index has the order of the sort. An index with a partial filter is used only if the query names
 * the index. Among usable indexes, the planner prefers the index with the most leading fields that
 * the selector restricts, then the index with the fewest fields, then the first by name.
 */
import { append, isJsonObject } from "../base/index.ts";
import { selectorFields } from "../protocol/index.ts";
import { type FieldRanges, fieldRanges, type Range } from "./field-ranges.ts";

/** An index as the planner sees it. `design` is null for the index of all documents. */
export interface Candidate {
  readonly design: string | null;
  readonly name: string;
  readonly columns: readonly string[];
  readonly isPartial: boolean;
}

export const ALL_DOCUMENTS: Candidate = {
  design: null,
  name: "_all_docs",
  columns: ["_id"],
  isPartial: false,
};

export interface Wanted {
  /** The selector in normal form. */
  readonly selector: unknown;
  readonly sortFields: readonly string[];
  /**
   * Names that the query requests: none, the name of the design document, or the names of the
   * design document and the index. The prefix `_design/` can be missing.
   */
  readonly useIndex: readonly string[];
  readonly allowFallback: boolean;
}

export type RejectionReason =
  | "is_partial"
  | "needs_text_search"
  | "field_mismatch"
  | "sort_order_mismatch"
  | "excluded_by_user"
  | "unfavored_type"
  | "less_overlap"
  | "too_many_fields"
  | "alphabetically_comes_after";

/** An index that was not chosen, with the reason. */
export interface Rejected<T extends Candidate> {
  readonly index: T;
  readonly isUsable: boolean;
  readonly reason: RejectionReason;
  /** Position in the planner's order of preference. Indexes with lower numbers were preferred. */
  readonly ranking: number;
}

/** The chosen index, or the reason why no index was chosen. */
export type Choice<T extends Candidate> =
  | {
      readonly kind: "chosen";
      readonly index: T;
      /** Ranges of the leading fields that the selector restricts. */
      readonly ranges: readonly (Range | "empty")[];
      readonly rejected: readonly Rejected<T>[];
    }
  | { readonly kind: "none-usable"; readonly rejected: readonly Rejected<T>[] }
  /** The requested index cannot be used, and the query does not allow a fallback. */
  | { readonly kind: "fallback-refused" };

/** Chooses one of `indexes`, which include the index of all documents. */
export function chooseIndex<T extends Candidate>(indexes: readonly T[], wanted: Wanted): Choice<T> {
  const { selector, useIndex, allowFallback } = wanted;
  const isNamed = (index: Candidate): boolean => useIndex.length > 0 && isNamedBy(index, useIndex);
  const considered = indexes.filter((index) => !index.isPartial || isNamed(index));
  const verdicts = new Map(considered.map((index) => [index, faultsOf(index, wanted)]));
  const usable = considered.filter((index) => verdicts.get(index)?.length === 0);
  const named = usable.filter(isNamed);
  if (usable.length > 0 && named.length === 0) {
    const mayFallBack = allowFallback || (useIndex.length === 0 && usable.length > 1);
    if (!mayFallBack) return { kind: "fallback-refused" };
  }
  const filtered = named.length > 0 ? named : usable;
  const views = filtered.filter(({ design }) => design !== null);
  const favored = views.length > 0 ? views : filtered;
  const ranges = fieldRanges(selector);
  const sorted = favored
    .map((index) => ({ index, prefix: prefixOf(index, ranges) }))
    .sort((left, right) => compareFit(left, right));
  const winner = sorted[0];
  const width = winner?.index.columns.length ?? 0;
  const ranks = groupRanks(sorted.length, {
    unfavored: filtered.length > favored.length,
    excluded: usable.length > filtered.length,
    unusable: considered.length > usable.length,
  });
  const rejected = indexes
    .filter((index) => index !== winner?.index)
    .map((index): Rejected<T> => {
      const place = sorted.findIndex((each) => each.index === index);
      const fit = sorted[place];
      if (fit !== undefined) {
        const distance = ranges.size - fit.prefix.length;
        const tie = index.columns.length > width ? "too_many_fields" : "alphabetically_comes_after";
        const reason = distance > 0 ? "less_overlap" : tie;
        return { index, isUsable: true, reason, ranking: place };
      }
      const faults = verdicts.get(index);
      const [fault] = faults ?? [];
      if (index.isPartial) {
        // For a named partial index, CouchDB also reports other reasons.
        return { index, isUsable: false, reason: "is_partial", ranking: ranks.partial };
      }
      if (fault !== undefined) {
        return { index, isUsable: false, reason: fault, ranking: ranks.unusable };
      }
      if (!filtered.includes(index)) {
        return { index, isUsable: true, reason: "excluded_by_user", ranking: ranks.excluded };
      }
      return { index, isUsable: true, reason: "unfavored_type", ranking: ranks.unfavored };
    });
  if (winner === undefined) return { kind: "none-usable", rejected };
  return { kind: "chosen", index: winner.index, ranges: winner.prefix, rejected };
}

/**
 * Returns the rank of each group of rejected indexes. The ranks continue those of the sorted
 * candidates. An empty group does not use up a rank.
 */
function groupRanks(
  sortedCount: number,
  has: { readonly unfavored: boolean; readonly excluded: boolean; readonly unusable: boolean },
) {
  const unfavored = Math.max(1, sortedCount);
  const excluded = unfavored + Number(has.unfavored);
  const unusable = excluded + Number(has.excluded);
  return { unfavored, excluded, unusable, partial: unusable + Number(has.unusable) };
}

/** Whether `use_index` names this index. */
export function isNamedBy(index: Candidate, [design, name]: readonly string[]): boolean {
  const id = design?.startsWith("_design/") ? design : `_design/${design}`;
  return index.design === id && (name === undefined || index.name === name);
}

/** Whether the entries of an index contain these top-level fields. */
export function covers({ design, columns }: Candidate, fields: readonly string[]): boolean {
  return design !== null && fields.every((field) => field === "_id" || columns.includes(field));
}

function faultsOf(index: Candidate, { selector, sortFields }: Wanted): RejectionReason[] {
  const { columns, design } = index;
  if (design === null) {
    if (sortFields.length === 0) return [];
    const isFieldMissing = !selectorFields(selector).indexable.includes("_id");
    const isSorted = isPrefix(sortFields, columns);
    return [
      ...(isFieldMissing ? (["field_mismatch"] as const) : []),
      ...(isSorted ? [] : (["sort_order_mismatch"] as const)),
    ];
  }
  const required = columns.filter(
    (column) => !sortFields.includes(column) && column !== "_id" && column !== "_rev",
  );
  return [
    ...(isTextSearch(selector) ? (["needs_text_search"] as const) : []),
    ...(missingFields(selector, required).length > 0 ? (["field_mismatch"] as const) : []),
    ...(hasSort(columns, sortFields, selector) ? [] : (["sort_order_mismatch"] as const)),
  ];
}

function isTextSearch(term: unknown): boolean {
  if (Array.isArray(term)) return term.some(isTextSearch);
  if (!isJsonObject(term)) return false;
  const [name, argument] = Object.entries(term)[0] ?? [];
  return name === "$default" || name === "$text" || isTextSearch(argument);
}

/** Returns the fields among `required` that a matching document can lack. */
function missingFields(selector: unknown, required: readonly string[]): readonly string[] {
  let missing = required;
  const terms = [selector];
  while (terms.length > 0 && missing.length > 0) {
    const term = terms.shift();
    if (!isJsonObject(term)) continue;
    const [name, argument] = Object.entries(term)[0] ?? [];
    if (name === undefined) continue;
    if (name === "$and" && Array.isArray(argument)) append(terms, argument);
    else if (name === "$or" && Array.isArray(argument)) {
      // As in CouchDB, a `$or` without branches counts as requiring every field. A query with such
      // a `$or` matches nothing.
      const before = missing;
      const left = argument.flatMap((branch) => missingFields(branch, before));
      missing = before.filter((field) => left.includes(field));
    } else if (!passesMissing(argument)) missing = missing.filter((field) => field !== name);
  }
  return missing;
}

/**
 * Whether a missing field can satisfy the condition. Only the two conditions below accept a missing
 * field.
 */
function passesMissing(condition: unknown): boolean {
  if (!isJsonObject(condition)) return false;
  const { $exists, $not } = condition;
  return $exists === false || (isJsonObject($not) && $not.$exists === true);
}

/**
 * Whether the columns have the order of the sort, ignoring leading columns that are restricted to
 * one value.
 */
function hasSort(
  columns: readonly string[],
  sortFields: readonly string[],
  selector: unknown,
): boolean {
  if (sortFields.length === 0) return true;
  for (const [index, column] of columns.entries()) {
    if (column === sortFields[0]) return isPrefix(sortFields, columns.slice(index));
    if (!isConstant(selector, column)) return false;
  }
  return false;
}

function isConstant(term: unknown, field: string): boolean {
  if (!isJsonObject(term)) return false;
  const [name, argument] = Object.entries(term)[0] ?? [];
  if (name === "$and" && Array.isArray(argument)) {
    return argument.some((inner) => isConstant(inner, field));
  }
  return name === field && isJsonObject(argument) && Object.hasOwn(argument, "$eq");
}

function isPrefix(prefix: readonly string[], list: readonly string[]): boolean {
  return prefix.every((item, index) => item === list[index]);
}

function prefixOf({ columns }: Candidate, ranges: FieldRanges): (Range | "empty")[] {
  const prefix: (Range | "empty")[] = [];
  for (const column of columns) {
    const range = ranges.get(column);
    if (range === undefined) break;
    prefix.push(range);
  }
  return prefix;
}

interface Fit {
  readonly index: Candidate;
  readonly prefix: readonly unknown[];
}

function compareFit(left: Fit, right: Fit): number {
  return (
    right.prefix.length - left.prefix.length ||
    left.index.columns.length - right.index.columns.length ||
    compareText(left.index.design ?? "", right.index.design ?? "") ||
    compareText(left.index.name, right.index.name)
  );
}

export function compareText(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}
