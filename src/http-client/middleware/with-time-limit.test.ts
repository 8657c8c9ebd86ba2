import { expect, test } from "vitest";
import { get } from "../fetch.fixture.ts";
import { type FetchResponse, readText } from "../fetch.ts";
import { withTimeLimit } from "./with-time-limit.ts";

/**
 * Creates a clock whose sleeps end when `ring` is called. `waiting` counts the sleeps not aborted.
 */
function openAlarm() {
  const alarms = new Set<() => void>();
  const sleep = (_: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      alarms.add(resolve);
      signal?.addEventListener("abort", () => {
        alarms.delete(resolve);
        reject(signal.reason);
      });
    });
  return {
    clock: { nowMs: () => 0, monotonicMs: () => 0, sleep },
    ring: () => {
      for (const alarm of alarms) alarm();
    },
    waiting: () => alarms.size,
  };
}

/** Sends the head of a response and one byte, but never the rest. */
async function neverWhole({ signal }: { readonly signal: AbortSignal }): Promise<FetchResponse> {
  return {
    status: 200,
    headers: new Map(),
    body: (async function* () {
      yield new Uint8Array(1);
      await new Promise((_, reject) => {
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      });
    })(),
    discard: () => {},
  };
}

test("a request that exceeds the time limit, even within the body, fails like one without a response", async () => {
  const { clock, ring } = openAlarm();
  const fetch = withTimeLimit({ clock }, neverWhole, () => 1000);
  const reading = readText(await fetch(get("http://host/db/")));
  ring();
  await expect(reading).rejects.toMatchObject({
    code: "HTTP_REQUEST_FAILED",
    details: { cause: "REQUEST_TIMEOUT" },
  });
});

test("no timer remains after a response was read or discarded, and no timer starts without a limit", async () => {
  const { clock, waiting } = openAlarm();
  const whole = async (): Promise<FetchResponse> => ({
    status: 200,
    headers: new Map(),
    body: (async function* () {
      yield new Uint8Array(1);
    })(),
    discard: () => {},
  });
  const fetch = withTimeLimit({ clock }, whole, ({ method }) =>
    method === "GET" ? 1000 : Number.POSITIVE_INFINITY,
  );
  await readText(await fetch(get("http://host/db/")));
  expect(waiting()).toBe(0);
  (await fetch(get("http://host/db/"))).discard();
  expect(waiting()).toBe(0);
  await fetch({ ...get("http://host/db/"), method: "POST" });
  expect(waiting()).toBe(0);
});
