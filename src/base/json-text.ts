/**
 * JSON as the text that came.
 *
 * `JSON.parse` and `JSON.stringify` change documents: `12345678901234567890` loses digits, `1.0` becomes `1`, a member named
 * `__proto__` may vanish. So a document's body travels and is stored as text; these functions cut a text that `JSON.parse`
 * has already accepted (`validateJson`) into its members or elements without touching a byte of them.
 */

/** A JSON text, known to be valid. */
export type JsonText = string;

/** One member of an object: its name, decoded, and its value as the text that came. */
export interface JsonMember {
  readonly name: string;
  readonly value: JsonText;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/** The kind of the value that a valid JSON text holds. */
export function jsonKind(
  text: JsonText,
): "object" | "array" | "string" | "number" | "boolean" | "null" {
  const code = text.charCodeAt(skipSpace(text, 0));
  if (code === OPEN_BRACE) return "object";
  if (code === OPEN_BRACKET) return "array";
  if (code === QUOTE) return "string";
  if (code === 0x74 || code === 0x66) return "boolean";
  if (code === 0x6e) return "null";
  return "number";
}

/** Throws a SyntaxError when `text` is not JSON. */
export function validateJson(text: string): void {
  JSON.parse(text);
}

/** The members of the object that `text` holds, in order, repeated names included. `text` must be valid JSON. */
export function splitObject(text: JsonText): JsonMember[] {
  let at = skipSpace(text, 0);
  if (text.charCodeAt(at) !== OPEN_BRACE) throw new SyntaxError("The JSON text is not an object");
  const members: JsonMember[] = [];
  at = skipSpace(text, at + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACE) {
    const nameEnd = skipString(text, at);
    const name = unquote(text.slice(at, nameEnd));
    at = skipSpace(text, nameEnd);
    if (text.charCodeAt(at) !== COLON) throw new SyntaxError("The JSON object lacks a colon");
    const valueStart = skipSpace(text, at + 1);
    const valueEnd = skipValue(text, valueStart);
    members.push({ name, value: text.slice(valueStart, valueEnd) });
    at = skipSpace(text, valueEnd);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return members;
}

/**
 * The members of an object whose names begin with `initial`, a character, and the object that the others make: as it stands when
 * no member is taken, else as `joinObject` writes it. `text` must be valid JSON.
 */
export function partObject(
  text: JsonText,
  initial: string,
): { readonly taken: readonly JsonMember[]; readonly rest: JsonText } {
  const taken: JsonMember[] = [];
  const rest: JsonText[] = [];
  const initialCode = initial.charCodeAt(0);
  const hasEscapes = text.includes("\\");
  // Members that follow each other as `joinObject` would write them are copied together.
  let runStart = 0;
  let runEnd = -1;
  const endRun = (): void => {
    if (runEnd > 0) rest.push(text.slice(runStart, runEnd));
    runEnd = -1;
  };
  let at = skipSpace(text, 0);
  if (text.charCodeAt(at) !== OPEN_BRACE) throw new SyntaxError("The JSON text is not an object");
  at = skipSpace(text, at + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACE) {
    const nameStart = at;
    const nameEnd = skipString(text, nameStart);
    const valueStart = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const valueEnd = skipValue(text, valueStart);
    const quoted = hasEscapes ? text.slice(nameStart, nameEnd) : "";
    if (quoted.includes("\\") || valueStart > nameEnd + 1) {
      endRun();
      const member = {
        name: unquote(text.slice(nameStart, nameEnd)),
        value: text.slice(valueStart, valueEnd),
      };
      if (member.name.startsWith(initial)) taken.push(member);
      else rest.push(memberText(member));
    } else if (text.charCodeAt(nameStart + 1) === initialCode) {
      taken.push({
        name: text.slice(nameStart + 1, nameEnd - 1),
        value: text.slice(valueStart, valueEnd),
      });
    } else {
      if (nameStart !== runEnd + 1) {
        endRun();
        runStart = nameStart;
      }
      runEnd = valueEnd;
    }
    at = skipSpace(text, valueEnd);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  endRun();
  return { taken, rest: taken.length === 0 ? text : `{${rest.join(",")}}` };
}

/** The elements of the array that `text` holds, in order. `text` must be valid JSON. */
export function splitArray(text: JsonText): JsonText[] {
  let at = skipSpace(text, 0);
  if (text.charCodeAt(at) !== OPEN_BRACKET) throw new SyntaxError("The JSON text is not an array");
  const elements: JsonText[] = [];
  at = skipSpace(text, at + 1);
  while (text.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = skipValue(text, at);
    elements.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1);
  }
  return elements;
}

/** The first name that stands twice in one object of `text`, at whatever depth. `text` must be valid JSON. */
export function repeatedName(text: JsonText): string | undefined {
  /** Of the objects that are open; undefined for an array. */
  const open: (Set<string> | undefined)[] = [];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === OPEN_BRACE) open.push(new Set());
    else if (code === OPEN_BRACKET) open.push(undefined);
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) open.pop();
    else if (code === QUOTE) {
      const end = skipString(text, at);
      const names = open.at(-1);
      // Only a name has a colon behind it.
      if (names !== undefined && text.charCodeAt(skipSpace(text, end)) === COLON) {
        const name = unquote(text.slice(at, end));
        if (names.has(name)) return name;
        names.add(name);
      }
      at = end - 1;
    }
  }
  return undefined;
}

/** An object's text from its members, in order. */
export function joinObject(members: Iterable<JsonMember>): JsonText {
  let text = "{";
  for (const member of members) {
    if (text.length > 1) text += ",";
    text += memberText(member);
  }
  return `${text}}`;
}

function memberText({ name, value }: JsonMember): JsonText {
  return `${JSON.stringify(name)}:${value}`;
}

function unquote(quoted: JsonText): string {
  return quoted.includes("\\") ? JSON.parse(quoted) : quoted.slice(1, -1);
}

function skipSpace(text: string, start: number): number {
  let at = start;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at;
    at++;
  }
}

/** The index behind the string that starts at `start`. */
function skipString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end + 1;
    end = text.indexOf('"', end + 1);
  }
  throw new SyntaxError("The JSON text ends inside a string");
}

/** The index behind the value that starts at `start`. */
function skipValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return skipString(text, start);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return skipScalar(text, start);
  let depth = 0;
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      continue;
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      depth--;
      if (depth === 0) return at + 1;
    }
    at++;
  }
  throw new SyntaxError("The JSON text ends inside a value");
}

function skipScalar(text: string, start: number): number {
  let at = start;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || code <= 0x20) break;
    at++;
  }
  return at;
}
