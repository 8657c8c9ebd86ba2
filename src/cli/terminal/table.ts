/**
 * Removes characters that control the terminal (C0, C1 and bidirectional controls) from foreign
 * text, such as names and errors.
 */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, "\ufffd");
}

/** Like `printable`, for several lines. */
export function printableLines(text: string): string {
  return text.split("\n").map(printable).join("\n");
}

/** A table for a terminal, with columns as wide as their longest cell. */
export function table(given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(printable));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
  }
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
  return rows.map((row) => `${line(row).trimEnd()}\n`).join("");
}
