import { expect, test } from "vitest";
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
