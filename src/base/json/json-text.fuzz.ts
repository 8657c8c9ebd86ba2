import fc from "fast-check";
import { expect, test } from "vitest";
import { concatBytes, utf8Decode, utf8Encode } from "../bytes.ts";
import { Yielder } from "../yielder.ts";
import {
  type ScannedJson,
  type ScanOptions,
  type ScanPause,
  scanJson,
  scanUntil,
} from "./json-scan.ts";
import {
  type JsonValue,
  joinObject,
  jsonKind,
  type NamedValue,
  outlineJson,
  outlineJsonYielding,
  splitArray,
  splitObject,
} from "./json-text.ts";

/** JSON texts with optional white space. */
const spaced = fc
  .tuple(fc.json(), fc.constantFrom(undefined, 1, "\t"))
  .map(([text, space]) => JSON.stringify(JSON.parse(text), null, space));

/** Member names, some with an initial underscore as in CouchDB's protocol. */
const name = fc.tuple(fc.constantFrom("", "_", "x"), fc.string()).map((parts) => parts.join(""));

/** Strings, some with escaped characters. */
const quoted = fc
  .tuple(name, fc.boolean())
  .map(([plain, isSpelled]) =>
    isSpelled ? `"${[...plain].map(spell).join("")}"` : JSON.stringify(plain),
  );

test("an object is split into its members in order, and joined again", () => {
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

test("removing members of an object gives the same text as joining the others", () => {
  const space = fc.constantFrom("", "", "", " ", "\n");
  const member = fc.tuple(space, quoted, space, space, spaced, space).map((parts) => {
    const [before, text, behind, inside, value, after] = parts;
    return `${before}${text}${behind}:${inside}${value}${after}`;
  });
  fc.assert(
    fc.property(fc.array(member), (members) => {
      const text = `{${members.join(",")}}`;
      const all = splitObject(text);
      const others = all.filter((each) => !each.name.startsWith("_"));
      const taken: NamedValue[] = [];
      const rest = outlineJson(text, { depthMax: 1 }).part("_", (name, value) => {
        taken.push({ name, value });
      });
      const takenTexts = taken.map(({ name, value }) => ({ name, value: value.text }));
      expect(takenTexts).toEqual(all.filter((each) => each.name.startsWith("_")));
      expect(utf8Decode(rest)).toBe(taken.length === 0 ? text : joinObject(others));
    }),
  );
});

test("accepts exactly the strings that JSON.parse accepts, with the same value", () => {
  fc.assert(
    fc.property(fc.oneof(quoted, spaced), (text) => {
      const parsed: unknown = JSON.parse(text);
      expect(outlineJson(text).string).toBe(typeof parsed === "string" ? parsed : undefined);
    }),
  );
});

test("an array is split into its elements in order", () => {
  fc.assert(
    fc.property(fc.array(spaced), (values) => {
      const elements = splitArray(` [ ${values.join(" , ")} ] `);
      expect(elements.map((text) => JSON.parse(text))).toEqual(
        values.map((text) => JSON.parse(text)),
      );
    }),
  );
});

test("a duplicate name is found at any depth and in any spelling", () => {
  fc.assert(
    fc.property(
      spaced,
      fc.string(),
      fc.array(fc.boolean(), { maxLength: 5 }),
      fc.nat({ max: 20 }),
      (value, name, nest, otherCount) => {
        expect(repeatedIn(value)).toBeUndefined();
        const quoted = JSON.stringify(name);
        const escaped = `"${[...name].map((char) => spell(char)).join("")}"`;
        const others = Array.from({ length: otherCount }, (_, index) => {
          return `${JSON.stringify(`${name}${index}x`)}:0,`;
        }).join("");
        expect(repeatedIn(`{${others}${quoted}:1}`)).toBeUndefined();
        const repeating = `{${quoted}: ${value},${others} ${escaped} :1}`;
        const text = nest.reduce(
          (inner, inArray) => (inArray ? `[${value},${inner}]` : `{"x" : ${value},"y":${inner}}`),
          repeating,
        );
        expect(repeatedIn(text)).toBe(name);
        expect(repeatedIn(text, 0)).toBe(name);
      },
    ),
  );
  expect(repeatedIn('{"a":{"a":["a",{"a":"a"}]}}')).toBeUndefined();
});

test("reports the duplicate name in the object that starts earliest", () => {
  const inner = '{"b":1,"b":2}';
  for (const depthMax of [0, 1, 9]) {
    expect(repeatedIn(`{"a":${inner},"a":1}`, depthMax)).toBe("a");
    expect(repeatedIn(`[{"a":${inner},"c":1},{"c":1,"c":2}]`, depthMax)).toBe("b");
    expect(repeatedIn(`[[${inner}],{"c":1,"c":2}]`, depthMax)).toBe("b");
    expect(repeatedIn('{"a":1,"b":2,"b":3,"a":4}', depthMax)).toBe("b");
  }
});

function repeatedIn(text: string, depthMax = Number.POSITIVE_INFINITY): string | undefined {
  return outlineJson(text, { depthMax, findsRepeats: true }).repeatedName;
}

test("values below the requested depth take no memory", () => {
  const options = { findsRepeats: true, nestingMax: 9, valueCountMax: 1_000_000 };
  const roomOf = (text: string): number =>
    scanJson(utf8Encode(text), { ...options, depthMax: 1, isPortable: true }).rows.length;
  const object = '{"a":1,"b":[{"c":{"d":1}}]}';
  const few = `{"list":[${Array(100).fill(object).join(",")}]}`;
  const many = `{"list":[${Array(10_000).fill(object).join(",")}]}`;
  // The scanner initially allocates one row per 64 bytes of input.
  expect(roomOf(few)).toBeLessThan(few.length / 10);
  expect(roomOf(many)).toBeLessThan(many.length / 10);
});

test("duplicate names are found among many names, checked in steps", async () => {
  let gaveCount = 0;
  const clock = {
    nowMs: () => 0,
    // Makes the code yield at every opportunity.
    monotonicMs: () => 1000 * gaveCount++,
    sleep: async () => {},
  };
  const members = Array.from({ length: 25_000 }, (_, index) => `"n${index}":{"a":${index}}`);
  for (const depthMax of [0, 9]) {
    const repeatedAmong = async (texts: readonly string[]) => {
      const bytes = utf8Encode(`[1,{${texts.join(",")}}]`);
      const options = { depthMax, findsRepeats: true };
      return (await outlineJsonYielding(bytes, options, new Yielder(clock))).repeatedName;
    };
    gaveCount = 0;
    expect(await repeatedAmong(members)).toBeUndefined();
    expect(gaveCount).toBeGreaterThan(25);
    expect(await repeatedAmong([...members, '"n7":0'])).toBe("n7");
    expect(await repeatedAmong([...members, '"x":{"b":1,"b":2}'])).toBe("b");
  }
});

test("names chosen to collide in a hash table are still checked", async () => {
  // The table's hash function, FNV-1a. The table uses its low bits.
  const hashOf = (text: string) => {
    let hash = 0x811c9dc5;
    for (const char of text) hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193);
    return hash ^ (hash >>> 15);
  };
  const meeting: string[] = [];
  for (let number = 0; meeting.length < 500; number++) {
    if ((hashOf(`n${number}`) & 0x3ff) === 7) meeting.push(`n${number}`);
  }
  const repeatedAmong = (names: readonly string[]) =>
    repeatedIn(`{${names.map((name) => `${JSON.stringify(name)}:0`).join(",")}}`);
  expect(repeatedAmong(meeting)).toBeUndefined();
  expect(repeatedAmong([...meeting, "other"])).toBeUndefined();
  expect(repeatedAmong([...meeting, meeting[3] as string])).toBe(meeting[3]);
});

/** Writes every character as a `\u` escape. */
function spell(char: string): string {
  return [...Array(char.length).keys()]
    .map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`)
    .join("");
}

/** JSON with a character removed, inserted or replaced. */
const damaged = fc
  .tuple(
    spaced,
    fc.nat(),
    fc.constantFrom(0, 1),
    fc.constantFrom("", ...'"\\{}[]:,0-+.eEu\u0001\n ftn/\ud83d\ud800'),
  )
  .map(([text, place, lost, added]) => {
    const at = place % (text.length + 1);
    return text.slice(0, at) + added + text.slice(at + lost);
  });

test("accepts the texts that JSON.parse accepts", () => {
  const letter = fc.constantFrom(...'-+0123.eE"\\u/bfnrtdD8cC \u0000\u001f\t\u007f');
  const numberOrString = fc.array(letter, { maxLength: 12 }).map((letters) => letters.join(""));
  fc.assert(
    fc.property(fc.oneof(damaged, numberOrString, spaced, fc.string()), (text) => {
      expect(isTaken(() => outlineJson(text, { depthMax: 0 }))).toBe(
        isTaken(() => JSON.parse(text)),
      );
    }),
    { numRuns: 5_000 },
  );
});

test("a text read in pieces has the same values, wherever it is split", () => {
  const options: ScanOptions = {
    depthMax: 1,
    findsRepeats: true,
    nestingMax: 50,
    valueCountMax: 50,
    isPortable: true,
  };
  fc.assert(
    fc.property(fc.oneof(damaged, spaced, quoted), fc.integer({ min: 1, max: 9 }), (text, step) => {
      const bytes = utf8Encode(text);
      expect(outcome(() => scanInPieces(bytes, options, step))).toEqual(
        outcome(() => scanJson(bytes, options)),
      );
    }),
    { numRuns: 2_000 },
  );
});

test("a piece can end inside a long string", () => {
  const bytes = utf8Encode(`["${"x".repeat(1_000)}"]`);
  const options = { depthMax: 1, findsRepeats: false, nestingMax: 1, valueCountMax: 2 };
  const pause = scanUntil(bytes, { ...options, isPortable: true }, 500) as ScanPause;
  expect(pause.at).toBe(500);
});

function scanInPieces(bytes: Uint8Array, options: ScanOptions, step: number): ScannedJson {
  let scanned = scanUntil(bytes, options, step);
  while (!scanned.isWhole) {
    scanned = scanUntil(bytes, options, scanned.at + step, scanned);
  }
  return scanned;
}

/** The result, or the message of the error thrown. */
function outcome(scan: () => ScannedJson): unknown {
  try {
    return scan();
  } catch (error) {
    return String(error);
  }
}

test("an unpaired surrogate escape is refused only on request", () => {
  const unit = fc.constantFrom("d800", "DBFF", "dc00", "DfFf", "0041", "d7ff", "e000");
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 5 }), (units) => {
      const text = `"${units.map((hex) => `\\u${hex}`).join("")}"`;
      const isWhole = !/\p{Surrogate}/u.test(JSON.parse(text));
      expect(isTaken(() => outlineJson(text, { isPortable: true }))).toBe(isWhole);
      expect(isTaken(() => outlineJson(text))).toBe(true);
    }),
  );
});

test("a number beyond the range of a double is refused only on request", () => {
  const number = fc.record({
    sign: fc.constantFrom("", "-"),
    zeros: fc.integer({ min: 0, max: 320 }),
    fraction: fc.constantFrom("", ".5"),
    exponent: fc.constantFrom("", "e0", "E+5", "e307", "e308", "e400", "e-400", "e0005"),
  });
  fc.assert(
    fc.property(number, ({ sign, zeros, fraction, exponent }) => {
      const text = `${sign}1${"0".repeat(zeros)}${fraction}${exponent}`;
      const isTakenByAll = Number.isFinite(Number(text));
      expect(isTaken(() => outlineJson(`[${text}]`, { isPortable: true }))).toBe(isTakenByAll);
      expect(isTaken(() => outlineJson(`[${text}]`))).toBe(true);
    }),
  );
});

test("values are extracted down to the requested depth", () => {
  fc.assert(
    fc.property(spaced, (text) => {
      const cut = (value: JsonValue): unknown => {
        if (value.isArray) return value.elements().map(cut);
        if (!value.isObject) return JSON.parse(value.text);
        const entries = value.values().map((each) => [each.name, cut(each.value)]);
        return Object.fromEntries(entries);
      };
      expect(cut(outlineJson(text))).toEqual(JSON.parse(text));
    }),
  );
});

function decodedOr(bytes: Uint8Array, otherwise: string): string {
  try {
    return utf8Decode(bytes);
  } catch {
    return otherwise;
  }
}

function isTaken(parse: () => unknown): boolean {
  try {
    parse();
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(SyntaxError);
    return false;
  }
}

test("values are returned as in the input text", () => {
  const text =
    '{"a":12345678901234567890,"b":1.0,"c":1e2,"d":-0,"e":"\\u00e9\\"}","__proto__":{"x":[1, 2]}}';
  expect(joinObject(splitObject(text))).toBe(text);
});

test("the kind of a text is the kind of its value", () => {
  const kinds = ["{}", "[]", '"x"', "-1", "true", "false", " null"].map(jsonKind);
  expect(kinds).toEqual(["object", "array", "string", "number", "boolean", "boolean", "null"]);
});

test("finds special characters at any position of a long string", () => {
  const special = fc.constantFrom(
    ...['"', "\\", "\\n", "\\u00e9", "\u0000", "\u001f", "\u007f", "\u0080", "é", "€", "😀"],
  );
  fc.assert(
    fc.property(
      fc.nat({ max: 7 }),
      fc.nat({ max: 700 }),
      special,
      fc.nat({ max: 700 }),
      (spaces, before, middle, behind) => {
        const inside = `${"a~".repeat(before)}${middle}${" Z".repeat(behind)}`;
        const text = `${" ".repeat(spaces)}["${inside}"]`;
        // A subarray, so that the text is not aligned to words.
        const bytes = utf8Encode(`123${text}`).subarray(3);
        const isJson = isTaken(() => JSON.parse(text));
        expect(isTaken(() => outlineJson(bytes))).toBe(isJson);
        if (isJson) expect(outlineJson(bytes).element(0)?.string).toBe(JSON.parse(text)[0]);
      },
    ),
    { numRuns: 3_000 },
  );
});

test("bytes are JSON if they are UTF-8 and contain JSON", () => {
  // Bytes at the limits of the ranges that UTF-8 defines for characters of one to four bytes.
  const byte = fc.constantFrom(
    ...[0x00, 0x1f, 0x20, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf],
    ...[0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff],
  );
  const character = fc.string({ unit: "binary", minLength: 1, maxLength: 1 }).map(utf8Encode);
  const piece = fc.oneof(
    byte.map((value) => Uint8Array.of(value)),
    character,
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 5 }), (pieces) => {
      const bytes = concatBytes([utf8Encode('["'), ...pieces, utf8Encode('"]')]);
      const text = decodedOr(bytes, "none");
      expect(isTaken(() => outlineJson(bytes))).toBe(isTaken(() => JSON.parse(text)));
    }),
    { numRuns: 5_000 },
  );
});
