/** Limits for attempts with wrong passwords. */
import { expect, test } from "vitest";
import type { Clock } from "../../../src/base/index.ts";
import { LoginLockout } from "../../../src/server/users/login-lockout.ts";

const JAN = { name: "jan", salt: "s", peer: "192.0.2.1" };
const LOCKED = "Account is temporarily locked due to multiple authentication failures";

function open(changed: object = {}) {
  let nowMs = 0;
  const clock: Clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: () => Promise.reject(new Error("Nobody waits here")),
  };
  const events: string[] = [];
  const settings = { mode: "enforce", threshold: 5, countedMax: 3, lifetimeMs: 300_000 } as const;
  const trace = { event: (name: string) => void events.push(name) };
  const lockout = new LoginLockout({ ...settings, ...changed }, { clock, trace });
  const fail = (attempt: typeof JAN, count: number): void => {
    for (let number = 0; number < count; number++) lockout.failed(attempt);
  };
  const isLocked = (attempt: typeof JAN): boolean => {
    try {
      lockout.check(attempt);
      return false;
    } catch (error) {
      expect(error).toMatchObject({ status: 403, error: "forbidden", reason: LOCKED });
      return true;
    }
  };
  const pass = (durationMs: number): void => {
    nowMs += durationMs;
  };
  return { pass, events, fail, isLocked };
}

test("the fifth wrong password from an address locks out the user at this address only", () => {
  const { events, fail, isLocked } = open();
  fail(JAN, 4);
  expect(isLocked(JAN)).toBe(false);
  fail(JAN, 1);
  expect(isLocked(JAN)).toBe(true);
  expect(events).toEqual(["users.login-refused"]);
  expect(isLocked({ ...JAN, peer: "192.0.2.2" })).toBe(false);
  expect(isLocked({ ...JAN, name: "eva" })).toBe(false);
  // A new password has a new salt, so that the lock no longer applies.
  expect(isLocked({ ...JAN, salt: "t" })).toBe(false);
});

test("a lockout ends when the configured time since the first failed login has passed", () => {
  const { pass, fail, isLocked } = open();
  fail(JAN, 1);
  pass(200_000);
  fail(JAN, 9);
  pass(99_999);
  expect(isLocked(JAN)).toBe(true);
  pass(1);
  expect(isLocked(JAN)).toBe(false);
  fail(JAN, 4);
  expect(isLocked(JAN)).toBe(false);
});

test("in warn mode no user is locked out, and in off mode no failed logins are counted", () => {
  const warning = open({ mode: "warn" });
  warning.fail(JAN, 5);
  expect(warning.isLocked(JAN)).toBe(false);
  expect(warning.events).toEqual(["users.login-refused"]);
  const off = open({ mode: "off" });
  off.fail(JAN, 9);
  expect(off.isLocked(JAN)).toBe(false);
  expect(off.events).toEqual([]);
});

test("failed logins with invented names use bounded memory, because the oldest count is dropped", () => {
  const { fail, isLocked } = open();
  fail(JAN, 5);
  for (const name of ["a", "b"]) fail({ ...JAN, name }, 1);
  expect(isLocked(JAN)).toBe(true);
  fail({ ...JAN, name: "c" }, 1);
  expect(isLocked(JAN)).toBe(false);
});
