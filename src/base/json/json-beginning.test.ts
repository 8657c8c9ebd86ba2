import { expect, test } from "vitest";
import { utf8Encode } from "../bytes.ts";
import { parseBeginning } from "./json-beginning.ts";

const beginning = (text: string, valueCount: number) =>
  parseBeginning(utf8Encode(text), valueCount);

test.each([["1"], ['"é, ["'], ["{}"], ["[]"], ['{"a":[1,{"b":null}],"c":[[]]}'], [" [ 1 , 2 ] "]])(
  "returns the complete value of a short text: %s",
  (text) => {
    expect(beginning(text, 1)).toEqual(JSON.parse(text));
  },
);

const many = (text: (at: number) => string) => Array.from({ length: 9_000 }, (_, at) => text(at));

test.each([
  ["numbers", `[${many(String)}]`],
  ["with space", `[ ${many((at) => ` ${at} ,\n`).join("")} 1 ]`],
  ["strings", `[${many((at) => `"é ] } \\\\\\" , ${at}"`)}]`],
  ["long strings", `[${many((at) => `"${"x".repeat(at % 9_000)}"`)}]`],
  ["objects", `{${many((at) => `"${at}":{"a":[${at}],"b":{}}`)}}`],
  ["objects in arrays", `{"a":[[${many((at) => `{"b":[[${at},null]],"c":"d"}`)}]],"e":1}`],
])("contains the requested number of values, and few more: %s", (_, text) => {
  const all = preorder(JSON.parse(text));
  for (const valueCount of [1, 10, 700, 2_000]) {
    const found = preorder(beginning(text, valueCount));
    expect(found.length).toBeGreaterThanOrEqual(valueCount);
    expect(found.length).toBeLessThan(valueCount + 4_096);
    expect(found).toEqual(all.slice(0, found.length));
  }
});

/** Flattens a value in text order: scalars, and an opening bracket for each array or object. */
function preorder(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [value];
  if (Array.isArray(value)) return ["[", ...value.flatMap(preorder)];
  return [
    "{",
    ...Object.entries(value).flatMap(([name, inner]) => {
      const [first, ...rest] = preorder(inner);
      return [`${name}: ${first}`, ...rest];
    }),
  ];
}
