import { expect, test } from "vitest";
import { get, openServer } from "../fetch.fixture.ts";
import type { FetchRequest } from "../fetch.ts";
import { withBudget } from "./with-budget.ts";

test.each<readonly [method: FetchRequest["method"], path: string, direction: string]>([
  ["GET", "doc", "read"],
  ["PUT", "doc", "write"],
  ["DELETE", "doc?rev=1-a", "write"],
  ["POST", "_revs_diff", "read"],
  ["POST", "_bulk_get?revs=true", "read"],
  ["POST", "_bulk_docs", "write"],
  ["POST", "_bulk_docs?w=1", "write"],
  ["POST", "_ensure_full_commit", "write"],
])("%s %s is counted as %s, with its bytes in both directions", async (method, path, direction) => {
  const spent: string[] = [];
  const spending = (name: string) => ({
    spend: async (unit: string, count: number) => {
      spent.push(`${name} ${count} ${unit}`);
    },
  });
  const server = openServer(() => ({ status: 200, body: "answer" }));
  const fetch = withBudget(server.fetch, { read: spending("read"), write: spending("write") });
  const response = await fetch({ ...get(`http://host/db/${path}`), method, body: "four" });
  for await (const _ of response.body) {
    // Reading the response body consumes the budget.
  }
  expect(spent).toEqual([
    `${direction} 1 requests`,
    `${direction} 4 bytes`,
    `${direction} 6 bytes`,
  ]);
});
