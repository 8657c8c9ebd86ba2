import fc from "fast-check";
import { expect, test } from "vitest";
import { table } from "./table.ts";
import { columnsOf, shortened, wrapped } from "./width.ts";

const linesOf = (text: string): readonly string[] => text.trimEnd().split("\n");

test("a table that fits is as wide as its longest cells", () => {
  expect(
    table(
      [
        ["A", "B"],
        ["long", "x"],
      ],
      { columns: 80 },
    ),
  ).toBe("A     B\nlong  x\n");
});

test("shortened text keeps its end, which distinguishes names", () => {
  expect(shortened("users/userdb-00001", 12)).toBe("use…db-00001");
  expect(shortened("short", 12)).toBe("short");
});

test("every table of short words fits into the width", () => {
  const word = fc.stringMatching(/^[a-z]{0,25}$/);
  const text = fc.array(word, { maxLength: 20 }).map((words) => words.join(" "));
  const row = fc.tuple(word, text, word, text);
  fc.assert(
    fc.property(
      fc.array(row, { minLength: 1 }),
      fc.integer({ min: 70, max: 200 }),
      (rows, columns) => {
        const notes = rows.map(([, note]) => [note]);
        const printed = table(rows, { columns, soft: [1], wrapsLast: true, notes });
        for (const line of printed.split("\n")) expect(line.length).toBeLessThanOrEqual(columns);
        // Checks that wrapping loses no text.
        for (const [, note, , last] of rows) {
          for (const each of [...note.split(" "), ...last.split(" ")])
            expect(printed).toContain(each);
        }
      },
    ),
  );
});

test("columns in `soft` are shortened first, and columns in `whole` are never shortened", () => {
  const [line = ""] = linesOf(
    table([["n".repeat(30), "u".repeat(30), "i".repeat(30)]], {
      columns: 80,
      soft: [1],
      whole: [2],
    }),
  );
  expect(line).toHaveLength(80);
  expect(line).toContain("n".repeat(30));
  expect(line).toMatch(/ {2}i{30}$/);
});

test.each([
  [{ isTTY: true, columns: 100 }, "60", 100],
  [{ isTTY: true, columns: 0 }, "60", 80],
  [{ isTTY: false, columns: 0 }, "60", 60],
  [{ isTTY: false, columns: 0 }, undefined, 10_000],
  [{ isTTY: false, columns: 0 }, "0", 10_000],
  [{ isTTY: false, columns: 0 }, "wide", 10_000],
])("the width of %j with COLUMNS=%s is %i", (output, given, columns) => {
  expect(columnsOf(output, given)).toBe(columns);
  const url = `http://couch.example/${"a".repeat(200)}`;
  const printed = table([["JOB", url, url]], { columns, soft: [1, 2] });
  expect(printed.includes(url)).toBe(columns === 10_000);
});

test("a word longer than a line is not broken", () => {
  expect(wrapped("see http://a.example/b now", 5)).toEqual(["see", "http://a.example/b", "now"]);
});
