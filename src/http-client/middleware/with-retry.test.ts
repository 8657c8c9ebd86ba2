import { expect, test } from "vitest";
import { get, openClock, openServer, type Reply } from "../fetch.fixture.ts";
import { withRetry } from "./with-retry.ts";

const OPTIONS = { retryCountMax: 5, failingMsMax: 60_000 };

/**
 * Sends a request whose first attempt gets this response, and whose second gets 200. Returns the
 * pause between the attempts.
 */
async function pauseAfter(reply: Reply): Promise<number | undefined> {
  const clock = openClock();
  const replies = [reply, { status: 200 }];
  const server = openServer(() => replies.shift() ?? { status: 200 });
  const response = await withRetry(
    { clock, trace: { event: () => {} } },
    server.fetch,
    OPTIONS,
  )(get("http://host/db/"));
  expect(response.status).toBe(200);
  return clock.slept[0];
}

const date = "Sat, 21 Nov 2026 10:00:00 GMT";
const later = "Sat, 21 Nov 2026 10:00:07 GMT";

test.each<[number, Record<string, string>, number]>([
  [429, {}, 1000],
  [429, { "retry-after": "3" }, 3000],
  [429, { "retry-after": "0" }, 100],
  [429, { "retry-after": later, date }, 7000],
  [429, { "retry-after": date, date: later }, 100],
  [429, { "retry-after": "soon" }, 1000],
  [429, { "retry-after": "999999" }, 300_000],
  [503, {}, 250],
  [503, { "retry-after": "3" }, 3000],
  [503, { "retry-after": later, date }, 7000],
])("after %i with %j the request waits %i ms", async (status, headers, pauseMs) => {
  expect(await pauseAfter({ status, headers })).toBe(pauseMs);
});

test("if the response has no Date header, a Retry-After date is compared with the local clock", async () => {
  // The test's clock starts 1,000 s after the epoch.
  const reply = { status: 429, headers: { "retry-after": "Thu, 01 Jan 1970 00:16:49 GMT" } };
  expect(await pauseAfter(reply)).toBe(9000);
});

test("a server that returns only 429 is retried no longer than a server that fails", async () => {
  const clock = openClock();
  const server = openServer(() => ({ status: 429, headers: { "retry-after": "7" } }));
  const fetch = withRetry({ clock, trace: { event: () => {} } }, server.fetch, OPTIONS);
  expect((await fetch(get("http://host/db/"))).status).toBe(429);
  // Pauses begin at 0, 7, …, 56 s, within the permitted 60 s.
  expect(clock.slept).toHaveLength(9);
});

test.each([429, 503])(
  "a server that answers %d is retried up to and including the end of the permitted time",
  async (status) => {
    const clock = openClock();
    const server = openServer(() => ({ status, headers: { "retry-after": "30" } }));
    const fetch = withRetry({ clock, trace: { event: () => {} } }, server.fetch, OPTIONS);
    expect((await fetch(get("http://host/db/"))).status).toBe(status);
    // A pause can begin up to 60 s after the first failure: these begin after 0, 30 and 60 s.
    expect(clock.slept).toEqual([30_000, 30_000, 30_000]);
  },
);
