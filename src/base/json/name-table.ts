/**
 * Hash table of the names in one object, by their offsets in the text. Takes four to eight bytes
 * per member, allocated once. A Set of strings takes ten times as much, is copied whenever its size
 * doubles, and takes two to four times the CPU time for a million names.
 */
import { BACKSLASH, isSameName, NAME_END, NAME_START, stringText } from "./json-rows.ts";

/** Minimum ratio of slots to members. */
const SLACK = 1.5;
/**
 * Average number of probes per name above which the table gives up. More are needed only if names
 * were chosen to collide.
 */
const LOOKS_MAX = 16;

export class NameTable {
  readonly #bytes: Uint8Array;
  readonly #rows: Int32Array;
  /** Row index plus one; 0 for an empty slot. */
  readonly #places: Int32Array;
  #looksLeft: number;

  /** Creates an empty table for up to `count` names. */
  constructor(bytes: Uint8Array, rows: Int32Array, count: number) {
    this.#bytes = bytes;
    this.#rows = rows;
    this.#places = new Int32Array(2 ** Math.ceil(Math.log2(count * SLACK + 1)));
    this.#looksLeft = LOOKS_MAX * count;
  }

  /**
   * Adds the name of a row to the table. Returns whether the table already contained it, or
   * undefined if there were too many hash collisions to find out.
   */
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

  /** Returns the FNV-1a hash of a row's name. Equal for names that decode to one string. */
  #hash(row: number): number {
    const bytes = this.#bytes;
    const start = this.#rows[row + NAME_START] as number;
    const end = this.#rows[row + NAME_END] as number;
    let hash = 0x811c9dc5;
    for (let at = start + 1; at < end - 1; at++) {
      const byte = bytes[at] as number;
      // Names with several possible spellings are hashed by their decoded characters.
      if (byte === BACKSLASH || byte >= 0x80) return textHash(stringText(bytes, start, end));
      hash = Math.imul(hash ^ byte, 0x01000193);
    }
    return hash ^ (hash >>> 15);
  }
}

/** Like `#hash`, for the characters of a string; for ASCII, these are the bytes. */
function textHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return hash ^ (hash >>> 15);
}

/** Maximum size of one set, bounding the time to copy it when it grows. */
const SET_NAMES_MAX = 50_000;

/**
 * Alternative to `NameTable`, slower and larger, for names chosen to collide there. They do not
 * collide in a `Set`, because V8 seeds its string hash randomly.
 */
export class NameSets {
  readonly #sets = [new Set<string>()];

  /** Adds a name. Returns whether it was already present. */
  repeats(name: string): boolean {
    if (this.#sets.some((set) => set.has(name))) return true;
    const last = this.#sets.at(-1) as Set<string>;
    if (last.size < SET_NAMES_MAX) last.add(name);
    else this.#sets.push(new Set([name]));
    return false;
  }
}
