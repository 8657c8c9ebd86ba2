/**
 * The orders and equalities of JSON values in CouchDB. Values must come from `parseJson`, which
 * keeps 1.0 and 369553424691494913 exact.
 */
import {
  compareBytes,
  integerValue,
  isJsonObject,
  numberValue,
  utf8Encode,
} from "../base/index.ts";

/** Comparison function, with results as for `Array.prototype.sort`. */
export type Compare = (left: unknown, right: unknown) => number;

export type TypeName = "null" | "boolean" | "number" | "string" | "array" | "object";

export function typeName(value: unknown): TypeName {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (isJsonObject(value)) return "object";
  return typeof value === "object" ? "number" : (typeof value as TypeName);
}

export function isScalar(value: unknown): boolean {
  return !Array.isArray(value) && !isJsonObject(value);
}

const TYPE_ORDER: readonly TypeName[] = ["null", "boolean", "number", "string", "array", "object"];
/** The order of Erlang terms. */
const TERM_ORDER: readonly TypeName[] = ["number", "null", "boolean", "object", "array", "string"];
const collator = new Intl.Collator("und");

/**
 * Compares values in the order of views (`couch_ejson_compare`). Strings compare by the root
 * collation: strings that differ only in Unicode normalization or in characters without a weight
 * are equal. Objects compare member by member, in member order.
 */
export function compareJson(left: unknown, right: unknown): number {
  const type = typeName(left);
  const byType = TYPE_ORDER.indexOf(type) - TYPE_ORDER.indexOf(typeName(right));
  if (byType !== 0 || type === "null") return byType;
  if (type === "boolean") return Number(left) - Number(right);
  if (type === "number") return compareNumbers(left, right);
  if (type === "string") return compareTexts(left as string, right as string);
  if (type === "array") return compareLists(left as unknown[], right as unknown[], compareJson);
  const [leftItems, rightItems] = [left, right].map((value) => Object.entries(value as object));
  return compareLists(leftItems as unknown[], rightItems as unknown[], compareJson);
}

/**
 * Compares ids in the order of a selector: strings by their bytes, types like Erlang terms
 * (`mango_json:cmp_raw`).
 */
export function compareIds(left: unknown, right: unknown): number {
  const type = typeName(left);
  const byType = TERM_ORDER.indexOf(type) - TERM_ORDER.indexOf(typeName(right));
  if (byType !== 0 || type !== "string") return byType || compareJson(left, right);
  return compareBytes(utf8Encode(left as string), utf8Encode(right as string));
}

export function compareTexts(left: string, right: string): number {
  return left === right ? 0 : collator.compare(left, right);
}

/** Compares numbers exactly, including integers with floats. */
function compareNumbers(left: unknown, right: unknown): number {
  const [leftValue, rightValue] = [numberValue(left), numberValue(right)];
  if (leftValue === undefined || rightValue === undefined) return 0;
  if (leftValue < rightValue) return -1;
  return leftValue > rightValue ? 1 : 0;
}

function compareLists(
  left: readonly unknown[],
  right: readonly unknown[],
  compare: Compare,
): number {
  for (const [index, item] of left.entries()) {
    if (index >= right.length) return 1;
    const order = compare(item, right[index]);
    if (order !== 0) return order;
  }
  return left.length - right.length;
}

/**
 * Whether two values are the same term (`=:=`). Strings are compared byte for byte, and 1 is not
 * 1.0.
 */
export function isSameTerm(left: unknown, right: unknown): boolean {
  return hasSameParts(left, right, (one, other) => {
    if (numberValue(one) !== numberValue(other)) return false;
    return (integerValue(one) === undefined) === (integerValue(other) === undefined);
  });
}

/**
 * Whether two values are equal terms (`==`). Strings are compared byte for byte, and 1 equals 1.0.
 */
export function isEqualTerm(left: unknown, right: unknown): boolean {
  return hasSameParts(left, right, (one, other) => numberValue(one) === numberValue(other));
}

function hasSameParts(
  left: unknown,
  right: unknown,
  isSameNumber: (left: unknown, right: unknown) => boolean,
): boolean {
  const type = typeName(left);
  if (type !== typeName(right)) return false;
  if (type === "number") return isSameNumber(left, right);
  if (type !== "array" && type !== "object") return left === right;
  const [leftItems, rightItems] = [left, right].map((value) =>
    type === "array" ? (value as unknown[]) : Object.entries(value as object).flat(),
  ) as [unknown[], unknown[]];
  return (
    leftItems.length === rightItems.length &&
    leftItems.every((item, index) => hasSameParts(item, rightItems[index], isSameNumber))
  );
}
