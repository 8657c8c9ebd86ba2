import { expect, test } from "vitest";
import { SecretsInUse } from "./secrets-in-use.ts";

const SECRET = "s3cr3t pä/ss+word&";
const ENCODINGS: Readonly<Record<string, (text: string) => string>> = {
  "as it is": (text) => text,
  "in upper case": (text) => text.toUpperCase(),
  "percent-encoded": encodeURIComponent,
  "percent-encoded, all of it": (text) =>
    Buffer.from(text)
      .toString("hex")
      .replace(/../g, (byte) => `%${byte.toUpperCase()}`),
  "as a form": (text) => new URLSearchParams({ a: text }).toString(),
  "in base64": (text) => Buffer.from(text).toString("base64"),
  "in base64 behind one character": (text) => Buffer.from(`x${text}`).toString("base64"),
  "in base64 behind a user name": (text) => Buffer.from(`jan:${text}`).toString("base64"),
  "in base64url": (text) => Buffer.from(text).toString("base64url"),
  "in hexadecimal digits": (text) => Buffer.from(text).toString("hex"),
  "in digits behind an odd one": (text) => `0${Buffer.from(text).toString("hex")}`,
  "as a JSON string": (text) => JSON.stringify(text),
  "in JSON escapes": (text) =>
    [...text].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  "in HTML": (text) => text.replaceAll("&", "&amp;"),
  "in entities": (text) => [...text].map((char) => `&#${char.charCodeAt(0)};`).join(""),
  "in hexadecimal entities": (text) =>
    [...text].map((char) => `&#x${char.charCodeAt(0).toString(16)};`).join(""),
  "with zero bytes": (text) => [...text].join("\0"),
  decomposed: (text) => text.normalize("NFD"),
  "as Latin-1": (text) => Buffer.from(text).toString("latin1"),
};

const cases = Object.entries(ENCODINGS);
/**
 * Nested encodings. Conversion to upper case is never the outer encoding, because it destroys most
 * encodings.
 */
const pairs = cases
  .filter(([name]) => name !== "in upper case")
  .flatMap(([outer, encode]) =>
    cases.map(
      ([inner, first]) =>
        [`${inner}, then ${outer}`, (text: string) => encode(first(text))] as const,
    ),
  );

function secrets(...added: string[]): SecretsInUse {
  const known = new SecretsInUse();
  for (const secret of added) known.add(secret);
  return known;
}

test.each([...cases, ...pairs])("hides a secret that a server repeats %s", (_, encode) => {
  const text = `no access for ${encode(SECRET)}, sorry`;
  const redacted = secrets(SECRET).redact(text);
  expect(redacted).not.toContain(encode(SECRET));
  expect(redacted).toMatch(/^no access for .*\*{5}.*, sorry$|^\(withheld/su);
});

test.each([[], ["other-secret"]])(
  "hides the passwords of URLs if the known secrets are %j",
  (...known) => {
    const text = "no route to http://proxy:of-others@b.example:80/a nor https://jan@c.example/";
    const shown = "no route to http://proxy:*****@b.example:80/a nor https://jan@c.example/";
    expect(secrets(...known).redact(text)).toBe(shown);
  },
);

test("text without secrets is unchanged", () => {
  const text = "Name or password is incorrect: https://a.example/db?x=%20 \\u00e9 &amp; dGV4dA==";
  expect(secrets(SECRET, "hunter2!").redact(text)).toBe(text);
});

test("a secret of a few characters is hidden only as a word", () => {
  expect(secrets("abc").redact("abc is not abcd, nor xabc: abc")).toBe(
    "***** is not abcd, nor xabc: *****",
  );
});

test("if several secrets match, the longest one is hidden", () => {
  expect(secrets("pass", "password").redact("password, pass")).toBe("*****, *****");
});

test("the beginning of a secret is hidden at the end of truncated text", () => {
  const text = `${"x".repeat(1_990)} ${SECRET}`;
  expect(secrets(SECRET).redact(text)).not.toContain(SECRET.slice(0, 4));
});

test("text is truncated after secrets are hidden", () => {
  expect(secrets(SECRET).redact(`${"x".repeat(8)}${SECRET}`, 10)).toBe(`${"x".repeat(8)}**…`);
});

test("the least recently used secrets are dropped", () => {
  const known = secrets("first-secret", "second-secret");
  for (let count = 0; count < 10_000; count++) {
    known.add(`other-${count}`);
    known.add("second-secret");
  }
  expect(known.redact("first-secret second-secret")).toBe("first-secret *****");
});

test("hostile input is searched in a bounded number of steps", () => {
  const known = secrets(SECRET);
  const nested = "%25".repeat(2_000) + "&amp;".repeat(2_000) + "\\u005c".repeat(2_000);
  expect(known.redact(nested).length).toBeLessThanOrEqual(2_001);
});

test.each([
  ["Zx9-password", true],
  ["12-Zx9-PASSWORD", true],
  [[1, { at: "Zx9-password" }], true],
  [btoa("12-Zx9-password"), true],
  ["12-g1AAAACLeJzLYWBgYMpgTmHgzcvPy09JdcjLz8gvLskBCScyJNX___8_K4M5kTEXKMBuZJpmmGpg", false],
  ["12-short", false],
  [12_345_678, false],
  [undefined, false],
  [null, false],
])("isRepeatedIn reports whether a value contains a secret: %j, %s", (value, isRepeated) => {
  const secrets = new SecretsInUse();
  for (const secret of ["Zx9-password", "short", "1", "12345678"]) secrets.add(secret);
  expect(secrets.isRepeatedIn(value)).toBe(isRepeated);
});
