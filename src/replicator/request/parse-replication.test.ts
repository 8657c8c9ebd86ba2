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

test.each([true, -1, "", {}, { a: 1 }, Array(20_000).fill(1), "x".repeat(40_000)])(
  "rejects a since_seq that is no sequence: %j",
  (since) => {
    const body = { source: "a", target: "b", since_seq: since };
    expect(() => parseReplication(body)).toThrow(
      expect.objectContaining({ reason: expect.stringMatching(/^`since_seq` must be .{1,300}$/) }),
    );
  },
);

test.each([0, "5-xyz", [5, "5-xyz"], "2026-01-31T12:00:00Z"])(
  "accepts the since_seq %j",
  (since) => {
    const body = { source: "a", target: "b", since_seq: since };
    expect(parseReplication(body).sinceSequence).toEqual(since);
  },
);

test("keeps the digits of a large since_seq", () => {
  const members = replicationMembers('{"source":"a","target":"b","since_seq":9007199254740993}');
  const { sinceSequence } = parseReplication(members);
  expect(sinceSequence).toBe("9007199254740993");
});
