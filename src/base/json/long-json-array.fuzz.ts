import fc from "fast-check";
import { expect, test } from "vitest";
import { utf8Encode } from "../bytes.ts";
import { Yielder } from "../yielder.ts";
import { JsonFields } from "./json-fields.ts";
import { LongJsonArray } from "./long-json-array.ts";

/**
 * Current time of `clock`. Each reading advances it by a second, so that the code yields at every
 * check.
 */
let nowMs = 0;
const clock = { nowMs: () => 0, monotonicMs: () => (nowMs += 1_000), sleep: async () => {} };

const element = fc.oneof(
  fc.constantFrom("1", "null", "{}", "[]", '"]"', '"\\","', "[1,[2],{}]"),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.nat(9_000).map((length) => `"${"é".repeat(length)}"`),
);
/** Elements, each repeated a number of times, with optional white space. */
const list = fc
  .tuple(
    fc.array(fc.tuple(element, fc.integer({ min: 1, max: 4_000 })), { maxLength: 6 }),
    fc.constantFrom("", " ", "\n"),
  )
  .map(([runs, space]) => {
    const texts = runs.flatMap(([text, count]) =>
      Array<string>(Math.ceil(count / text.length)).fill(text),
    );
    return { texts, json: `[${space}${texts.join(`${space},${space}`)}${space}]` };
  });

test("the elements of a list equal those of JSON.parse, in any order of access", async () => {
  const asked = fc.array(fc.nat(30_000), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(list, asked, async ({ texts, json }, numbers) => {
      const elements = new LongJsonArray(utf8Encode(json), new Yielder(clock));
      for (const number of numbers) {
        const index = number % (texts.length + 2);
        expect((await elements.at(index))?.text).toBe(texts[index]);
      }
    }),
  );
});

test("a path selects members of objects by name, and elements of lists only by number", async () => {
  const rows = Array.from({ length: 20_000 }, (_, at) => ({ b: [at, { c: `${at}` }] }));
  const text = JSON.stringify({ a: rows, d: { 7: "seven" } });
  const fields = await JsonFields.open(utf8Encode(text), 1, new Yielder(clock));
  const at = async (path: string) => (await fields.at(path.split(".")))?.text;
  expect(await at("a.19999.b.1.c")).toBe('"19999"');
  expect(await at("a.7.b.0")).toBe("7");
  expect(await at("d.7")).toBe('"seven"');
  for (const path of ["a.20000", "a.b", "a.-1", "a.7.b.2", "a.7.b.0.c", "d.7.0", "e.1"]) {
    expect(await at(path)).toBeUndefined();
  }
});
