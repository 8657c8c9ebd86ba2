import { expect, test } from "vitest";
import { Progress, type ProgressFigures } from "./progress.ts";

const FIGURES: ProgressFigures = { byteCount: 123_456_789, failureCount: 12 };

/** Output drawn on a terminal, without the sequences that clear its line. */
function drawn(columns: number | undefined, work: (progress: Progress) => void): string {
  let text = "";
  const output = {
    isTTY: true,
    columns,
    write: (piece: string) => {
      text += piece;
    },
  };
  work(new Progress("copying to foundationdb", output as unknown as NodeJS.WriteStream));
  return text.replaceAll("\r\u001b[2K", "");
}

test.each([
  [200, 30],
  [121, 30],
  [120, 30],
  [80, 10],
  [undefined, 10],
  [60, 10],
  [40, 0],
  [10, 0],
  [1, 0],
])("a line fits into %s columns, with a bar of %i", (columns, barWidth) => {
  const line = drawn(columns, (progress) => progress.show(1_234_567, 12_345_678, FIGURES));
  expect(line.length).toBeLessThan(columns ?? 80);
  expect(line.replaceAll(/[^█░]/g, "")).toHaveLength(barWidth);
  const last = drawn(columns, (progress) => progress.end(1_234_567, 1_234_567, FIGURES));
  expect(last.trimEnd().length).toBeLessThan(columns ?? 80);
});

test.each<[number, number | undefined, number]>([
  [0, undefined, 0],
  [500, undefined, 0],
  [0, 1000, 0],
  [500, 1000, 15],
  [1000, 1000, 30],
  [1200, 1000, 30],
])("for %i of %s documents, %i of 30 cells are filled", (done, total, filled) => {
  const line = drawn(200, (progress) => progress.show(done, total));
  expect(line.replaceAll(/[^█]/g, "")).toHaveLength(filled);
  expect(line).not.toContain("failed");
  expect(line.includes("pending")).toBe(total !== undefined && total > done);
});
