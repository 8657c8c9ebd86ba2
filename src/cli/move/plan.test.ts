import { expect, test } from "vitest";
import { takingOf } from "./plan.ts";

const STORED = { kind: "stored", rev: "2-b" } as const;

test.each([
  ["take", {}, { kind: "missing" }, true, []],
  ["take", {}, { kind: "deleted" }, true, []],
  ["here", {}, STORED, false, []],
  ["update", {}, STORED, true, ["3-c", "2-b", "1-a"]],
  ["the new server has a different document with this id", {}, STORED, true, ["2-x", "1-a"]],
  [
    "the document was copied earlier and has since been deleted on the new server",
    {},
    { kind: "deleted" },
    false,
    [],
  ],
  [
    "the document has conflicting revisions",
    { _conflicts: ["1-x"] },
    { kind: "missing" },
    true,
    [],
  ],
] as const)("%s (%#)", (expected, body, place, isLacking, history) => {
  const taking = takingOf({ body }, place, isLacking, history);
  expect(taking.kind === "refused" ? taking.reason : taking.kind).toContain(expected);
});
