import { expect, test } from "vitest";
import { replicationMembers } from "./parse-fields.ts";
import { parseReplication } from "./parse-replication.ts";

test.each([
  ["query_params", "x", "parameter `query_params` must be an object"],
  ["query_params", 7, "parameter `query_params` must be an object"],
  ["create_target_params", "x", "parameter `create_target_params` must be a JSON object"],
  ["create_target_params", [], "parameter `create_target_params` must be a JSON object"],
])("refuses a %s of %j", (name, value, reason) => {
  const body = { source: "a", target: "b", create_target: true, filter: "a/b", [name]: value };
  expect(() => parseReplication(body)).toThrow(expect.objectContaining({ details: { reason } }));
});

test.each([
  ...[true, -1, 1.5, "", "-1", "1.5", "[]", "now", {}, { a: 1 }],
  ...[[], [[1]], [5], [1.5, "a"], ["5", "a"], [5, 6], [5, "a", "b"], Array(20_000).fill(1)],
  ...["9999-99-99T00:00:00Z", "2026-02-30T00:00:00Z", "x".repeat(40_000), "中".repeat(11_000)],
])("rejects a since_seq that is not a sequence: %j", (since) => {
  const body = { source: "a", target: "b", since_seq: since };
  expect(() => parseReplication(body)).toThrow(
    expect.objectContaining({ reason: expect.stringMatching(/^`since_seq` must be .{1,300}$/) }),
  );
});

test.each([
  ...[0, 5, "0", "5", "5-xyz", "5-g1AAAA", [5, "g1AAAA"], [5, [["a", [0, 1], 5]]], '[5,"g1AAAA"]'],
  ...["xyz", "2026-01-31T12:00:00Z", "2026-01-31", "x".repeat(32_766)],
])("accepts the since_seq %j", (since) => {
  const body = { source: "a", target: "b", since_seq: since };
  expect(parseReplication(body).sinceSequence).toEqual(since);
});

test("keeps the digits of a large since_seq", () => {
  const members = replicationMembers('{"source":"a","target":"b","since_seq":9007199254740993}');
  const { sinceSequence } = parseReplication(members);
  expect(sinceSequence).toBe("9007199254740993");
});
