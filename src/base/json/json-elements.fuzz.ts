import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, utf8Encode } from "../bytes.ts";
import { JsonElements } from "./json-elements.ts";
import { splitArray } from "./json-text.ts";

const space = fc.constantFrom(undefined, 1, "\t");
const name = fc.oneof(fc.constantFrom("results", 'a"results', "last_seq"), fc.string());

/** Members of the object besides the array `results`. */
const others = fc
  .array(fc.tuple(name, fc.jsonValue()), { maxLength: 3 })
  .map((pairs) => pairs.filter(([key]) => key !== "results" && key !== "__proto__"));

const answer = fc
  .tuple(others, fc.array(fc.jsonValue()), others, space)
  .map(([before, results, behind, indent]) => {
    const members = Object.fromEntries([...before, ["results", results], ...behind]);
    return { text: JSON.stringify(members, null, indent), results: members.results, members };
  });

/** Cuts the bytes at random offsets, also within characters. */
function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...places.map((place) => place % (bytes.length + 1)), bytes.length].sort(
    (left, right) => left - right,
  );
  return ends.map((end, index) => bytes.subarray(index === 0 ? 0 : ends[index - 1], end));
}

test("elements and the text around them are returned unchanged, however the text is split", () => {
  fc.assert(
    fc.property(answer, fc.array(fc.nat()), ({ text, results, members }, places) => {
      const elements = new JsonElements({ name: "results", elementBytesMax: 1_000_000 });
      const found: string[] = [];
      for (const piece of cut(utf8Encode(text), places)) {
        const whole = elements.push(piece);
        if (whole !== undefined) found.push(...splitArray(new TextDecoder().decode(whole)));
      }
      expect(found.map((element) => JSON.parse(element))).toEqual(
        JSON.parse(JSON.stringify(results)),
      );
      expect(JSON.parse(elements.rest)).toEqual(
        JSON.parse(JSON.stringify({ ...members, results: [] })),
      );
    }),
    { numRuns: 500 },
  );
});

test("an element is returned as soon as it is complete, before the end of the array", () => {
  const elements = new JsonElements({ name: "results", elementBytesMax: 100 });
  const push = (text: string): string | undefined => {
    const whole = elements.push(utf8Encode(text));
    return whole && new TextDecoder().decode(whole);
  };
  expect(push('{"results" : [\n{"id":"a, b]"},\n')).toBe('[\n{"id":"a, b]"}]');
  expect(push("\n\n\n")).toBeUndefined();
  expect(push('{"id":"c')).toBeUndefined();
  expect(push('\\"]"},{"id":1}')).toBe('[\n\n\n\n{"id":"c\\"]"}]');
  expect(push("\n],")).toBe('[{"id":1}\n]');
  expect(push('"last_seq":"7 [,]"}')).toBeUndefined();
  expect(elements.rest).toBe('{"results" : [],"last_seq":"7 [,]"}');
});

test("any text can precede the array, and invalid UTF-8 is refused", () => {
  for (let length = 0; length < 200; length++) {
    const elements = new JsonElements({ name: "results", elementBytesMax: 100 });
    const before = "é€😀".repeat(length);
    elements.push(utf8Encode(`{"before":"${before}","results":[1]}`));
    expect(JSON.parse(elements.rest)).toEqual({ before, results: [] });
  }
  const elements = new JsonElements({ name: "results", elementBytesMax: 100 });
  elements.push(concatBytes([utf8Encode('{"results":[],"last_seq":"'), Uint8Array.of(0xc3, 0x28)]));
  expect(() => elements.rest).toThrow(SyntaxError);
});

test("input that is too long is refused, even in small pieces", () => {
  const piece = utf8Encode('"aaaaaaaaaaaaaaaaaaaaaaaa');
  const elements = new JsonElements({ name: "results", elementBytesMax: 100 });
  elements.push(utf8Encode('{"results":['));
  expect(() => {
    for (let count = 0; count < 10; count++) elements.push(piece);
  }).toThrow("A value in the JSON has more than");
  const rest = new JsonElements({ name: "results", elementBytesMax: 100 });
  rest.push(utf8Encode('{"other":"'));
  const long = concatBytes(Array.from({ length: 5000 }, () => piece.subarray(1)));
  expect(() => {
    for (let count = 0; count < 20; count++) rest.push(long);
  }).toThrow("A value in the JSON has more than");
});
