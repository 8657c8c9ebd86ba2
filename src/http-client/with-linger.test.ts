import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { get, openClock, openServer } from "./fetch.fixture.ts";
import { withLinger } from "./with-linger.ts";

const OPTIONS = { isWrite: () => true, waits: () => true, lingerMsMax: 1000 };

async function sendMany(
  end: (response: Awaited<ReturnType<ReturnType<typeof withLinger>>>) => unknown,
) {
  const run = new AbortController();
  const { fetch } = openServer(() => ({ status: 201, body: "{}" }));
  const lingering = withLinger(openClock(), fetch, OPTIONS);
  for (let number = 0; number < 20; number++) {
    await end(await lingering({ ...get("http://host/db/doc"), method: "PUT", signal: run.signal }));
  }
  return getEventListeners(run.signal, "abort").length;
}

test("leaves no listener at the signal of a run once an answer was read", async () => {
  const left = await sendMany(async ({ body }) => {
    for await (const _ of body) {
      // Reads the body to its end.
    }
  });
  expect(left).toBe(0);
});

test("leaves no listener at the signal of a run once an answer was discarded", async () => {
  expect(await sendMany((response) => response.discard())).toBe(0);
});
