import { expect, test } from "vitest";
import { groupOf, sharesOfGroups } from "./replication-group.ts";

const document = { database: "team/_replicator", databaseUuid: "u", id: "d" };

test("a job belongs to the database of its document, a transient one to its user", () => {
  expect(groupOf({ document, userName: "bob" })).toBe("team/_replicator");
  expect(groupOf({ document: undefined, userName: "bob" })).toBe("user:bob");
  expect(groupOf({ document: undefined, userName: null })).toBe("user:");
});

test("shares are named by database or user", () => {
  const shares = new Map([
    ["_replicator", 50],
    ["team/_replicator", 200],
    ["bob", 10],
  ]);
  expect([...sharesOfGroups(shares)]).toEqual([
    ["_replicator", 50],
    ["team/_replicator", 200],
    ["user:bob", 10],
  ]);
});
