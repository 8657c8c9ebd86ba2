/**
 * Which names stand in one object, by the places of its members in the text. It keeps four to eight bytes of a member, and takes all
 * its memory at once: a set of texts takes ten times as much, and is copied as a whole whenever it has grown to twice its size.
 */
import { BACKSLASH, isSameName, NAME_END, NAME_START, stringText } from "./json-rows.ts";

/** Free places that a table has for each that is taken, at least. */
const SLACK = 1.5;
/**
 * Places that are looked at for each name, on average. Names that somebody has chosen so that they meet in one place need more, and the
 * table gives up.
 */
const LOOKS_MAX = 16;

export class NameTable {
  readonly #bytes: Uint8Array;
  readonly #rows: Int32Array;
  /** Rows, and one; 0 where there is none. */
  readonly #places: Int32Array;
  #looksLeft: number;

  /** For `count` members at most. */
  constructor(bytes: Uint8Array, rows: Int32Array, count: number) {
    this.#bytes = bytes;
    this.#rows = rows;
    this.#places = new Int32Array(2 ** Math.ceil(Math.log2(count * SLACK + 1)));
    this.#looksLeft = LOOKS_MAX * count;
  }

  /** Adds the name of a row. Whether another has the same; undefined when the table gives up. */
  repeats(row: number): boolean | undefined {
    const places = this.#places;
    const mask = places.length - 1;
    for (let place = this.#hash(row) & mask; ; place = (place + 1) & mask) {
      if (this.#looksLeft-- === 0) return undefined;
      const taken = places[place] as number;
      if (taken === 0) {
        places[place] = row + 1;
        return false;
      }
      if (isSameName(this.#bytes, this.#rows, taken - 1, row)) return true;
    }
  }

  /** Equal for names that stand for the same (FNV-1a). */
  #hash(row: number): number {
    const bytes = this.#bytes;
    const start = this.#rows[row + NAME_START] as number;
    const end = this.#rows[row + NAME_END] as number;
    let hash = 0x811c9dc5;
    for (let at = start + 1; at < end - 1; at++) {
      const byte = bytes[at] as number;
      // What may be spelled in several ways is taken by its characters.
      if (byte === BACKSLASH || byte >= 0x80) return textHash(stringText(bytes, start, end));
      hash = Math.imul(hash ^ byte, 0x01000193);
    }
    return hash ^ (hash >>> 15);
  }
}

/** As `#hash`, by the characters of a text, which for ASCII are the bytes. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash ^ (hash >>> 15);
}

/** A set is copied as a whole when it grows, which takes some milliseconds for so many names. */
const SET_NAMES_MAX = 50_000;

/** The same for names that somebody has chosen to be slow: nobody knows where a set of the engine puts a text. Larger and slower. */
export class NameSets {
  readonly #sets = [new Set<string>()];

  /** Adds a name. Whether it was there. */
  repeats(name: string): boolean {
    if (this.#sets.some((set) => set.has(name))) return true;
    const last = this.#sets.at(-1) as Set<string>;
    if (last.size < SET_NAMES_MAX) last.add(name);
    else this.#sets.push(new Set([name]));
    return false;
  }
}
