import fc from "fast-check";
import { expect, test } from "vitest";
import {
  joinObject,
  jsonKind,
  partObject,
  repeatedName,
  splitArray,
  splitObject,
} from "./json-text.ts";

/** JSON texts with white space where it may stand. */
const spaced = fc
  .tuple(fc.json(), fc.constantFrom(undefined, 1, "\t"))
  .map(([text, space]) => JSON.stringify(JSON.parse(text), null, space));

test("an object is the sum of its members, whatever is in them", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string(), spaced)), (pairs) => {
      const text = `{ ${pairs.map(([name, value]) => `${JSON.stringify(name)} : ${value}`).join(" ,\n")} }`;
      const members = splitObject(text);
      expect(members.map(({ name }) => name)).toEqual(pairs.map(([name]) => name));
      expect(members.map(({ value }) => JSON.parse(value))).toEqual(
        pairs.map(([, value]) => JSON.parse(value)),
      );
      expect(JSON.parse(joinObject(members))).toEqual(JSON.parse(text));
    }),
  );
});

test("an object without some of its members is what joining the others makes", () => {
  const name = fc.tuple(fc.constantFrom("", "_", "x"), fc.string()).map((parts) => parts.join(""));
  const space = fc.constantFrom("", "", "", " ", "\n");
  const quoted = fc
    .tuple(name, fc.boolean())
    .map(([plain, isSpelled]) =>
      isSpelled ? `"${[...plain].map(spell).join("")}"` : JSON.stringify(plain),
    );
  const member = fc.tuple(space, quoted, space, space, spaced, space).map((parts) => {
    const [before, text, behind, inside, value, after] = parts;
    return `${before}${text}${behind}:${inside}${value}${after}`;
  });
  fc.assert(
    fc.property(fc.array(member), (members) => {
      const text = `{${members.join(",")}}`;
      const all = splitObject(text);
      const others = all.filter((each) => !each.name.startsWith("_"));
      const { taken, rest } = partObject(text, "_");
      expect(taken).toEqual(all.filter((each) => each.name.startsWith("_")));
      expect(rest).toBe(taken.length === 0 ? text : joinObject(others));
    }),
  );
});

test("an array is the sum of its elements", () => {
  fc.assert(
    fc.property(fc.array(spaced), (values) => {
      const elements = splitArray(` [ ${values.join(" , ")} ] `);
      expect(elements.map((text) => JSON.parse(text))).toEqual(
        values.map((text) => JSON.parse(text)),
      );
    }),
  );
});

test("a repeated name is found, however deep it stands and however it is spelled", () => {
  fc.assert(
    fc.property(
      spaced,
      fc.string(),
      fc.array(fc.boolean(), { maxLength: 5 }),
      (value, name, nest) => {
        expect(repeatedName(value)).toBeUndefined();
        const quoted = JSON.stringify(name);
        const escaped = `"${[...name].map((char) => spell(char)).join("")}"`;
        const repeating = `{${quoted}: ${value}, ${escaped} :1}`;
        const text = nest.reduce(
          (inner, inArray) => (inArray ? `[${value},${inner}]` : `{"x" : ${value},"y":${inner}}`),
          repeating,
        );
        expect(repeatedName(text)).toBe(name);
      },
    ),
  );
  expect(repeatedName('{"a":{"a":["a",{"a":"a"}]}}')).toBeUndefined();
});

/** As JSON may spell any character. */
function spell(char: string): string {
  return [...Array(char.length).keys()]
    .map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`)
    .join("");
}

test("values come out as the text that went in", () => {
  const text =
    '{"a":12345678901234567890,"b":1.0,"c":1e2,"d":-0,"e":"\\u00e9\\"}","__proto__":{"x":[1, 2]}}';
  expect(joinObject(splitObject(text))).toBe(text);
});

test("the kind of a text is that of its value", () => {
  const kinds = ["{}", "[]", '"x"', "-1", "true", "false", " null"].map(jsonKind);
  expect(kinds).toEqual(["object", "array", "string", "number", "boolean", "boolean", "null"]);
});
