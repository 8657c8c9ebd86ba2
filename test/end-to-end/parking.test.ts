/**
 * Parked jobs between servers: which requests the watcher sends to a source, and how changes
 * arrive, depending on what the source permits.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPair, type Pair } from "../couchdb-replicator/pair.fixture.ts";

let pair: Pair;
beforeAll(async () => {
  pair = await openPair("[replicator]\npark_after_sec = 1\n");
});
afterAll(() => pair.close());

const NAMES = Array.from({ length: 12 }, (_, number) => `user-${number}`);

async function onceParked(count: number): Promise<void> {
  await pair.here.onceAnswered(
    () => pair.here.call("GET", "/_tandem/jobs?parked=true"),
    ({ body }) => body.total_rows === count,
  );
}

async function arrives(name: string, id: string): Promise<void> {
  await pair.here.onceAnswered(
    () => pair.there.call("GET", `/${name}/${id}`),
    ({ status }) => status === 200,
  );
}

test.each([
  ["follows the update feed", () => undefined, /_db_updates/],
  [
    "cannot read the update feed, and polls many databases with one request,",
    (path: string) => path.startsWith("/_db_updates"),
    /_dbs_info/,
  ],
  [
    "can do neither, and polls each database separately,",
    (path: string) => /^\/_db(_updates|s_info)/.test(path),
    /^\/user-\d+$/,
  ],
])("a watcher that %s wakes the job of a changed database", async (_, isForbidden, asked) => {
  pair.reset();
  pair.source.intercept(async (request, forward) =>
    isForbidden(request.path) ? { status: 403, body: '{"error":"forbidden"}' } : forward(request),
  );
  for (const name of NAMES) {
    await pair.fill(name, [{ _id: "first" }]);
    const body = { ...pair.body(name), continuous: true };
    await pair.here.call("PUT", `/_replicator/${name}`, body);
  }
  await onceParked(NAMES.length);
  for (const name of NAMES) await arrives(name, "first");
  const before = pair.source.requests.length;
  await pair.here.call("PUT", "/user-7/late", {});
  await arrives("user-7", "late");
  const requests = pair.source.requests.slice(before);
  // Only watchers send `_db_updates` requests. The watcher might have sent this request before the
  // change, so all requests are searched for it.
  const asks = asked.test("/_db_updates") ? pair.source.requests : requests;
  expect(asks.some(({ path }) => asked.test(path))).toBe(true);
  const touched = requests.filter(({ path }) => path.includes("_changes"));
  expect(new Set(touched.map(({ path }) => path.split("/")[1]))).toEqual(new Set(["user-7"]));
  for (const name of NAMES) {
    const { body } = await pair.here.call("GET", `/_replicator/${name}`);
    await pair.here.call("DELETE", `/_replicator/${name}?rev=${body._rev}`);
    await pair.here.call("DELETE", `/${name}`);
    await pair.there.call("DELETE", `/${name}`);
  }
});

test("waking a job does not log anything above the level debug", async () => {
  pair.reset();
  await pair.fill("quiet", [{ _id: "first" }]);
  const body = { ...pair.body("quiet"), continuous: true };
  await pair.here.call("PUT", "/_replicator/quiet", body);
  await onceParked(1);
  const logged: string[] = [];
  for (let number = 1; number <= 3; number++) {
    await onceEndedParked("quiet", number);
    const { length } = pair.here.log();
    await pair.here.call("PUT", `/quiet/late-${number}`, {});
    await arrives("quiet", `late-${number}`);
    await onceEndedParked("quiet", number + 1);
    const lines = pair.here.log().slice(length).split("\n").slice(0, -1);
    expect(lines.some((line) => line.includes("replication.woken"))).toBe(true);
    logged.push(...lines.filter((line) => JSON.parse(line).level !== "debug"));
  }
  expect(logged).toEqual([]);
});

/** Resolves once this number of runs of the job have ended because the job was parked. */
async function onceEndedParked(name: string, count: number): Promise<void> {
  let seen = 0;
  await pair.here.events.event("replication.ended", (event) => {
    const { job } = event as typeof event & { readonly job?: string };
    if (job === `_replicator/${name}` && event.state === "parked") seen++;
    return seen === count;
  });
}
