import { expect, test } from "vitest";
import { groupOf, sharesOfGroups } from "./replication-group.ts";

const document = { database: "team/_replicator", databaseUuid: "u", id: "d" };

test("a job with a document belongs to the document's database, and a transient job to its user", () => {
  expect(groupOf({ document, userName: "bob" })).toBe("team/_replicator");
  expect(groupOf({ document: undefined, userName: "bob" })).toBe("user:bob");
  expect(groupOf({ document: undefined, userName: null })).toBe("user:");
});

test("configured shares are named by database, rule or user", () => {
  const shares = new Map([
    ["_replicator", 50],
    ["team/_replicator", 200],
    ["rule:users", 70],
    ["bob", 10],
  ]);
  expect([...sharesOfGroups(shares)]).toEqual([
    ["_replicator", 50],
    ["team/_replicator", 200],
    ["rule:users", 70],
    ["user:bob", 10],
  ]);
  expect(groupOf({ document: undefined, rule: "users", userName: "bob" })).toBe("rule:users");
});
