import { expect, test } from "vitest";
import { type LeafState, RevisionTree } from "./revision-tree.ts";

test.each([
  [1, "known"],
  [2, "ancestors"],
  [3, "ancestors"],
] as const)(
  "with a limit of %i revisions, a path that adds the parent of a leaf is classified as %s",
  (limit, judged) => {
    const tree = new RevisionTree();
    tree.graft({ start: 3, hashes: ["c"] }, {} as LeafState);
    expect(tree.judge({ start: 3, hashes: ["c", "b"] }, limit)).toBe(judged);
  },
);
