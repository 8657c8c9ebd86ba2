/**
 * Functions of many users and databases. No function blocks the functions of others, and the
 * resources of all functions together are bounded.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { utf8Encode } from "../../src/base/index.ts";
import { SandboxPool } from "../../src/host/sandbox/pool.ts";
import { createSystemRuntime } from "../../src/host/system/runtime.ts";

let pool: SandboxPool;

beforeAll(() => {
  pool = new SandboxPool(createSystemRuntime());
});

afterAll(() => pool.close());

interface Asked {
  readonly user?: string;
  readonly database?: string;
  readonly runs?: number;
  readonly signal?: AbortSignal;
}

let codeCount = 0;

function ask(
  source: string,
  { user = "", database = "", runs = 1, signal }: Asked = {},
): Promise<boolean[]> {
  return pool.call({
    codeId: `shares ${codeCount++}`,
    code: [utf8Encode(JSON.stringify({ filters: { f: source } }))],
    kind: "filter",
    path: ["filters", "f"],
    runs: Array(runs).fill("[1]"),
    shared: "[]",
    timeoutMs: 3_600_000,
    share: { user, database },
    signal,
  });
}

const ENDLESS = "function () { for (;;); }";
const SHORT = "function () { return true; }";
const BUSY_100_MS =
  "function () { var end = Date.now() + 100; while (Date.now() < end); return true; }";

test.each([
  ["user", (count: number) => ({ user: "eve", database: `db${count}` })],
  ["database", (count: number) => ({ user: `eve${count}`, database: "db" })],
])("endless functions of one %s leave a thread to functions of others", async (_, shareOf) => {
  const stopping = new AbortController();
  const endless = Array.from({ length: 10 }, (_, count) =>
    ask(ENDLESS, { ...shareOf(count), signal: stopping.signal }),
  );
  const settled = Promise.allSettled(endless);
  expect(await ask(SHORT, { user: "ann", database: "films" })).toEqual([true]);
  stopping.abort(new Error("The client has disconnected"));
  const reasons = (await settled).map(
    (each) => each.status === "rejected" && `${each.reason} ${each.reason.reason ?? ""}`.trim(),
  );
  expect(new Set(reasons)).toEqual(new Set(["Error: The client has disconnected"]));
});

test("functions of disconnected clients stop, and release their threads", async () => {
  const stopping = new AbortController();
  const { signal } = stopping;
  // Occupies all threads with endless calls by different users.
  const endless = ["a", "b", "c"].map((user) => ask(ENDLESS, { user, database: user, signal }));
  const settled = Promise.allSettled(endless);
  const waiting = ask(SHORT, { user: "ann", database: "films" });
  stopping.abort(new Error("The client has disconnected"));
  await settled;
  expect(await waiting).toEqual([true]);
});

test("a long call for many documents is split, and other calls run in between", async () => {
  const order: string[] = [];
  const long = ["a", "b", "c"].map(async (user) => {
    const answers = await ask(BUSY_100_MS, { user, database: user, runs: 12 });
    order.push("long");
    return answers;
  });
  const short = ask(SHORT, { user: "ann", database: "films" }).then(() => order.push("short"));
  await Promise.all([...long, short]);
  expect(order[0]).toBe("short");
  expect(await Promise.all(long)).toEqual(Array(3).fill(Array(12).fill(true)));
});

/** Selector that causes billions of comparisons in a long list. */
const SLOW_SELECTOR = JSON.stringify({ $or: Array(400).fill({ list: { $all: [[1]] } }) });
const LONG_LIST = JSON.stringify({ list: Array(1_500_000).fill([0]) });

function match(selector: string, document: string, { user = "", database = "", signal }: Asked) {
  return pool.matches({
    selector,
    document: [utf8Encode(document)],
    timeoutMs: 3_600_000,
    share: { user, database },
    signal,
  });
}

test.each([
  ["user", (count: number) => ({ user: "eve", database: `db${count}` })],
  ["database", (count: number) => ({ user: `eve${count}`, database: "db" })],
])("slow selectors of one %s leave a thread to selectors of others", async (_, shareOf) => {
  const stopping = new AbortController();
  const slow = Array.from({ length: 5 }, (_, count) =>
    match(SLOW_SELECTOR, LONG_LIST, { ...shareOf(count), signal: stopping.signal }),
  );
  const settled = Promise.allSettled(slow);
  expect(await match('{"n":1}', '{"n":1}', { user: "ann", database: "films" })).toBe(true);
  stopping.abort(new Error("The client has disconnected"));
  const reasons = (await settled).map(
    (each) => each.status === "rejected" && `${each.reason} ${each.reason.reason ?? ""}`.trim(),
  );
  expect(new Set(reasons)).toEqual(new Set(["Error: The client has disconnected"]));
});

test("slow selectors of disconnected clients stop, and release their threads", async () => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const slow = ["a", "b", "c"].map((user) =>
    match(SLOW_SELECTOR, LONG_LIST, { user, database: user, signal }),
  );
  const settled = Promise.allSettled(slow);
  const waiting = match('{"n":1}', '{"n":1}', { user: "ann", database: "films" });
  stopping.abort(new Error("The client has disconnected"));
  await settled;
  expect(await waiting).toBe(true);
});

test("a function that forges or drops results is refused, because the number of its results is wrong", async () => {
  const forgeries = ["{}", "{ this[this.length] = true; this[this.length] = true; }"];
  for (const body of forgeries) {
    const forged = `(Array.prototype.push = function () ${body}, function () { return true; })`;
    await expect(ask(forged, { runs: 2 })).rejects.toMatchObject({ error: "os_process_error" });
  }
});

test("the memory of twelve design documents that retain as much data as they can is bounded", async () => {
  const hoard = "function () { globalThis.kept = new Uint8Array(6e7).fill(1); return true; }";
  await ask(SHORT);
  const before = process.memoryUsage().rss;
  for (let count = 0; count < 12; count++) {
    expect(await ask(hoard, { database: `db${count}` })).toEqual([true]);
  }
  await ask(SHORT);
  const grownMib = (process.memoryUsage().rss - before) / 1024 / 1024;
  expect(grownMib).toBeLessThan(600);
});
