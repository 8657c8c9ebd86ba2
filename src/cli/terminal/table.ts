/** Tables and untrusted text for a terminal. */
import { largest, sum } from "../../base/index.ts";
import { columnsOf, shortened, wrapped } from "./width.ts";

/** Space between two columns. */
const GAP = 2;
/** Names and URLs are shortened to this width before another column is shortened. */
const SHORTENED_MIN = 12;
/** Minimum width of any column. */
const COLUMN_MIN = 4;
/** Minimum width of a column with wrapped text. */
const WRAPPED_MIN = 30;
/** Indentation of notes. */
export const NOTE_INDENT = 4;

/**
 * Replaces characters that control the terminal (C0, C1 and bidirectional controls) in untrusted
 * text, such as names and errors.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** Like `printable`, for several lines. */
export function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

export interface TableOptions {
  /** Width of the terminal in columns. */
  readonly columns?: number;
  /** Columns that are shortened before others, such as URLs. */
  readonly soft?: readonly number[];
  /** Columns that are never shortened, because they are copied into commands. */
  readonly whole?: readonly number[];
  /** Whether the last column is text, which is wrapped rather than shortened. */
  readonly wrapsLast?: boolean;
  /** Lines below each row, wrapped and indented. `notes[0]` belongs to the heading. */
  readonly notes?: readonly (readonly string[])[];
}

/** A table whose lines fit into the width of the terminal, unless a single word is longer. */
export function table(given: readonly (readonly string[])[], options: TableOptions = {}): string {
  const { columns = columnsOf(), notes = [] } = options;
  const rows = given.map((row) => row.map(printable));
  const widths = fittingWidths(rows, columns, options);
  const last = widths.length - 1;
  const linesOf = (row: readonly string[]): readonly string[] => {
    const texts = row.map((cell, column) =>
      options.wrapsLast === true && column === last
        ? wrapped(cell, widths[column] ?? 0)
        : [shortened(cell, widths[column] ?? 0)],
    );
    const lineCount = largest(texts.map(({ length }) => length));
    return Array.from({ length: lineCount }, (_, line) =>
      texts
        .map((lines, column) => (lines[line] ?? "").padEnd(widths[column] ?? 0))
        .join(" ".repeat(GAP)),
    );
  };
  return rows
    .flatMap((row, index) => [...linesOf(row), ...notesOf(notes[index] ?? [], columns)])
    .map((line) => `${line.trimEnd()}\n`)
    .join("");
}

function notesOf(notes: readonly string[], columns: number): readonly string[] {
  const indent = " ".repeat(NOTE_INDENT);
  return notes
    .filter((note) => note !== "")
    .flatMap((note) => wrapped(printable(note), columns - NOTE_INDENT))
    .map((line) => indent + line);
}

function fittingWidths(
  rows: readonly (readonly string[])[],
  columns: number,
  { soft = [], whole = [], wrapsLast = false }: TableOptions,
): readonly number[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, { length }] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, length);
    }
  }
  const last = widths.length - 1;
  const all = [...widths.keys()].filter((column) => !whole.includes(column));
  // Limits columns to the width of the terminal, because names from a server can be very long.
  for (const column of all) widths[column] = Math.min(widths[column] ?? 0, columns);
  if (wrapsLast) shrink(widths, [last], WRAPPED_MIN, columns);
  shrink(widths, soft, SHORTENED_MIN, columns);
  const narrowed = all.filter((column) => !(wrapsLast && column === last));
  shrink(widths, narrowed, COLUMN_MIN, columns);
  return widths;
}

/** Reduces the widest of the columns until the table fits or all have the minimum width. */
function shrink(
  widths: number[],
  columns: readonly number[],
  widthMin: number,
  widthMax: number,
): void {
  let excess = sum(widths) + GAP * (widths.length - 1) - widthMax;
  for (; excess > 0; excess--) {
    const widest = largest(columns.map((column) => widths[column] ?? 0));
    if (widest <= widthMin) return;
    const column = columns.findLast((each) => widths[each] === widest) as number;
    widths[column] = widest - 1;
  }
}
