/** The rows of `npm run bench`: each program adds its own to the file that BENCH_ROWS names, a line of JSON each. */
import { appendFileSync, readFileSync } from "node:fs";

const COLUMNS = ["what", "measured", "beside", "ratio", "aim"];

/**
 * `measured`, and what it is compared with, have their units. `ratio`: how many times better, more than one; `aim`: of what the ratio
 * shall be, or what is measured. Does nothing where a program runs by itself.
 */
export function report({ what, measured, beside = "", ratio, aim = "" }) {
  const { BENCH_ROWS } = process.env;
  if (BENCH_ROWS === undefined) return;
  const times = ratio === undefined ? "" : ratio.toFixed(2);
  appendFileSync(BENCH_ROWS, `${JSON.stringify([what, measured, beside, times, aim])}\n`);
}

/** The rows so far, as a table of Markdown whose columns are as wide as their widest text. */
export function tableOf(path) {
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  const rows = [COLUMNS, ...lines.map((line) => JSON.parse(line))];
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const text = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  const [head, ...others] = rows.map(text);
  return [head, rule, ...others].join("\n");
}
