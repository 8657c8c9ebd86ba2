import { expect, test } from "vitest";
import { parseTagFilter, parseTags, splitTerm, tagTerms } from "./tags.ts";

function reasonOf(given: unknown): string {
  try {
    parseTags(given);
  } catch (error) {
    return (error as { readonly reason: string }).reason;
  }
  throw new Error("The tags are accepted");
}

test("tags are sorted by name, so that equal tags are stored equally", () => {
  const tags = parseTags({ team: "billing", env: "prod: blue" });
  expect(JSON.stringify(tags)).toBe('{"env":"prod: blue","team":"billing"}');
  expect(tagTerms(tags)).toEqual(["env:prod: blue", "team:billing"]);
  expect(tagTerms(tags).map(splitTerm)).toEqual(Object.entries(tags ?? {}));
});

test.each([undefined, null, {}])("%j yields no tags", (given) => {
  expect(parseTags(given)).toBe(undefined);
});

test.each([
  [["a"], '`tags` must be an object such as {"team": "billing"}, but is ["a"]'],
  [
    Object.fromEntries(Array.from({ length: 17 }, (_, n) => [`t${n}`, "x"])),
    "at most 16 names, but has 17",
  ],
  [{ Team: "x" }, "`tags.Team` must have a name of 1 to 64 characters of a-z, 0-9, _ and -"],
  [JSON.parse('{"__proto__": "x"}'), "`tags.__proto__` must have a name"],
  [{ ["a".repeat(65)]: "x" }, "must have a name of 1 to 64 characters"],
  [
    { team: 7 },
    "`tags.team` must be a string of 1 to 128 printable characters without commas, but is 7",
  ],
  [
    { team: "" },
    '`tags.team` must be a string of 1 to 128 printable characters without commas, but is ""',
  ],
  [{ team: "a,b" }, "without commas"],
  [{ team: "a\nb" }, "printable"],
  [{ team: "\ud800" }, "printable"],
  [{ team: "a".repeat(129) }, "1 to 128"],
])("%j is rejected with the field, its value and the accepted values", (given, reason) => {
  expect(reasonOf(given)).toContain(reason);
});

test("parses the terms of a filter, and removes duplicates", () => {
  expect(parseTagFilter("team:a:b, env,team:a:b")).toEqual(["team:a:b", "env"]);
  for (const text of ["", "team,", "Team", ":x", "team:", "a\u0000"]) {
    expect(parseTagFilter(text)).toBe(undefined);
  }
});
