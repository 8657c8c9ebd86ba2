import { expect, test } from "vitest";
import { utf8Decode } from "../base/index.ts";
import type { DatabaseHook } from "./hooks.ts";
import { openStore, replicated } from "./store.fixture.ts";

const ROWS = [
  { id: "shown", revision: "1-a" },
  { id: "hidden", revision: "1-a" },
  { id: "masked", revision: "1-a" },
  { id: "absent", revision: "1-a" },
];

async function openFilled(hooks: readonly DatabaseHook[]) {
  const store = await openStore({ hooks });
  const edits = ["shown", "hidden", "masked"].map((id) =>
    replicated(id, ["1-a"], { body: `{"title":"${id} é","n":1.0}` }),
  );
  await store.edit(...edits);
  return store;
}

test("raw documents are the documents, their bodies in UTF-8", async () => {
  const store = await openFilled([]);
  await store.read(async (tx, database) => {
    const documents = await database.readRevisions(tx, ROWS);
    expect(documents.map(({ length }) => length)).toEqual([1, 1, 1, 0]);
    const raw = await database.readRawRevisions(tx, ROWS);
    const decoded = raw.map((leaves) =>
      leaves.map((leaf) => ({ ...leaf, body: utf8Decode(leaf.body) })),
    );
    expect(decoded).toEqual(documents);
  });
});

test("raw documents show no more than documents do", async () => {
  const hook: DatabaseHook = {
    appliesTo: () => true,
    afterRead: (document) => {
      if (document.id === "hidden") return undefined;
      return document.id === "masked" ? { ...document, body: '{"masked":true}' } : document;
    },
  };
  const store = await openFilled([hook]);
  const reader = { userName: "jan", roles: [], isAdmin: false };
  await store.read(async (tx, database) => {
    const seen = await database.seenBy(tx, reader);
    const raw = await seen.readRawRevisions(tx, ROWS);
    const bodies = raw.map((leaves) => leaves.map(({ body }) => utf8Decode(body)));
    expect(bodies).toEqual([['{"title":"shown é","n":1.0}'], [], ['{"masked":true}'], []]);
  });
});
