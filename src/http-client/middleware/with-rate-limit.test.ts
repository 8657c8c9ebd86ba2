import { expect, test } from "vitest";
import type { Fetch } from "../fetch.ts";
import {
  afterAnswer,
  afterTooMany,
  type Estimate,
  RateLimits,
  withRateLimit,
} from "./with-rate-limit.ts";

function at(intervalMs: number, updatedAtMs = 0): Estimate {
  return { intervalMs, updatedAtMs };
}

test("the interval grows by a fifth with each 429, up to 25 s", () => {
  expect(afterTooMany(undefined, 0)).toEqual(at(24));
  expect(afterTooMany(at(24), 100)).toEqual(at(29, 100));
  let estimate = afterTooMany(undefined, 0);
  for (let nowMs = 100; nowMs <= 10_000; nowMs += 100) estimate = afterTooMany(estimate, nowMs);
  expect(estimate.intervalMs).toBe(25_000);
});

test("responses to concurrent requests count once", () => {
  expect(afterTooMany(at(24), 80)).toEqual(at(24));
  expect(afterTooMany(at(24, 1000), 1080)).toEqual(at(24, 1000));
  expect(afterAnswer(at(24), 80)).toEqual(at(24));
});

test.each([
  [25_000, 24_000],
  [10_000, 9900],
  [1000, 960],
  [100, 80],
  [45, 25],
  [30, 20],
])("an interval of %i ms shrinks to %i ms", (beforeMs, afterMs) => {
  expect(afterAnswer(at(beforeMs), 100)).toEqual(at(afterMs, 100));
});

test("an interval that shrinks to zero is dropped, and a missing estimate stays missing", () => {
  expect(afterAnswer(at(20), 100)).toBeUndefined();
  expect(afterAnswer(undefined, 100)).toBeUndefined();
});

test("an idle estimate shrinks by twice the time without a request", () => {
  expect(afterAnswer(at(20_000), 1000)).toEqual(at(19_000, 1000));
  expect(afterAnswer(at(20_000), 5000)).toEqual(at(9900, 5000));
  expect(afterAnswer(at(20_000), 10_000)).toBeUndefined();
});

test("a 429 delays only requests of the same endpoint and method", async () => {
  const limits = new RateLimits();
  const slept: number[] = [];
  let nowMs = 0;
  const clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: async (durationMs: number) => {
      slept.push(durationMs);
      nowMs += durationMs;
    },
  };
  let status = 429;
  const server: Fetch = async () => ({
    status,
    headers: new Map(),
    body: (async function* () {})(),
    discard: () => {},
  });
  const here = withRateLimit({ clock }, server, limits, "http://a/db/");
  const there = withRateLimit({ clock }, server, limits, "http://b/db/");
  const ask = (fetch: Fetch, method: "GET" | "PUT") => {
    nowMs += 100;
    const { signal } = new AbortController();
    return fetch({ method, url: "http://a/db/x", inactivityTimeoutMs: 1000, signal });
  };
  await ask(here, "GET");
  await ask(here, "GET");
  status = 200;
  await ask(here, "PUT");
  await ask(there, "GET");
  expect(slept).toEqual([24]);
  for (let count = 0; count < 4; count++) await ask(here, "GET");
  expect(slept).toEqual([24, 29, 20]);
});

test("an estimate is dropped if its interval reaches zero, or if it is old and over 1,000 exist", () => {
  const limits = new RateLimits();
  limits.observe("GET http://a/db/", 429, 0);
  expect(limits.list()).toEqual([{ endpointUrl: "http://a/db/", intervalMs: 24 }]);
  limits.observe("GET http://a/db/", 200, 100);
  limits.observe("GET http://a/db/", 200, 200);
  limits.observe("GET http://b/db/", 200, 200);
  expect(limits.list()).toEqual([]);
  for (let number = 0; number <= 1000; number++) limits.observe(`GET http://${number}/`, 429, 1000);
  expect(limits.list()).toHaveLength(1001);
  limits.observe("GET http://c/db/", 429, 27_000);
  expect(limits.list()).toEqual([{ endpointUrl: "http://c/db/", intervalMs: 24 }]);
});

test.each([408, 500, 503])("status %d does not affect the rate", (status) => {
  const limits = new RateLimits();
  limits.observe("GET http://host/db", 429, 1_000);
  limits.observe("GET http://host/db", status, 2_000);
  expect(limits.intervalMs("GET http://host/db")).toBe(24);
  limits.observe("GET http://host/db", 200, 3_000);
  expect(limits.intervalMs("GET http://host/db")).toBeLessThan(24);
});
