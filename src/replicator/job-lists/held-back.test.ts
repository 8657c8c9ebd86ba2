import { expect, test } from "vitest";
import { NEVER_SEC } from "../jobs/decide.ts";
import { type Failing, failingAfter, NO_PLACE } from "../jobs/failing.ts";
import { newJobData, type ReplicationState } from "../jobs/job-data.ts";
import { type HeldBackFacts, heldBackBy } from "./held-back.ts";

const refusal = { error: "e", reason: "r" };
const failing = (failureClass: Failing["class"]): Failing =>
  failingAfter(undefined, refusal, { ...NO_PLACE, class: failureClass }, 5);
const job = newJobData(
  { replication: undefined, refusal, document: undefined, userName: null, replicationId: "id" },
  0,
);
const NOTHING: HeldBackFacts = {
  nowSec: 100,
  awaitsServer: false,
  isOthersTurn: false,
  isStoreFull: false,
};
const FULL = { isStoreFull: true };

test.each<[string | undefined, ReplicationState, number, Partial<HeldBackFacts>, object]>([
  ["paused", "pending", NEVER_SEC, {}, {}],
  ["paused", "crashing", NEVER_SEC, { awaitsServer: true }, {}],
  ["outage", "crashing", 200, { awaitsServer: true }, { failing: failing("unreachable") }],
  ["backoff", "crashing", 200, {}, { failing: failing("unreachable") }],
  ["limiter", "crashing", 200, {}, { failing: failing("rate_limited") }],
  ["slot", "pending", 100, {}, {}],
  ["slot", "crashing", 50, {}, { failing: failing("rate_limited") }],
  ["share", "pending", 50, { isOthersTurn: true }, {}],
  ["budget", "running", 50, { isOthersTurn: true }, { waitsFor: "budget" }],
  [undefined, "running", 50, {}, {}],
  ["storage", "running", 50, FULL, { waitsFor: "budget" }],
  ["storage", "pending", 100, FULL, {}],
  [
    "storage",
    "crashing",
    200,
    { ...FULL, awaitsServer: true },
    { failing: failing("storage_full") },
  ],
  ["paused", "pending", NEVER_SEC, FULL, {}],
  [undefined, "completed", 50, FULL, {}],
  [undefined, "running", 50, FULL, { state: "parked" }],
  [undefined, "completed", 50, { isOthersTurn: true }, {}],
  [undefined, "failed", 200, {}, {}],
])(
  "the reason is %s for a job that is %s and due at %i, given %j",
  (by, state, dueSec, facts, data) => {
    const entry = { state, data: { ...job, ...data }, scheduledAtSec: dueSec, isUnplaced: false };
    expect(heldBackBy(entry, { ...NOTHING, ...facts })).toBe(by);
    const unplaced = heldBackBy({ ...entry, isUnplaced: true }, { ...NOTHING, ...facts });
    expect(unplaced).toBe("placement");
  },
);
