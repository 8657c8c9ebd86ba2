import { expect, test } from "vitest";
import { utf8Encode } from "../../base/index.ts";
import { LateTexts } from "./late-texts.ts";

function textOf(texts: LateTexts, id: number): string {
  let text = "";
  for (let index = 0; ; index++) {
    const piece = texts.piece(id, index);
    if (piece === undefined) return text;
    text += piece;
  }
}

test("a long value is first sent without its long members", () => {
  const long = JSON.stringify("\u20ac".repeat(50_000));
  const texts = new LateTexts();
  const [id, ...late] = texts.add(
    utf8Encode(`{"a":1, "long": ${long} ,"b":[],"longer":[${long}]}`),
  );
  expect(textOf(texts, id)).toBe('{"a":1, "long": null ,"b":[],"longer":null}');
  expect(late.map(([name, lateId, isPlain]) => [name, textOf(texts, lateId), isPlain])).toEqual([
    ["long", JSON.parse(long), true],
    ["longer", `[${long}]`, false],
  ]);
});

test("a string member with escapes is sent as JSON", () => {
  const texts = new LateTexts();
  const long = JSON.stringify(`${"x".repeat(70_000)}\n`);
  const [, late] = texts.add(utf8Encode(`{"a":${long}}`));
  expect(late).toEqual(["a", 1, false]);
  expect(textOf(texts, 1)).toBe(long);
});

test("a value that is short or has no long members is sent completely", () => {
  const texts = new LateTexts();
  for (const text of ['{"a":1}', "null", JSON.stringify(Array(30_000).fill("abc"))]) {
    const [id, ...late] = texts.add(utf8Encode(text));
    expect(textOf(texts, id)).toBe(text);
    expect(late).toEqual([]);
  }
});

test("values added since a mark are dropped, and their ids are not reused", () => {
  const texts = new LateTexts();
  const [kept] = texts.add(utf8Encode("1"));
  const { mark } = texts;
  const [forgotten] = texts.add(utf8Encode("2"));
  texts.forgetSince(mark);
  const [next] = texts.add(utf8Encode("3"));
  expect([kept, forgotten, next].map((id) => textOf(texts, id))).toEqual(["1", "", "3"]);
});
