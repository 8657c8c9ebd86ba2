/**
 * Finds names that occur twice in one object, by the rows of its members. Worth
 * (`bench/base/long-json.mjs`, 400,000 members): 190 ms in turns of at most 20 to 30 ms and 10 MB,
 * where a set of the names takes 340 ms in one turn and 30 MB.
 */
import { isSameName, NAME_END, NAME_START, NEXT, ROW_LENGTH, stringText } from "./json-rows.ts";
import { NameSets, NameTable } from "./name-table.ts";

/** Members of so few rows are compared with each other: a table costs more. */
export const COMPARED_ROWS_MAX = 8;

export const NO_ROW = -1;

/** The row of the first member, of those from `first` to before `end`, that has the name of one before; NO_ROW when there is none. */
export function repeatedAmongFew(
  bytes: Uint8Array,
  rows: Int32Array,
  first: number,
  end: number,
): number {
  if (first === end) return NO_ROW;
  for (let row = rows[first + NEXT] as number; row < end; row = rows[row + NEXT] as number) {
    for (let other = first; other < row; other = rows[other + NEXT] as number) {
      if (isSameName(bytes, rows, other, row)) return row;
    }
  }
  return NO_ROW;
}

/** A search among members of any number, from the row `first` to before `end`, in steps. */
export class NameSearch {
  readonly #bytes: Uint8Array;
  readonly #rows: Int32Array;
  readonly #first: number;
  readonly #end: number;
  #row: number;
  #names: NameTable | NameSets;
  #repeated = NO_ROW;

  constructor(bytes: Uint8Array, rows: Int32Array, first: number, end: number) {
    this.#bytes = bytes;
    this.#rows = rows;
    this.#first = first;
    this.#end = end;
    this.#row = first;
    let count = 0;
    for (let row = first; row < end; row = rows[row + NEXT] as number) count++;
    this.#names = new NameTable(bytes, rows, count);
  }

  get isDone(): boolean {
    return this.#row >= this.#end || this.#repeated !== NO_ROW;
  }

  /** As `repeatedAmongFew`, so far. */
  get repeated(): number {
    return this.#repeated;
  }

  /** Goes on through so many members at most. */
  advance(countMax: number): void {
    const rows = this.#rows;
    for (let count = 0; count < countMax && !this.isDone; count++) {
      const row = this.#row;
      const isRepeated = this.#isRepeated(row);
      if (isRepeated === true) this.#repeated = row;
      else if (isRepeated === false) this.#row = rows[row + NEXT] as number;
      else this.#beginAgain();
    }
  }

  /** Undefined when the table gave up. */
  #isRepeated(row: number): boolean | undefined {
    const names = this.#names;
    if (names instanceof NameTable) return names.repeats(row);
    const start = this.#rows[row + NAME_START] as number;
    return names.repeats(stringText(this.#bytes, start, this.#rows[row + NAME_END] as number));
  }

  #beginAgain(): void {
    this.#row = this.#first;
    this.#names = new NameSets();
  }
}

/** Whether so many rows are few enough to be compared with each other. */
export function areFew(first: number, end: number): boolean {
  return end - first <= COMPARED_ROWS_MAX * ROW_LENGTH;
}
