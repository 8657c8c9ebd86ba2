/**
 * JSON as the text that came.
 *
 * `JSON.parse` and `JSON.stringify` change documents: `12345678901234567890` loses digits, `1.0` becomes `1`, a member named
 * `__proto__` may vanish. So a document's body travels and is stored as text; what is here cuts a text into its members or
 * elements without touching a byte of them.
 */
import {
  NAME_END,
  NAME_START,
  NEXT,
  ROW_LENGTH,
  type ScanOptions,
  scanJson,
  VALUE_END,
  VALUE_START,
} from "./json-scan.ts";

/** A JSON text, known to be valid. */
export type JsonText = string;

/** One member of an object: its name, decoded, and its value as the text that came. */
export interface JsonMember {
  readonly name: string;
  readonly value: JsonText;
}

const QUOTE = 0x22;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;

/** The kind of the value that a valid JSON text holds. */
export function jsonKind(
  text: JsonText,
): "object" | "array" | "string" | "number" | "boolean" | "null" {
  const code = text.charCodeAt(text.search(/\S/));
  if (code === OPEN_BRACE) return "object";
  if (code === OPEN_BRACKET) return "array";
  if (code === QUOTE) return "string";
  if (code === 0x74 || code === 0x66) return "boolean";
  if (code === 0x6e) return "null";
  return "number";
}

/** Throws a SyntaxError when `text` is not JSON. */
export function validateJson(text: string): void {
  scanJson(text, { ...SCAN_OPTIONS, depthMax: 0 });
}

/** The members of the object that `text` holds, in order, repeated names included. Throws a SyntaxError for any other text. */
export function splitObject(text: JsonText): JsonMember[] {
  return outlineJson(text, { depthMax: 1 }).members();
}

/** The elements of the array that `text` holds, in order. Throws a SyntaxError for any other text. */
export function splitArray(text: JsonText): JsonText[] {
  return outlineJson(text, { depthMax: 1 })
    .elements()
    .map((element) => element.text);
}

/** The value that `text` holds, to be cut to pieces. Throws a SyntaxError when it is not JSON. */
export function outlineJson(text: string, options: Partial<ScanOptions> = {}): JsonValue {
  return new JsonValue(text, scanJson(text, { ...SCAN_OPTIONS, ...options }), 0);
}

const SCAN_OPTIONS: ScanOptions = {
  depthMax: Number.POSITIVE_INFINITY,
  allNames: false,
  wholeCharacters: false,
};

/** A value in a JSON text that was looked through once. What lies deeper than that look went cannot be cut out. */
export class JsonValue {
  readonly #whole: JsonText;
  readonly #rows: Int32Array;
  readonly #row: number;

  /** Use `outlineJson`. */
  constructor(whole: JsonText, rows: Int32Array, row: number) {
    this.#whole = whole;
    this.#rows = rows;
    this.#row = row;
  }

  get text(): JsonText {
    return this.#valueText(this.#row);
  }

  /** The whole text, with what stands around the value. */
  get whole(): JsonText {
    return this.#whole;
  }

  get isObject(): boolean {
    return this.#whole.startsWith("{", this.#rows[this.#row + VALUE_START]);
  }

  get isArray(): boolean {
    return this.#whole.startsWith("[", this.#rows[this.#row + VALUE_START]);
  }

  /** In order. Throws a SyntaxError when it is no array. */
  elements(): JsonValue[] {
    if (!this.isArray) throw new SyntaxError("The JSON text is not an array");
    return this.#inside().map((row) => new JsonValue(this.#whole, this.#rows, row));
  }

  /** In order, repeated names included. Throws a SyntaxError when it is no object. */
  members(): JsonMember[] {
    return this.values().map(({ name, value }) => ({ name, value: value.text }));
  }

  /** As `members`, to be cut further. */
  values(): { readonly name: string; readonly value: JsonValue }[] {
    if (!this.isObject) throw new SyntaxError("The JSON text is not an object");
    return this.#inside().map((row) => {
      return { name: this.#name(row), value: new JsonValue(this.#whole, this.#rows, row) };
    });
  }

  /** The last member of that name, as `JSON.parse` has it; undefined when there is none, or when it is no object. */
  member(name: string): JsonValue | undefined {
    if (!this.isObject) return undefined;
    const rows = this.#rows;
    const end = rows[this.#row + NEXT] as number;
    let found = -1;
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      if (this.#isNamed(row, name)) found = row;
    }
    return found < 0 ? undefined : new JsonValue(this.#whole, rows, found);
  }

  /** Whether it is this string. */
  isString(text: string): boolean {
    const start = this.#rows[this.#row + VALUE_START] as number;
    const end = this.#rows[this.#row + VALUE_END] as number;
    if (this.#whole.charCodeAt(start) !== QUOTE) return false;
    if (this.#isSpelled(start, end)) return JSON.parse(this.text) === text;
    return end - start === text.length + 2 && this.#whole.startsWith(text, start + 1);
  }

  /**
   * The members of an object whose names begin with `initial`, a character, and the object that the others make: as it stands when
   * no member is taken, else as `joinObject` writes it.
   */
  part(initial: string): { readonly taken: readonly JsonMember[]; readonly rest: JsonText } {
    if (!this.isObject) throw new SyntaxError("The JSON text is not an object");
    const text = this.#whole;
    const rows = this.#rows;
    const initialCode = initial.charCodeAt(0);
    const taken: JsonMember[] = [];
    let rest = "{";
    const add = (piece: string): void => {
      rest += rest.length > 1 ? `,${piece}` : piece;
    };
    // Members that follow each other as `joinObject` would write them are copied together.
    let runStart = 0;
    let runEnd = -1;
    const endRun = (): void => {
      if (runEnd > 0) add(text.slice(runStart, runEnd));
      runEnd = -1;
    };
    const end = rows[this.#row + NEXT] as number;
    for (let row = this.#row + ROW_LENGTH; row < end; row = rows[row + NEXT] as number) {
      const nameStart = rows[row + NAME_START] as number;
      const nameEnd = rows[row + NAME_END] as number;
      const valueStart = rows[row + VALUE_START] as number;
      const code = text.charCodeAt(nameStart + 1);
      const isSpelled = code === BACKSLASH || this.#isSpelled(nameStart, nameEnd);
      const isTaken = isSpelled ? this.#name(row).startsWith(initial) : code === initialCode;
      if (isTaken) {
        taken.push({ name: this.#name(row), value: this.#valueText(row) });
      } else if (isSpelled || valueStart > nameEnd + 1) {
        endRun();
        add(memberText({ name: this.#name(row), value: this.#valueText(row) }));
      } else {
        if (nameStart !== runEnd + 1) {
          endRun();
          runStart = nameStart;
        }
        runEnd = rows[row + VALUE_END] as number;
      }
    }
    if (taken.length === 0) return { taken, rest: this.text };
    endRun();
    return { taken, rest: `${rest}}` };
  }

  /** The first name that stands twice in one object, as deep as there are rows: with `allNames` at whatever depth. */
  repeatedName(): string | undefined {
    const rows = this.#rows;
    const end = rows[this.#row + NEXT] as number;
    for (let row = this.#row; row < end; row += ROW_LENGTH) {
      if (rows[row + NEXT] === row + ROW_LENGTH) continue;
      if (this.#whole.charCodeAt(rows[row + VALUE_START] as number) !== OPEN_BRACE) continue;
      const names = new Set<string>();
      for (
        let at = row + ROW_LENGTH;
        at < (rows[row + NEXT] as number);
        at = rows[at + NEXT] as number
      ) {
        const name = this.#name(at);
        if (names.has(name)) return name;
        names.add(name);
      }
    }
    return undefined;
  }

  #inside(): number[] {
    const found: number[] = [];
    const end = this.#rows[this.#row + NEXT] as number;
    let row = this.#row + ROW_LENGTH;
    for (; row < end; row = this.#rows[row + NEXT] as number) found.push(row);
    return found;
  }

  #valueText(row: number): JsonText {
    return this.#whole.slice(this.#rows[row + VALUE_START], this.#rows[row + VALUE_END]);
  }

  #name(row: number): string {
    const start = this.#rows[row + NAME_START] as number;
    const end = this.#rows[row + NAME_END] as number;
    if (this.#isSpelled(start, end)) return JSON.parse(this.#whole.slice(start, end));
    return this.#whole.slice(start + 1, end - 1);
  }

  #isNamed(row: number, name: string): boolean {
    const start = this.#rows[row + NAME_START] as number;
    const end = this.#rows[row + NAME_END] as number;
    if (this.#isSpelled(start, end)) return this.#name(row) === name;
    return end - start === name.length + 2 && this.#whole.startsWith(name, start + 1);
  }

  /** Whether there are escapes in a string. */
  #isSpelled(start: number, end: number): boolean {
    for (let at = start; at < end; at++) {
      if (this.#whole.charCodeAt(at) === BACKSLASH) return true;
    }
    return false;
  }
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
