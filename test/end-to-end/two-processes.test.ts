/**
 * Two processes that serve one embedded store. Each process immediately reports the writes of the
 * other process.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Processes, type TandemProcess } from "../support/open-process.ts";

const ROUND_COUNT = 11;
/**
 * Heartbeat interval that never elapses. A feed therefore reports a write only if it is notified of
 * the write.
 */
const LONG_MS = 3_600_000;

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

/** Yields the lines of a feed, without heartbeats and event ids. */
async function* linesOf(path: string, signal: AbortSignal) {
  const { body } = await fetch(`${one.url}${path}`, { signal });
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.includes("{")) yield line;
  }
}

/** Resolves to the first line that contains a name. */
async function lineAbout(lines: ReturnType<typeof linesOf>, name: string): Promise<string> {
  for (;;) {
    const { value, done } = await lines.next();
    if (done === true) throw new Error("The feed ended");
    if (value.includes(`"${name}"`)) return value;
  }
}

let count = 0;
const newName = (): string => `name${count++}`;

const writeDocument = async (name: string): Promise<void> => {
  expect((await other.call("PUT", `/films/${name}`, {})).status).toBe(201);
};
const makeDatabase = async (name: string): Promise<void> => {
  expect((await other.call("PUT", `/${name}`)).status).toBe(201);
};

test.each([
  ["continuous changes", "/films/_changes?feed=continuous", writeDocument],
  ["events", "/films/_changes?feed=eventsource", writeDocument],
  ["updates of databases", "/_db_updates?feed=continuous", makeDatabase],
])(
  "a feed of %s reports each write of another process before the next write occurs",
  async (_, path, write) => {
    const { last_seq: since } = (await one.call("GET", path.replace(/\?.*/, ""))).body;
    const ending = new AbortController();
    const query = `&since=${encodeURIComponent(since)}&heartbeat=${LONG_MS}`;
    const lines = linesOf(path + query, ending.signal);
    for (let round = 0; round < ROUND_COUNT; round++) {
      const name = newName();
      const arriving = lineAbout(lines, name);
      await write(name);
      await arriving;
    }
    ending.abort();
    await lines.return(undefined).catch(() => {});
  },
);

test("a setting changed or removed in one process soon changes in the other process", async () => {
  const setting = "/_node/_local/_config/couchdb/max_document_size";
  const put = () => other.call("PUT", `/films/${newName()}`, { text: "x".repeat(500) });
  expect((await put()).status).toBe(201);
  await one.call("PUT", setting, '"100"');
  await other.events.event("configuration.reloaded");
  expect((await put()).status).toBe(413);
  expect((await other.call("GET", setting)).body).toBe("100");
  // Each process changes a different setting. Both processes must end up with both changes.
  await other.call("PUT", "/_node/_local/_config/mine/key", '"value"');
  await one.call("DELETE", setting);
  expect((await other.onceAnswered(put, ({ status }) => status !== 413)).status).toBe(201);
  const { body } = await one.onceAnswered(
    () => one.call("GET", "/_node/_local/_config/mine/key"),
    ({ status }) => status === 200,
  );
  expect(body).toBe("value");
});
