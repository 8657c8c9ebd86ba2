/** Two processes that serve one embedded store: what one of them writes, the other tells at once. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess, until } from "../support/open-process.ts";

const ROUND_COUNT = 11;
/** A machine that is busy with something else may spoil one or two of them. */
const SERIES_COUNT = 5;
const WAKE_MS_MAX = 100;

const processes = new Processes();
let one: TandemProcess;
let other: TandemProcess;

beforeAll(async () => {
  const directory = processes.directory();
  one = await processes.open({ directory });
  other = await processes.open({ directory });
  await one.call("PUT", "/films");
});
afterAll(() => processes.close());

/** The lines of a feed, heartbeats and the ids of events left out, each with the time at which it came. */
async function* linesOf(path: string, signal: AbortSignal) {
  const { body } = await fetch(`${one.url}${path}`, { signal });
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    const atMs = performance.now();
    for (const line of lines) if (line.includes("{")) yield { line, atMs };
  }
}

type Lines = ReturnType<typeof linesOf>;

/** When the line about a name came. */
async function arrivalMs(lines: Lines, name: string): Promise<number> {
  for (;;) {
    const { value, done } = await lines.next();
    if (done === true) throw new Error("The feed ended");
    if (value.line.includes(`"${name}"`)) return value.atMs;
  }
}

let count = 0;
const newName = (): string => `name${count++}`;

/** How long a feed of one process takes to tell what the other was told is written; the median of some writes. */
async function medianWakeMs(path: string, write: (name: string) => Promise<void>): Promise<number> {
  const ending = new AbortController();
  const lines = linesOf(path, ending.signal);
  let isOpen = false;
  const opened = lines.next().then(() => {
    isOpen = true;
  });
  // What is written before the feed began is not told.
  await until(
    () => write(newName()),
    () => isOpen,
  );
  await opened;
  const delays: number[] = [];
  for (let round = 0; round < ROUND_COUNT; round++) {
    const name = newName();
    const arriving = arrivalMs(lines, name);
    await write(name);
    const writtenMs = performance.now();
    delays.push(Math.max(0, (await arriving) - writtenMs));
  }
  ending.abort();
  await lines.return(undefined).catch(() => {});
  return delays.sort((left, right) => left - right)[Math.floor(ROUND_COUNT / 2)] as number;
}

const writeDocument = async (name: string): Promise<void> => {
  expect((await other.call("PUT", `/films/${name}`, {})).status).toBe(201);
};
const makeDatabase = async (name: string): Promise<void> => {
  expect((await other.call("PUT", `/${name}`)).status).toBe(201);
};

test.each([
  ["continuous changes", "/films/_changes?feed=continuous&since=now&heartbeat=20", writeDocument],
  ["events", "/films/_changes?feed=eventsource&since=now&heartbeat=60000", writeDocument],
  ["updates of databases", "/_db_updates?feed=continuous&since=now&heartbeat=60000", makeDatabase],
])(
  `a feed of %s wakes within ${WAKE_MS_MAX} ms of another process's write, at the median`,
  async (_, path, write) => {
    const medians: number[] = [];
    while (medians.length < SERIES_COUNT && !medians.some((median) => median < WAKE_MS_MAX)) {
      medians.push(await medianWakeMs(path, write));
    }
    expect(Math.min(...medians)).toBeLessThan(WAKE_MS_MAX);
  },
  60_000,
);

test("a setting that one process was told is soon that of the other, and so is its end", async () => {
  const setting = "/_node/_local/_config/couchdb/max_document_size";
  const put = () => other.call("PUT", `/films/${newName()}`, { text: "x".repeat(500) });
  expect((await put()).status).toBe(201);
  await one.call("PUT", setting, '"100"');
  expect((await until(put, ({ status }) => status !== 201)).status).toBe(413);
  expect((await other.call("GET", setting)).body).toBe("100");
  // Each tells the other of its own key, and neither forgets the other's.
  await other.call("PUT", "/_node/_local/_config/mine/key", '"value"');
  await one.call("DELETE", setting);
  expect((await until(put, ({ status }) => status !== 413)).status).toBe(201);
  const { body } = await until(
    () => one.call("GET", "/_node/_local/_config/mine/key"),
    ({ status }) => status === 200,
  );
  expect(body).toBe("value");
});
