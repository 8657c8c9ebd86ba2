/**
 * Random numbers from a seed (sfc32): the same seed leads to the same run. Not suitable for
 * secrets.
 */
import type { Random } from "../../../src/base/index.ts";

export class SeededRandom implements Random {
  readonly #seed: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string) {
    this.#seed = seed;
    this.#a = hash(`${seed}a`);
    this.#b = hash(`${seed}b`);
    this.#c = hash(`${seed}c`);
    for (let round = 0; round < 12; round++) this.#next();
  }

  integer(limit: number): number {
    return Math.floor(this.ratio() * limit);
  }

  ratio(): number {
    return this.#next() / 2 ** 32;
  }

  bytes(byteCount: number): Uint8Array {
    return Uint8Array.from({ length: byteCount }, () => this.#next() & 0xff);
  }

  /** Returns a generator that depends only on the seed and the label, but not on earlier draws. */
  fork(label: string): SeededRandom {
    return new SeededRandom(`${this.#seed}/${label}`);
  }

  /** Returns a number from `least` (inclusive) to `most` (exclusive). */
  between(least: number, most: number): number {
    return least + this.ratio() * (most - least);
  }

  chance(ratio: number): boolean {
    return this.ratio() < ratio;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.integer(items.length)] as Item;
  }

  #next(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }
}

/** Returns the 32-bit FNV-1a hash of a text. */
export function hash(text: string, start = 0x811c9dc5): number {
  let value = start;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  return value >>> 0;
}
