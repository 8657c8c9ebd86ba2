/**
 * JSON values that keep the form of every number and the order of every object's members.
 *
 * `JSON.parse` turns 369553424691494913 into 369553424691494900 and 1.0 into 1, and moves members named like an index to the
 * front. CouchDB compares, hashes and sends all of these as they came. `parseJson` yields the same values as `JSON.parse`, except
 * that a number which would be printed differently is a `JsonNumber`, and `printJson` writes them back.
 */
import { compareBytes, utf8Encode } from "./bytes.ts";
import type { JsonText } from "./json-text.ts";

/** A number in a form that a JavaScript number would not print: 1.0, 1e3, -0, 369553424691494913. */
export class JsonNumber {
  readonly text: string;
  /** The exact value: a double, or a bigint for integers that no double holds. Equal values are the same value. */
  readonly value: number | bigint;
  /** An integer has no fraction and no exponent: for CouchDB 1.0 is not one. */
  readonly isInteger: boolean;

  constructor(text: string) {
    this.text = text;
    this.isInteger = /^-?\d+$/.test(text);
    this.value = this.isInteger ? shortest(BigInt(text)) : Number(text);
  }

  /** `JSON.stringify` would write another number. */
  toJSON(): never {
    throw new TypeError(`The number ${this.text} is printed by printJson only`);
  }
}

/** A double if that holds the integer exactly. */
function shortest(integer: bigint): number | bigint {
  const double = Number(integer);
  return Number.isFinite(double) && BigInt(double) === integer ? double : integer;
}

/** The exact value of a number as `parseJson` yields it, or `undefined` for any other value. */
export function numberValue(value: unknown): number | bigint | undefined {
  if (typeof value === "number") return value;
  return value instanceof JsonNumber ? value.value : undefined;
}

/** From here on a number is printed with an exponent, which makes it a float for CouchDB. */
const PRINTED_INTEGER_END = 1e21;

/** The value of an integer as `parseJson` yields it, or `undefined` for floats (1.0, 1e3) and any other value. */
export function integerValue(value: unknown): bigint | undefined {
  if (value instanceof JsonNumber) return value.isInteger ? BigInt(value.value) : undefined;
  const isInteger = Number.isInteger(value) && Math.abs(value as number) < PRINTED_INTEGER_END;
  return isInteger ? BigInt(value as number) : undefined;
}

/**
 * Matches every text in which a number or the order of members would not survive `JSON.parse`, and few others: -0, a number with many
 * digits, an exponent or a final zero in its fraction, and a member named like an index.
 */
const LOSES_FORM =
  /(?:^|[\s:,[])-?(?:\d{16,}(?:\.\d+)?|\d{8,}\.\d+|\d+\.(?:\d{9,}|0{6}\d*|\d*0)|\d+(?:\.\d+)?[eE][+-]?\d+|(?<=-)0)(?=[\s,\]}]|$)|"(?:\d|\\u003\d)+"\s*:/;

/** Whether `JSON.parse` and `JSON.stringify` keep every number and the order of all members. False also in rare other cases. */
export function keepsForm(text: JsonText): boolean {
  return !LOSES_FORM.test(text);
}

/** Throws a SyntaxError if `text` is not JSON. */
export function parseJson(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  return keepsForm(text) ? parsed : parseExactly(text);
}

/** An array or an object whose end has not been reached. */
interface OpenValue {
  readonly items: unknown[];
  /** Undefined for an array. */
  readonly names: string[] | undefined;
}

const TOKEN = /[\s,:]*([[\]{}"]|[^\s,:[\]{}"]+)/y;

/** Parses valid JSON. Iterative, since a document may be nested thousands of levels deep. */
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

/** The end of a string whose first character is at `at`. */
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
  // A double from 2^53 on is printed with the fewest digits that identify it, which are those of another integer.
  const isExact = !Number.isInteger(number) || Number.isSafeInteger(number);
  return isPrinted && isExact ? number : new JsonNumber(token);
}

function closed({ items, names }: OpenValue): unknown {
  return names === undefined ? items : objectOf(names.map((name, index) => [name, items[index]]));
}

const INDEX = /^\d+$/;

/** An object whose members are listed in this order. A repeated name has its last value, as with `JSON.parse`. */
export function objectOf(
  members: readonly (readonly [name: string, value: unknown])[],
): Readonly<Record<string, unknown>> {
  const object: Record<string, unknown> = Object.fromEntries(members);
  if (!members.some(([name]) => INDEX.test(name))) return object;
  // A plain object lists names like "1" before all others, in ascending order.
  const names = [...new Set(members.map(([name]) => name))];
  return new Proxy(object, { ownKeys: () => names });
}

export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject && !(value instanceof JsonNumber);
}

/** What `JSON.stringify` writes, with every number in its own form. */
export function printJson(value: unknown): JsonText {
  if (value instanceof JsonNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map((item) => printJson(item ?? null)).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, item]) => item !== undefined);
  return `{${members.map(([name, item]) => `${JSON.stringify(name)}:${printJson(item)}`).join()}}`;
}

/** Whether some number in the value is not a JavaScript number. */
export function hasJsonNumber(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return value instanceof JsonNumber || Object.values(value).some(hasJsonNumber);
}

/** The value with the members of every object in the order of their names as UTF-8. */
export function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (!isJsonObject(value)) return value;
  const sorted = Object.entries(value).sort(([left], [right]) =>
    compareBytes(utf8Encode(left), utf8Encode(right)),
  );
  return objectOf(sorted.map(([name, item]) => [name, sortMembers(item)]));
}

/** The same text for values that differ in spaces, escapes and the order of members only. */
export function canonicalJson(text: JsonText): JsonText {
  return printJson(sortMembers(parseJson(text)));
}
