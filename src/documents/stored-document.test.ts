import { expect, test } from "vitest";
import type { Document } from "../databases/index.ts";
import { attachmentsSince } from "./stored-document.ts";

const DOCUMENT = {
  revisions: { start: 3, hashes: ["c", "b", "a"] },
  attachments: [1, 2, 3].map((revisionPosition) => ({
    name: `of ${revisionPosition}`,
    revisionPosition,
  })),
} as unknown as Document;

test.each<[string[], string[]]>([
  [[], ["of 1", "of 2", "of 3"]],
  [["2-x"], ["of 1", "of 2", "of 3"]],
  [["1-a"], ["of 2", "of 3"]],
  [["1-a", "2-b"], ["of 3"]],
  [["3-c"], []],
])("a peer with the revisions %j lacks the attachments %j", (ancestors, names) => {
  expect([...attachmentsSince(DOCUMENT, ancestors)]).toEqual(names);
});
