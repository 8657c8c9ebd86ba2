/**
 * Mango selectors, as used by CouchDB's `_changes?filter=_selector` and by replications.
 *
 * Differences from MongoDB's language, observed on CouchDB 3.5: a missing field fails every
 * condition except `$exists: false`, negations included; comparisons cross types (null < boolean <
 * number < string < array < object); strings compare by Unicode collation, but ids by their bytes;
 * arrays are not searched implicitly.
 */

import { integerValue, isJsonObject, numberValue, printJson } from "../base/index.ts";
import {
  type Compare,
  compareIds,
  compareJson,
  compareTexts,
  isEqualTerm,
  isSameTerm,
  isScalar,
  typeName,
} from "./json-order.ts";
import { negateSelector, normalizeSelector, type Selector } from "./normalize-selector.ts";
import { badRequest, ProtocolError } from "./protocol-error.ts";
import { compilePattern, PatternError } from "./regular-expression.ts";

type Matcher = (value: unknown) => boolean;

/**
 * Compiles a selector into a predicate for documents. Throws a ProtocolError that names an unknown
 * operator.
 */
export function compileSelector(selector: Selector): (document: unknown) => boolean {
  refuseExcess(selector);
  refuseMalformed(selector);
  const matches = compile(normalizeSelector(selector));
  refuseMissingField(selector);
  return matches;
}

/**
 * Throws a ProtocolError if the selector is too large or malformed. Unlike compilation, accepts
 * unknown operators and regular expressions, because other servers might support them.
 */
export function checkSelector(selector: Selector): void {
  refuseExcess(selector);
  refuseMalformed(selector);
  refuseMissingField(selector);
}

/** Refuses an operator without a field, such as `{"$gt": 5}`, which would match every document. */
function refuseMissingField(selector: Selector): void {
  const normalized = normalizeSelector(selector);
  const [name, condition] = isJsonObject(normalized) ? (Object.entries(normalized)[0] ?? []) : [];
  // `$text` is the only operator that needs no field.
  if (name !== "" || (isJsonObject(condition) && "$text" in condition)) return;
  throw missingField();
}

function missingField(): ProtocolError {
  const reason = "One or more conditions is missing a field name.";
  return new ProtocolError(400, "invalid_selector", reason);
}

/** Maximum number of object members in a selector: conditions and their fields. */
const SELECTOR_MEMBERS_MAX = 1_000;
/** Maximum number of elements in the lists of a selector, including those of `$in`. */
const SELECTOR_ELEMENTS_MAX = 10_000;
const SELECTOR_DEPTH_MAX = 100;

/**
 * Refuses large selectors. Compiling takes a hundred times as long as parsing, and every document
 * is matched against the whole selector.
 */
function refuseExcess(selector: Selector): void {
  let memberCount = 0;
  let elementCount = 0;
  const visit = (value: unknown, depth: number): void => {
    if (isScalar(value)) return;
    if (depth === SELECTOR_DEPTH_MAX) {
      throw badRequest(`A selector must not be nested more than ${SELECTOR_DEPTH_MAX} levels deep`);
    }
    const inner: readonly unknown[] = Object.values(value as object);
    if (Array.isArray(value)) elementCount += inner.length;
    else memberCount += inner.length;
    if (memberCount > SELECTOR_MEMBERS_MAX) {
      throw badRequest(`A selector must not have more than ${SELECTOR_MEMBERS_MAX} conditions`);
    }
    if (elementCount > SELECTOR_ELEMENTS_MAX) {
      throw badRequest(
        `The lists of a selector must not have more than ${SELECTOR_ELEMENTS_MAX} elements`,
      );
    }
    for (const each of inner) visit(each, depth + 1);
  };
  visit(selector, 0);
}

const CONDITIONS_WITHIN = ["$not", "$elemMatch", "$allMatch", "$keyMapMatch"];

/**
 * Throws for errors in a selector that normalization would hide. `isWithin`: whether the conditions
 * apply to a field.
 */
function refuseMalformed(selector: unknown, isWithin = false): void {
  if (!isJsonObject(selector)) return;
  for (const [name, argument] of Object.entries(selector)) {
    if (COMBINATIONS.includes(name)) {
      if (!Array.isArray(argument)) throw badArgument(name, argument);
      for (const each of argument) refuseMalformed(each, isWithin);
    } else if (CONDITIONS_WITHIN.includes(name)) {
      if (!isJsonObject(argument)) throw badArgument(name, argument);
      refuseMalformed(argument, name === "$not" && isWithin);
    } else if (!name.startsWith("$")) {
      checkFieldName(name, isWithin);
      refuseMalformed(argument, true);
    }
  }
}

/**
 * Checks a field name. In the normal form, which indexes use for their filters, an empty name
 * denotes the value itself.
 */
function checkFieldName(field: string, isWithin: boolean): void {
  if (field === "" && !isWithin) return;
  if (!fieldPath(field).includes("")) return;
  throw new ProtocolError(400, "invalid_field_name", `Invalid field name: ${field}`);
}

/**
 * Returns the cost of matching: the number of conditions, plus the number of list elements that are
 * compared one by one, plus the number of characters in patterns. Matching takes time proportional
 * to this cost and to the document's size.
 */
export function selectorWeight(selector: Selector): number {
  let weight = 0;
  const visit = (value: unknown, name?: string): void => {
    if (typeof value === "string" && name === "$regex") weight += value.length;
    if (isScalar(value)) return;
    const isLookedUp = name === "$in" || name === "$nin";
    for (const [inner, item] of Object.entries(value as object)) {
      if (isLookedUp && isScalar(item)) continue;
      weight++;
      visit(item, inner);
    }
  };
  visit(selector);
  return weight;
}

const COMBINATIONS = ["$and", "$or", "$nor"];

function compile(condition: unknown): Matcher {
  if (!isJsonObject(condition)) throw badRequest("Selector must be a JSON object");
  const [name, argument] = Object.entries(condition)[0] ?? [];
  if (name === undefined) return () => true;
  if (COMBINATIONS.includes(name)) return combination(name, argument);
  if (name === "$not") {
    const inner = compile(argument);
    return (value) => !inner(value);
  }
  const operators = isJsonObject(argument) ? argument : { $eq: argument };
  const [operator, operand] = Object.entries(operators)[0] ?? ["$eq", {}];
  return fieldMatcher(name, operator, operand);
}

function combination(name: string, argument: unknown): Matcher {
  if (!Array.isArray(argument)) throw badArgument(name, argument);
  // Negate each branch of `$nor` separately: `$nor` does not match if a field of a branch is
  // missing.
  const branches = name === "$nor" ? argument.map(negateSelector) : argument;
  const matchers = branches.map(compile);
  // An empty list matches everything with every combination operator, as in CouchDB's filter.
  if (matchers.length === 0) return () => true;
  if (name !== "$or") return (value) => matchers.every((matches) => matches(value));
  return (value) => matchers.some((matches) => matches(value));
}

function fieldMatcher(field: string, operator: string, operand: unknown): Matcher {
  const path = field === "" ? [] : fieldPath(field);
  if (operator === "$exists") {
    if (typeof operand !== "boolean") throw badArgument(operator, operand);
    return (document) => (valueAt(document, path) !== undefined) === operand;
  }
  if (operator === "$not" && isJsonObject(operand) && typeof operand.$exists === "boolean") {
    return fieldMatcher(field, "$exists", !operand.$exists);
  }
  const matches = operatorMatcher(operator, operand, field === "_id" ? compareIds : compareJson);
  return (document) => {
    const value = valueAt(document, path);
    return value !== undefined && matches(value);
  };
}

/**
 * Splits a field name into its segments: `a.b\.c` has two. A backslash escapes a dot and is
 * otherwise dropped (`mango_util:parse_field`).
 */
export function fieldPath(field: string): string[] {
  return field.split(/(?<!\\)\./).map((segment) => segment.replaceAll("\\", ""));
}

/**
 * Returns the value at a path, or `undefined` if it does not exist. A segment of digits is the
 * index of an array element.
 */
export function valueAt(document: unknown, path: readonly string[]): unknown {
  let value = document;
  for (const segment of path) {
    if (Array.isArray(value)) value = /^\d+$/.test(segment) ? value[Number(segment)] : undefined;
    else if (isJsonObject(value) && Object.hasOwn(value, segment)) value = value[segment];
    else return undefined;
  }
  return value;
}

function operatorMatcher(operator: string, operand: unknown, compare: Compare): Matcher {
  switch (operator) {
    case "$eq":
      return (value) => compare(value, operand) === 0;
    case "$ne":
      return (value) => compare(value, operand) !== 0;
    case "$lt":
      return (value) => compare(value, operand) < 0;
    case "$lte":
      return (value) => compare(value, operand) <= 0;
    case "$gt":
      return (value) => compare(value, operand) > 0;
    case "$gte":
      return (value) => compare(value, operand) >= 0;
    case "$not":
      return negated(operand, compare);
    default:
      return listMatcher(operator, operand, compare) ?? textMatcher(operator, operand);
  }
}

function negated(operand: unknown, compare: Compare): Matcher {
  const [operator, inner] = Object.entries(operand as Selector)[0] ?? ["$eq", {}];
  const matches = operatorMatcher(operator, inner, compare);
  return (value) => !matches(value);
}

/**
 * Compiles an operator that concerns arrays or lists of values. Returns `undefined` for all other
 * operators.
 */
function listMatcher(operator: string, operand: unknown, compare: Compare): Matcher | undefined {
  if (operator === "$elemMatch" || operator === "$allMatch") {
    const matches = compile(operand);
    const all = operator === "$allMatch";
    return (value) =>
      Array.isArray(value) &&
      (all ? value.length > 0 && value.every(matches) : value.some(matches));
  }
  if (operator === "$keyMapMatch") {
    const matches = compile(operand);
    return (value) => isJsonObject(value) && Object.keys(value).some(matches);
  }
  if (operator === "$size") {
    const size = integerValue(operand);
    if (size === undefined || size < 0n) throw badArgument(operator, operand);
    return (value) => Array.isArray(value) && BigInt(value.length) === size;
  }
  if (operator !== "$in" && operator !== "$nin" && operator !== "$all") return undefined;
  if (!Array.isArray(operand)) throw badArgument(operator, operand);
  if (operator === "$all") {
    return (value) =>
      Array.isArray(value) &&
      operand.length > 0 &&
      (operand.every((wanted) => value.some((item) => isSameTerm(item, wanted))) ||
        (operand.length === 1 && isEqualTerm(value, operand[0])));
  }
  const isListed = listedIn(operand, compare);
  const matches = (value: unknown): boolean =>
    Array.isArray(value) ? value.some(isListed) : isListed(value);
  return operator === "$in" ? matches : (value) => !matches(value);
}

/**
 * Returns a predicate that tests whether a value equals an element of the list. Scalars are looked
 * up, since lists of thousands of ids are common.
 */
function listedIn(list: readonly unknown[], compare: Compare): Matcher {
  const lookupValue = (value: unknown): unknown => numberValue(value) ?? value;
  const scalars = new Set(list.filter(isScalar).map(lookupValue));
  const others = list.filter((item) => !isScalar(item));
  const texts = list.filter((item) => typeof item === "string");
  const isText = compare === compareJson ? textLookup(texts) : (text: string) => scalars.has(text);
  return (value) => {
    if (typeof value === "string") return isText(value);
    if (isScalar(value)) return scalars.has(lookupValue(value));
    return others.some((other) => compare(value, other) === 0);
  };
}

/** Returns a predicate that tests whether a string equals one of `texts` under the collation. */
function textLookup(texts: readonly string[]): (text: string) => boolean {
  const exact = new Set(texts);
  const sorted = texts.toSorted(compareTexts);
  return (text) => {
    if (exact.has(text)) return true;
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const order = compareTexts(sorted[middle] as string, text);
      if (order === 0) return true;
      if (order < 0) low = middle + 1;
      else high = middle;
    }
    return false;
  };
}

/**
 * Known operators that are refused as `bad_arg` if they reach `textMatcher` with an operand of the
 * wrong type. CouchDB reports `$beginsWith` as an invalid operator in this case
 * (`mango_selector:norm_ops/1`).
 */
const MISUSED: ReadonlySet<string> = new Set(["$and", "$or", "$nor", "$regex", "$type", "$mod"]);

function textMatcher(operator: string, operand: unknown): Matcher {
  // `$text` is meaningful only for text indexes, so any document matches here.
  if (operator === "$text") return () => true;
  if (operator === "$regex" && typeof operand === "string") {
    const matches = compileExpression(operand);
    return (value) => typeof value === "string" && matches(value);
  }
  if (operator === "$beginsWith" && typeof operand === "string") {
    return (value) => typeof value === "string" && value.startsWith(operand);
  }
  if (operator === "$type" && typeof operand === "string") {
    return (value) => typeName(value) === operand;
  }
  if (operator === "$mod" && Array.isArray(operand)) {
    const [by, rest] = operand.map(integerValue);
    if (operand.length !== 2 || !by || rest === undefined) throw badArgument(operator, operand);
    return (value) => {
      const integer = integerValue(value);
      return integer !== undefined && integer % by === rest;
    };
  }
  if (MISUSED.has(operator)) throw badArgument(operator, operand);
  throw new ProtocolError(400, "invalid_operator", `Invalid operator: ${operator}`);
}

function compileExpression(text: string): (value: string) => boolean {
  try {
    return compilePattern(text);
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    throw badArgument("$regex", text, error.message);
  }
}

function badArgument(operator: string, operand: unknown, why?: string): Error {
  const reason = `Bad argument for operator ${operator}: ${printJson(operand)}`;
  return new ProtocolError(400, "bad_arg", why === undefined ? reason : `${reason}: ${why}`);
}
