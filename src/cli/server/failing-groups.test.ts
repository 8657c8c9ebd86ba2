import { expect, test } from "vitest";
import { printFailingGroups, printFailingRules } from "./failing-groups.ts";

const URL_OF_REQUEST = `https://couch.example/${"a-long-name/".repeat(8)}_changes`;

const group = (more: object) => ({
  class: "unreachable",
  side: "source",
  host: "couch.example",
  count: 3,
  error: "http_request_failed",
  reason: `could not reach ${URL_OF_REQUEST}: connection refused`,
  example: "users/userdb-00001",
  since: "2026-11-23T13:54:07.000Z",
  next_try: null,
  ...more,
});

const print = (...groups: readonly object[]): string =>
  printFailingGroups({ groups, total_rows: groups.length, jobs: 3 }, 80);

test.each([
  [`could not reach ${URL_OF_REQUEST}: connection refused`, "connection refused (could not reach"],
  [
    `could not open ${URL_OF_REQUEST} (401 unauthorized: no)`,
    "401 unauthorized: no (could not open",
  ],
])("the cause of a group precedes the URL of its request: %s", (reason, line) => {
  const lines = print(group({ reason })).split("\n");
  expect(lines[2]).toBe(`    http_request_failed: ${line}`);
  expect(lines[3]).toBe(`    ${URL_OF_REQUEST})`);
});

test("a long cause is wrapped and printed in full", () => {
  const reason = "a server behind the proxy rejected the request, ".repeat(5).trim();
  const text = print(group({ reason }));
  for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  expect(text.replaceAll(/\s+/g, " ")).toContain(`http_request_failed: ${reason}`);
});

test("each group has a command to list its jobs, which can continue on a second line", () => {
  const host = "couchdb-replica-with-a-long-name.eu-central.example:6984";
  const text = print(group({ class: "unauthorized" }), group({ host }));
  expect(text).toContain(
    "    tandem jobs retry --error unauthorized --side source --host couch.example:\n",
  );
  expect(text).toContain(
    `    tandem jobs retry --error unreachable --side source \\\n      --host ${host}\n`,
  );
});

test("rules whose source cannot be listed are printed with the full reason", () => {
  const reason = `401 from ${URL_OF_REQUEST} unauthorized: Name or password is incorrect.`;
  const rule = { name: "users", status: { last_error: { error: "unauthorized", reason } } };
  const text = printFailingRules({ rules: [rule], total_rows: 2 }, 80);
  const words = text.replaceAll(/\s+/g, " ");
  expect(words).toContain("Rules whose source cannot be listed: RULE ERROR users unauthorized 401");
  expect(words).toContain("Name or password is incorrect.");
  expect(words).toContain("1 of 2 rules");
  expect(printFailingRules({ rules: [], total_rows: 0 }, 80)).toBe("");
});
