import { expect, test } from "vitest";
import { noNodeReason, parseRunOn } from "./run-on.ts";

function reasonOf(given: unknown): string {
  try {
    parseRunOn(given);
  } catch (error) {
    return (error as { readonly reason: string }).reason;
  }
  throw new Error("The labels are accepted");
}

test("labels are sorted and distinct, so that equal lists are stored equally", () => {
  expect(parseRunOn(["site:berlin", "disk:ssd", "site:berlin"])).toEqual([
    "disk:ssd",
    "site:berlin",
  ]);
});

test.each([undefined, null, []])("%j allows any node", (given) => {
  expect(parseRunOn(given)).toBe(undefined);
});

test.each([
  [
    "site:berlin",
    '`run_on` must be a list of labels such as ["site:berlin"], but is "site:berlin"',
  ],
  [{ site: "berlin" }, "must be a list of labels"],
  [["a", "b", "c", "d"], "`run_on` must have at most 3 labels, but has 4"],
  [
    ["a", "Site:Berlin"],
    '`run_on[1]` must be a label of 1 to 64 characters of a-z, 0-9, _, ., : and -, the first one a letter or digit, but is "Site:Berlin"',
  ],
  [[""], "`run_on[0]` must be a label of 1 to 64 characters"],
  [["a".repeat(65)], "1 to 64 characters"],
  [["a,b"], 'but is "a,b"'],
  [["a\u0000"], "1 to 64 characters"],
  [[7], "but is 7"],
  [[["a"]], 'but is ["a"]'],
])("%j is rejected with the field, its value and the accepted values", (given, reason) => {
  expect(reasonOf(given)).toContain(reason);
});

test("the reason shown for a waiting job contains the labels and the remedy", () => {
  expect(noNodeReason(["site:berlin"])).toBe(
    "No running node has the label site:berlin; add them to [tandem] labels of a node and restart it, or change `run_on`",
  );
});
