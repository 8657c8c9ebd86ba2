/** `GET /_tandem/events`: job events, received as server-sent events. */
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { openServer, type RunningServer, readConfig } from "../../../src/server/index.ts";
import { call } from "../../support/open-process.ts";

let server: RunningServer;
const ask = (method: string, path: string, body?: object) =>
  call(`${server.url}${path}`, method, body);
const feeds = new Set<AbortController>();

beforeAll(async () => {
  server = await openServer(readConfig({ port: 0, store: "memory" }, {}), { event: () => {} });
  await ask("PUT", "/a");
  await ask("PUT", "/a/doc", {});
  await ask("PUT", "/_replicator");
});

afterEach(() => {
  for (const feed of feeds) feed.abort();
  feeds.clear();
});
afterAll(() => server.stop());

interface Message {
  readonly event: string;
  readonly id: string;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of the server
  readonly data: any;
}

/** Yields messages as they arrive. Omits the first message, which only contains the position. */
async function* follow(query = "", headers: Record<string, string> = {}): AsyncGenerator<Message> {
  const stopping = new AbortController();
  feeds.add(stopping);
  const { signal } = stopping;
  const answer = await fetch(`${server.url}/_tandem/events${query}`, { headers, signal });
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  let text = "";
  for await (const piece of answer.body ?? []) {
    text += Buffer.from(piece).toString();
    const blocks = text.split("\n\n");
    text = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = new Map(
        block.split("\n").map((line) => line.split(/: (.*)/s, 2) as [string, string]),
      );
      const event = String(fields.get("event"));
      const id = String(fields.get("id"));
      if (event === "position") opened?.(id);
      else yield { event, id, data: JSON.parse(String(fields.get("data"))) };
    }
  }
}
let opened: ((id: string) => void) | undefined;

/** Follows the feed from now on. Resolves once no later event can be missed. */
async function followFromNow(query = ""): Promise<AsyncGenerator<Message>> {
  const begun = new Promise<string>((resolve) => {
    opened = resolve;
  });
  const messages = follow(query);
  const first = messages.next();
  await begun;
  return (async function* () {
    const { value, done } = await first;
    if (!done) yield value;
    yield* messages;
  })();
}

/** Returns messages up to and including the first message with this change. */
async function until(messages: AsyncGenerator<Message>, change: string): Promise<Message[]> {
  const seen: Message[] = [];
  for (;;) {
    const { value, done } = await messages.next();
    if (done) throw new Error("The feed has ended");
    seen.push(value);
    if (value.data.changes?.includes(change)) return seen;
  }
}

const changesOf = (messages: readonly Message[]): string[] =>
  messages.flatMap(({ data }) => data.changes);

test("the events of a job are sent in order, each with the row that job lists show", async () => {
  const messages = await followFromNow();
  await ask("PUT", "/_replicator/life", { source: "a", target: "life", create_target: true });
  const run = await until(messages, "completed");
  const rest = await until(messages, "stopped");
  expect(changesOf([...run, ...rest])).toEqual(["added", "started", "completed", "stopped"]);
  const { body: row } = await ask("GET", "/_tandem/jobs/_replicator%2Flife");
  expect(rest.at(-1)?.data).toMatchObject({ id: row.id, matches: true, job: row });
  await ask("POST", "/_tandem/jobs/_replicator%2Flife/_cancel");
  const [gone] = await until(messages, "removed");
  expect(gone?.data).toMatchObject({ id: row.id, job: null, matches: false });
});

test("a reconnecting client misses no event, whether it sends its position in the header or in the URL", async () => {
  const messages = await followFromNow();
  await ask("PUT", "/_replicator/back", { source: "a", target: "back", create_target: true });
  const [added] = await until(messages, "added");
  const all = await until(messages, "stopped");
  const id = String(added?.id);
  const again = await until(follow("", { "last-event-id": id }), "stopped");
  expect(again.map((message) => message.id)).toEqual(all.map((message) => message.id));
  const fromUrl = await until(follow(`?since=${id}`), "stopped");
  expect(fromUrl.map((message) => message.id)).toEqual(all.map((message) => message.id));
});

test("past events are returned in pages, newest first, back to the start of the log", async () => {
  const messages = await followFromNow();
  await ask("PUT", "/_replicator/past", { source: "a", target: "past", create_target: true });
  const run = await until(messages, "stopped");
  const past: { place: string; job: { doc_id: string } }[] = [];
  let pageCount = 0;
  for (let before: string | null = ""; before !== null; pageCount++) {
    const place: string = before === "" ? "" : `&before=${before}`;
    const { status, body } = await ask("GET", `/_tandem/events/_past?limit=3${place}`);
    expect(status).toBe(200);
    past.push(...body.events);
    before = body.before;
  }
  // A page can have fewer events than the limit, because events of removed jobs are omitted.
  expect(pageCount).toBeGreaterThanOrEqual(past.length / 3);
  const places = past.map(({ place }) => place);
  expect(places).toEqual(places.toSorted().reverse());
  expect(places.slice(0, run.length)).toEqual(run.map(({ id }) => id).reverse());
  expect(past[0]?.job.doc_id).toBe("past");
  const { body: none } = await ask("GET", "/_tandem/events/_past?parked=true&paused=true");
  expect(none.events).toEqual([]);
});

/** Returns the past events that match a query, from all pages. */
async function pastOf(query: string): Promise<readonly string[]> {
  const found: string[] = [];
  for (let before: string | null = ""; before !== null; ) {
    const place: string = before === "" ? "" : `&before=${before}`;
    const { status, body } = await ask("GET", `/_tandem/events/_past?${query}${place}`);
    expect(status).toBe(200);
    for (const { name, changes } of body.events) found.push(`${name} ${changes}`);
    before = body.before;
  }
  return found;
}

test("events of removed jobs contain the job's name, and are found by this name", async () => {
  const messages = await followFromNow();
  await ask("PUT", "/of%2F_replicator");
  for (const name of ["one", "two"]) {
    const doc = { source: "a", target: `former-${name}`, create_target: true, continuous: true };
    await ask("PUT", `/of%2F_replicator/${name}`, doc);
  }
  await until(messages, "started");
  const { body: doc } = await ask("GET", "/of%2F_replicator/one");
  await ask("DELETE", `/of%2F_replicator/one?rev=${doc._rev}`);
  const one = await until(messages, "removed");
  expect(one.at(-1)?.data).toMatchObject({ name: "of/_replicator/one", job: null });
  await ask("DELETE", "/of%2F_replicator");
  const two = await until(messages, "removed");
  expect(two.at(-1)?.data).toMatchObject({ name: "of/_replicator/two", job: null });
  const removed = ["of/_replicator/two removed", "of/_replicator/one removed"];
  expect(await pastOf("kind=removed&name=of/")).toEqual(removed);
  expect(await pastOf("kind=removed,added&job=of/_replicator/two")).toEqual([
    "of/_replicator/two removed",
    "of/_replicator/two added",
  ]);
  expect(await pastOf("kind=removed&endpoint=former-one")).toEqual(["of/_replicator/one removed"]);
  expect(await pastOf("kind=removed&endpoint=elsewhere.example")).toEqual([]);
});

test("events of a removed rule's jobs are found by the rule's name", async () => {
  const messages = await followFromNow("?rule=nightly");
  const rule = { source: "local", target: "nightly-{db}", databases: ["a"] };
  const { status } = await ask("PUT", "/_tandem/rules/nightly", rule);
  expect(status).toBe(201);
  await until(messages, "added");
  await ask("DELETE", "/_tandem/rules/nightly");
  const gone = await until(messages, "removed");
  expect(gone.at(-1)?.data).toMatchObject({ name: "nightly/a", job: null });
  expect(await pastOf("rule=nightly&kind=removed")).toEqual(["nightly/a removed"]);
});

test("a filtered feed reports only jobs that match, start to match or stop matching the filter", async () => {
  const messages = await followFromNow("?failing=true");
  await ask("PUT", "/_replicator/good", { source: "a", target: "good", create_target: true });
  await ask("PUT", "/_replicator/bad", { source: "nowhere", target: "bad", create_target: true });
  const [failing] = await until(messages, "failing");
  expect(failing?.data).toMatchObject({
    matches: true,
    job: { doc_id: "bad", failing: true, last_failure: { class: "not_found" } },
  });
  await ask("PUT", "/nowhere");
  await ask("POST", "/_tandem/jobs/_replicator%2Fbad/_retry");
  const back = await until(messages, "recovered");
  expect(back.at(-1)?.data).toMatchObject({ matches: false, job: { doc_id: "bad" } });
  expect(new Set(back.map(({ data }) => data.job.doc_id))).toEqual(new Set(["bad"]));
});

test("pause events contain the user who requested the pause", async () => {
  const messages = await followFromNow("?database=_replicator&paused=true");
  const job = { source: "a", target: "held", create_target: true, continuous: true };
  await ask("PUT", "/_replicator/held", job);
  await ask("POST", "/_tandem/jobs/_replicator%2Fheld/_pause");
  const [paused] = await until(messages, "paused");
  expect(paused?.data).toMatchObject({
    matches: true,
    job: { paused: true, control: [{ action: "pause" }] },
  });
  await ask("POST", "/_tandem/jobs/_replicator%2Fheld/_resume");
  expect((await until(messages, "resumed")).at(-1)?.data).toMatchObject({ matches: false });
});

test.each([
  ["?since=junk", "since: expected now or an event id, got junk"],
  ["/_past?before=junk", "before: expected an event id, got junk"],
  ["/_past?limit=101", "limit: expected 1 to 100"],
  ["/_past?kind=fainted", "Unknown kind fainted. Choose from: added, removed, started"],
  ["?kind=failing,,lost", "Unknown kind . Choose from"],
  ["/_past?place=a", "Unknown parameter place"],
  ["?heartbeat=0", "heartbeat: expected at least 1"],
  ["?falling=true", "Unknown parameter falling"],
  ["?failing=perhaps", "Invalid boolean parameter"],
])("GET /_tandem/events%s is refused with a reason", async (query, reason) => {
  const { status, body } = await ask("GET", `/_tandem/events${query}`);
  expect(status).toBe(400);
  expect(body.reason).toContain(reason);
});
