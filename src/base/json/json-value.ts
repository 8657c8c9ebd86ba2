/**
 * JSON values that preserve number formats and the order of members.
 *
 * `JSON.parse` turns 369553424691494913 into 369553424691494900 and 1.0 into 1, and moves members
 * with integer names to the front. CouchDB compares, hashes and sends such values unchanged.
 * `parseJson` returns the same values as `JSON.parse`, except that a number that would be printed
 * differently is a `JsonNumber`. `printJson` writes them back.
 */
import { compareBytes, utf8Encode } from "../bytes.ts";
import type { JsonText } from "./json-text.ts";

/** A number that JavaScript would print differently: 1.0, 1e3, -0, 369553424691494913. */
export class JsonNumber {
  readonly text: string;
  /** Exact value: a double, or a bigint for an integer that no double represents. */
  readonly value: number | bigint;
  /** Whether the text has no fraction or exponent: for CouchDB, 1.0 is not an integer. */
  readonly isInteger: boolean;

  constructor(text: string) {
    this.text = text;
    this.isInteger = /^-?\d+$/.test(text);
    this.value = this.isInteger ? shortest(BigInt(text)) : Number(text);
  }

  toString(): string {
    return this.text;
  }

  /** Called by `JSON.stringify`. Throws, because the number would be changed. */
  toJSON(): never {
    throw new TypeError(`The number ${this.text} must be printed by printJson`);
  }
}

/** Returns the integer as a double if a double represents it exactly, otherwise unchanged. */
function shortest(integer: bigint): number | bigint {
  const double = Number(integer);
  return Number.isFinite(double) && BigInt(double) === integer ? double : integer;
}

/** Returns the exact value of a number from `parseJson`, or `undefined` for any other value. */
export function numberValue(value: unknown): number | bigint | undefined {
  if (typeof value === "number") return value;
  return value instanceof JsonNumber ? value.value : undefined;
}

/**
 * Integers from this number on are printed with an exponent, which makes them floats for CouchDB.
 */
const PRINTED_INTEGER_END = 1e21;

/** Returns the value of an integer from `parseJson`, or `undefined` for floats and other values. */
export function integerValue(value: unknown): bigint | undefined {
  if (value instanceof JsonNumber) return value.isInteger ? BigInt(value.value) : undefined;
  const isInteger = Number.isInteger(value) && Math.abs(value as number) < PRINTED_INTEGER_END;
  return isInteger ? BigInt(value as number) : undefined;
}

/**
 * Matches numbers with an exponent, many digits, or trailing zeros in the fraction, the number -0,
 * and members with integer names. Every text whose numbers or member order `JSON.parse` would
 * change contains one of these; few other texts do.
 */
const LOSES_FORM =
  /(?:^|[\s:,[])-?(?:\d{16,}(?:\.\d+)?|\d{8,}\.\d+|\d+\.(?:\d{9,}|0{6}\d*|\d*0)|\d+(?:\.\d+)?[eE][+-]?\d+|(?<=-)0)(?=[\s,\]}]|$)|"(?:\d|\\u003\d)+"\s*:/;

/** Whether `JSON.parse` and `JSON.stringify` certainly preserve numbers and member order. */
export function keepsForm(text: JsonText): boolean {
  return !LOSES_FORM.test(text);
}

/**
 * Parses JSON like `JSON.parse`, but preserves the form of numbers and the order of members. Throws
 * a SyntaxError if the text is not JSON.
 */
export function parseJson(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  return keepsForm(text) ? parsed : parseExactly(text);
}

/** An array or object whose end has not been reached. */
interface OpenValue {
  readonly items: unknown[];
  /** Names of the members; undefined for an array. */
  readonly names: string[] | undefined;
}

const TOKEN = /[\s,:]*([[\]{}"]|[^\s,:[\]{}"]+)/y;

/** Parses valid JSON. Iterative, since a document can be nested thousands of levels deep. */
function parseExactly(text: JsonText): unknown {
  const open: OpenValue[] = [];
  let at = 0;
  for (;;) {
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text)?.[1] as string;
    at = TOKEN.lastIndex;
    if (token === "[" || token === "{") {
      open.push({ items: [], names: token === "{" ? [] : undefined });
      continue;
    }
    let value: unknown;
    if (token === '"') {
      const end = stringEnd(text, at);
      value = JSON.parse(text.slice(at - 1, end));
      at = end;
    } else if (token === "]" || token === "}") value = closed(open.pop() as OpenValue);
    else value = scalarOf(token);
    const outer = open.at(-1);
    if (outer === undefined) return value;
    const isName = outer.names !== undefined && outer.names.length === outer.items.length;
    if (isName) outer.names.push(value as string);
    else outer.items.push(value);
  }
}

/** Returns the end of the string whose first character is at `at`. */
function stringEnd(text: JsonText, at: number): number {
  let quote = text.indexOf('"', at);
  for (;;) {
    let backslashes = quote;
    while (text[backslashes - 1] === "\\") backslashes--;
    if ((quote - backslashes) % 2 === 0) return quote + 1;
    quote = text.indexOf('"', quote + 1);
  }
}

function scalarOf(token: string): unknown {
  if (token === "null") return null;
  if (token === "true" || token === "false") return token === "true";
  const number = Number(token);
  const isPrinted = String(number) === token;
  // Above 2^53, a double is printed with the fewest digits that identify it, and these digits can
  // denote a different integer.
  const isExact = !Number.isInteger(number) || Number.isSafeInteger(number);
  return isPrinted && isExact ? number : new JsonNumber(token);
}

function closed({ items, names }: OpenValue): unknown {
  return names === undefined ? items : objectOf(names.map((name, index) => [name, items[index]]));
}

const INDEX = /^\d+$/;

/**
 * Creates an object that lists its members in the given order. The last of repeated names is used.
 */
export function objectOf(
  members: readonly (readonly [name: string, value: unknown])[],
): Readonly<Record<string, unknown>> {
  const object: Record<string, unknown> = Object.fromEntries(members);
  if (!members.some(([name]) => INDEX.test(name))) return object;
  // Plain objects list integer names such as "1" first, in ascending order.
  const names = [...new Set(members.map(([name]) => name))];
  return new Proxy(object, { ownKeys: () => names });
}

export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject && !(value instanceof JsonNumber);
}

/** Returns the value if it is a JSON object, otherwise an object without members. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : {};
}

/** Like `JSON.stringify`, but preserves the text of every number. */
export function printJson(value: unknown): JsonText {
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map((item) => printJson(item ?? null)).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${printJson(item)}`).join()}}`;
}

/** Whether the value contains a `JsonNumber`. */
export function hasJsonNumber(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return value instanceof JsonNumber || Object.values(value).some(hasJsonNumber);
}

/** Sorts the members of all objects by the UTF-8 encoding of their names. */
export function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (!isJsonObject(value)) return value;
  const sorted = Object.entries(value).sort(([left], [right]) =>
    compareBytes(utf8Encode(left), utf8Encode(right)),
  );
  return objectOf(sorted.map(([name, item]) => [name, sortMembers(item)]));
}

/**
 * Returns a canonical text, which is equal for values that differ only in white space, escapes and
 * member order.
 */
export function canonicalJson(text: JsonText): JsonText {
  return printJson(sortMembers(parseJson(text)));
}
