/**
 * Streaming reader of a JSON object with one long array, such as a response with rows. Emits each
 * element when it is complete, and keeps the text around the array.
 */

import { byteText, concatBytes, Utf8Writer, utf8Decode } from "../bytes.ts";
import { append } from "../lists.ts";
import { JsonLimitError } from "./json-scan.ts";

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;

/** Maximum white space around the array's name, in responses of servers that pretty-print JSON. */
const SPACES_MAX = 64;

/** Nesting depth of the array's elements. */
const ELEMENT_DEPTH = 2;

/** Maximum length of the text around the elements. */
const REST_BYTES_MAX = 1_048_576;
/** Initial buffer size for an incomplete element and for the text around the array. */
const HELD_BYTES_EXPECTED = 512;

export interface JsonElementsOptions {
  /** Name of the member that is the array. */
  readonly name: string;
  /** Maximum length of an element. */
  readonly elementBytesMax: number;
}

export class JsonElements {
  readonly #arrayName: RegExp;
  readonly #nameBytesMax: number;
  readonly #elementBytesMax: number;
  /** Bytes of an incomplete element. */
  #open = new Utf8Writer(HELD_BYTES_EXPECTED);
  /** The text before and after the array, without line breaks. */
  readonly #rest = new Utf8Writer(HELD_BYTES_EXPECTED);
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isInArray = false;

  /** The `name` of the array must be a word, since it becomes part of a regular expression. */
  constructor({ name, elementBytesMax }: JsonElementsOptions) {
    this.#arrayName = new RegExp(`[{,] *"${name}" *: *\\[$`);
    this.#nameBytesMax = name.length + SPACES_MAX;
    this.#elementBytesMax = elementBytesMax;
  }

  /**
   * Consumes the next piece. Returns the elements that the piece completes, as the text of an
   * array, or `undefined` if it completes none. The caller must parse the text, which can be
   * invalid JSON. Throws a JsonLimitError if an element or the surrounding text is too long.
   */
  push(piece: Uint8Array): Uint8Array | undefined {
    const whole: Uint8Array[] = [];
    let start = 0;
    // End of the complete elements: the last comma between two elements, or the end of the array.
    let wholeEnd = -1;
    let at = 0;
    while (at < piece.length) {
      const byte = piece[at++] as number;
      if (this.#isInString) {
        if (this.#isEscaped) this.#isEscaped = false;
        else if (byte === BACKSLASH) this.#isEscaped = true;
        else if (byte === QUOTE) this.#isInString = false;
        continue;
      }
      if (byte > COMMA && byte < OPEN_BRACKET) continue;
      if (byte === QUOTE) this.#isInString = true;
      else if (byte === COMMA) {
        if (this.#isInArray && this.#depth === ELEMENT_DEPTH) wholeEnd = at - 1;
      } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        this.#depth++;
        if (byte === OPEN_BRACE || this.#isInArray || this.#depth !== ELEMENT_DEPTH) continue;
        this.#keep(piece.subarray(start, at));
        const name = this.#rest.finish().subarray(-this.#nameBytesMax);
        this.#isInArray = this.#arrayName.test(byteText(name));
        start = at;
      } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
        this.#depth--;
        if (!this.#isInArray || this.#depth >= ELEMENT_DEPTH) continue;
        append(whole, this.#take(piece.subarray(start, at - 1)));
        this.#isInArray = false;
        start = at - 1;
        wholeEnd = -1;
      }
    }
    if (!this.#isInArray) this.#keep(piece.subarray(start));
    else if (wholeEnd < 0) this.#hold(piece.subarray(start));
    else {
      append(whole, this.#take(piece.subarray(start, wholeEnd)));
      this.#hold(piece.subarray(wholeEnd + 1));
    }
    return arrayOf(whole);
  }

  /**
   * The object's text with all elements removed from its array, once all input has been pushed.
   * Throws a SyntaxError if the text is not UTF-8.
   */
  get rest(): string {
    try {
      return utf8Decode(this.#rest.finish());
    } catch (cause) {
      throw new SyntaxError("The text around the JSON array is not valid UTF-8", { cause });
    }
  }

  /** Empties the buffer. Returns its bytes, followed by `last`. */
  #take(last: Uint8Array): Uint8Array[] {
    const taken = [this.#open.finish(), last];
    this.#open = new Utf8Writer(HELD_BYTES_EXPECTED);
    return taken;
  }

  #hold(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#open.bytes(bytes);
    if (this.#open.length > this.#elementBytesMax) {
      throw new JsonLimitError("bytes", this.#elementBytesMax);
    }
  }

  #keep(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    // Drops line breaks, which are heartbeats and can be numerous. This is safe, because valid
    // strings contain no line breaks.
    this.#rest.bytes(bytes.filter((byte) => byte >= SPACE));
    if (this.#rest.length > REST_BYTES_MAX) throw new JsonLimitError("bytes", REST_BYTES_MAX);
  }
}

const BRACKETS = [Uint8Array.of(OPEN_BRACKET), Uint8Array.of(CLOSE_BRACKET)] as const;

function arrayOf(pieces: readonly Uint8Array[]): Uint8Array | undefined {
  if (pieces.every((piece) => piece.every((byte) => byte <= SPACE))) return undefined;
  return concatBytes([BRACKETS[0], ...pieces, BRACKETS[1]]);
}
