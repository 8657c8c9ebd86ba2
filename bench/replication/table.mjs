/**
 * The rows of `npm run bench`: each program appends its own to the file BENCH_ROWS, a line of JSON
 * each.
 */
import { appendFileSync, readFileSync } from "node:fs";

const COLUMNS = ["what", "measured", "beside", "ratio", "aim"];

/**
 * Adds a row. `measured` and its reference `beside` are strings with units. `ratio` is the factor
 * of improvement, above 1 if `measured` is better; `aim` is the target for the ratio or the
 * measured value. Does nothing if the measuring program was not started by `run.mjs`.
 *
 * @param {{ what: string, measured: string, beside?: string, ratio?: number, aim?: string }} row
 */
export function report({ what, measured, beside = "", ratio, aim = "" }) {
  const { BENCH_ROWS } = process.env;
  if (BENCH_ROWS === undefined) return;
  const times = ratio === undefined ? "" : ratio.toFixed(2);
  appendFileSync(BENCH_ROWS, `${JSON.stringify([what, measured, beside, times, aim])}\n`);
}

/** Returns the rows so far, as a Markdown table with aligned columns. */
export function tableOf(path) {
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  const rows = [COLUMNS, ...lines.map((line) => JSON.parse(line))];
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const text = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  const [head, ...others] = rows.map(text);
  return [head, rule, ...others].join("\n");
}
