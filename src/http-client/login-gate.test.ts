import fc from "fast-check";
import { expect, test } from "vitest";
import {
  admitLogin,
  closedGate,
  type GateOpening,
  isIdle,
  LOGIN_RECORD_EMPTY,
  type LoginRecord,
  type LoginVerdict,
  openGate,
  settleLogin,
} from "./login-gate.ts";

const SEC = 1_000;

/**
 * Creates the gate of one account. With `try`, an admitted login ends immediately with the verdict.
 */
function openAccount() {
  let record: LoginRecord = LOGIN_RECORD_EMPTY;
  let count = 0;
  const admit = (credential: string, nowMs: number) => {
    const id = `attempt-${count++}`;
    const admission = admitLogin(record, { credential, id }, nowMs);
    if (admission.kind === "admitted") record = admission.record;
    return { ...admission, id };
  };
  return {
    admit,
    settle(credential: string, id: string, verdict: LoginVerdict, nowMs: number): void {
      record = settleLogin(record, { credential, id, verdict }, nowMs);
    },
    /** Returns the verdict, or the time of the next permitted attempt. */
    try(credential: string, verdict: LoginVerdict, nowMs: number): LoginVerdict | number {
      const admission = admit(credential, nowMs);
      if (admission.kind === "closed") return admission.untilMs;
      this.settle(credential, admission.id, verdict, nowMs);
      return verdict;
    },
    open(opening: GateOpening = "untried"): void {
      record = openGate(record, opening);
    },
    isIdle: (nowMs: number) => isIdle(record, nowMs),
    closed: (credential: string | undefined, nowMs: number) =>
      closedGate(record, credential, nowMs),
  };
}

test("a refused password has to wait for 75 s, then twice as long each time, up to an hour", () => {
  const account = openAccount();
  const times: number[] = [];
  for (let nowMs = 0; nowMs < 5 * 3_600 * SEC; nowMs += SEC) {
    if (account.try("wrong", "refused", nowMs) === "refused") times.push(nowMs / SEC);
  }
  const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0));
  expect(pauses.slice(0, 7)).toEqual([75, 150, 300, 600, 1_200, 2_400, 3_600]);
});

test("different passwords of one account share a limit of one attempt per 75 s", () => {
  const account = openAccount();
  const times: number[] = [];
  for (let nowMs = 0; nowMs < 600 * SEC; nowMs += SEC) {
    const verdict = account.try(`wrong-${nowMs}`, "refused", nowMs);
    if (verdict === "refused") times.push(nowMs / SEC);
  }
  expect(times).toEqual([0, 75, 150, 225, 330, 405, 480, 555]);
});

test("an accepted password passes while other passwords are refused", () => {
  const account = openAccount();
  expect(account.try("wrong", "refused", 0)).toBe("refused");
  expect(account.try("right", "accepted", 75 * SEC)).toBe("accepted");
  expect(account.try("right", "accepted", 76 * SEC)).toBe("accepted");
  expect(account.try("wrong", "refused", 77 * SEC)).toBe("refused");
  expect(account.try("right", "accepted", 78 * SEC)).toBe("accepted");
});

test("a locked account blocks logins for 75 s, then twice as long each time, until a login is accepted", () => {
  const account = openAccount();
  expect(account.try("right", "accepted", 0)).toBe("accepted");
  expect(account.try("right", "locked", SEC)).toBe("locked");
  expect(account.try("right", "locked", 2 * SEC)).toBe(76 * SEC);
  expect(account.try("right", "locked", 76 * SEC)).toBe("locked");
  expect(account.try("right", "locked", 77 * SEC)).toBe((76 + 150) * SEC);
  expect(account.try("right", "accepted", 226 * SEC)).toBe("accepted");
  expect(account.try("right", "accepted", 227 * SEC)).toBe("accepted");
});

test("a new credential passes once, unless two logins have failed", () => {
  const account = openAccount();
  expect(account.try("wrong-0", "refused", 0)).toBe("refused");
  account.open();
  expect(account.try("wrong-1", "refused", SEC)).toBe("refused");
  expect(account.try("right", "accepted", 2 * SEC)).toBe(76 * SEC);
  account.open();
  expect(account.try("right", "accepted", 2 * SEC)).toBe(76 * SEC);
});

test("a credential set by an operator waits if its failure would be the fifth in five minutes", () => {
  const account = openAccount();
  expect(account.try("wrong-0", "refused", 0)).toBe("refused");
  for (const number of [1, 2, 3]) {
    account.open("any");
    expect(account.try(`wrong-${number}`, "refused", number * SEC)).toBe("refused");
  }
  account.open("any");
  expect(account.try("right", "accepted", 4 * SEC)).toBe(330 * SEC);
  expect(account.try("right", "accepted", 330 * SEC)).toBe("accepted");
});

test("an opening for one credential remains until that credential is tried, and admits it once", () => {
  const account = openAccount();
  expect(account.try("wrong", "refused", 0)).toBe("refused");
  account.open({ credential: "new" });
  account.open("untried");
  expect(account.try("wrong", "refused", SEC)).toBe(75 * SEC);
  expect(account.try("other", "refused", SEC)).toBe(75 * SEC);
  expect(account.try("new", "refused", SEC)).toBe("refused");
  expect(account.try("new", "refused", 2 * SEC)).toBe(76 * SEC);
});

test("an accepted credential of a user replaces the rejected ones, which still have to wait", () => {
  const account = openAccount();
  expect(account.try("wrong", "refused", 0)).toBe("refused");
  account.open({ credential: "right" });
  expect(account.try("right", "accepted", SEC)).toBe("accepted");
  expect(account.closed(undefined, SEC)).toBeUndefined();
  expect(account.closed("wrong", SEC)).toMatchObject({ isRefused: true });
  expect(account.try("wrong", "refused", 2 * SEC)).toBe(75 * SEC);
  expect(account.try("wrong", "refused", 75 * SEC)).toBe("refused");
  expect(account.closed(undefined, 76 * SEC)).toMatchObject({ untilMs: (75 + 150) * SEC });
});

test("a closed gate is reported with its reason, for all rejected credentials or for one of them", () => {
  const account = openAccount();
  expect(account.closed(undefined, 0)).toBeUndefined();
  expect(account.admit("wrong", 0).kind).toBe("admitted");
  expect(account.closed(undefined, 0)).toBeUndefined();
  account.settle("wrong", "attempt-0", "refused", 0);
  const refused = { status: "refused", untilMs: 75 * SEC };
  expect(account.closed(undefined, SEC)).toEqual({ ...refused, isRefused: true });
  expect(account.closed("other", SEC)).toEqual({ ...refused, isRefused: false });
  expect(account.closed(undefined, 75 * SEC)).toBeUndefined();
  expect(account.try("wrong", "locked", 75 * SEC)).toBe("locked");
  expect(account.closed("wrong", 76 * SEC)).toMatchObject({ status: "locked" });
  account.open({ credential: "right" });
  expect(account.closed("right", 76 * SEC)).toBeUndefined();
  expect(account.try("right", "accepted", 76 * SEC)).toBe("accepted");
  expect(account.closed("right", 77 * SEC)).toBeUndefined();
});

test("a refused password passes immediately only when an operator sets it again", () => {
  const account = openAccount();
  expect(account.try("wrong", "refused", 0)).toBe("refused");
  account.open();
  expect(account.try("wrong", "refused", SEC)).toBe(75 * SEC);
  account.open("any");
  expect(account.try("wrong", "refused", 2 * SEC)).toBe("refused");
});

test("passwords that are not verified yet are tried one after the other", () => {
  const account = openAccount();
  const first = account.admit("first", 0);
  expect(first.kind).toBe("admitted");
  expect(account.admit("second", SEC)).toMatchObject({ kind: "closed", untilMs: 60 * SEC });
  account.settle("first", first.id, "accepted", 2 * SEC);
  expect(account.admit("second", 2 * SEC).kind).toBe("admitted");
});

test("a login that never ends counts as failed", () => {
  const account = openAccount();
  account.admit("lost", 0);
  expect(account.try("other", "refused", 61 * SEC)).toBe(75 * SEC);
});

test("a response without a verdict blocks nothing", () => {
  const account = openAccount();
  for (let nowMs = 0; nowMs < 100; nowMs++) {
    expect(account.try("right", "unknown", nowMs)).toBe("unknown");
  }
  expect(account.isIdle(100)).toBe(true);
});

test("an account without failures reports nothing", () => {
  const account = openAccount();
  account.try("right", "accepted", 0);
  expect(account.isIdle(0)).toBe(true);
  account.try("wrong", "refused", 1);
  expect(account.isIdle(1)).toBe(false);
  expect(account.isIdle(2 * 86_400 * SEC)).toBe(true);
});

test("no order of attempts, replacements and crashes causes five failures in five minutes", () => {
  const step = fc.record({
    pauseMs: fc.integer({ min: 0, max: 100 * SEC }),
    credential: fc.constantFrom("a", "b", "c", "d"),
    opens: fc.constantFrom<GateOpening | "no">("no", "untried", "any"),
    end: fc.constantFrom<LoginVerdict | "dies">("refused", "refused", "locked", "dies", "accepted"),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const account = openAccount();
      const failures: number[] = [];
      let nowMs = 0;
      for (const { pauseMs, credential, opens, end } of steps) {
        nowMs += pauseMs;
        if (opens !== "no") account.open(opens);
        const admission = account.admit(credential, nowMs);
        if (admission.kind === "closed") continue;
        if (end === "refused" || end === "dies") failures.push(nowMs);
        if (end !== "dies") account.settle(credential, admission.id, end, nowMs);
        expect(failures.filter((time) => time > nowMs - 300 * SEC).length).toBeLessThan(5);
      }
    }),
  );
});
