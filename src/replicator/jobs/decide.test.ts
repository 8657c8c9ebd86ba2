/**
 * Tests every cell of the decision tables, and that the replicator's documentation contains the
 * same tables.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parseReplication } from "../request/parse-replication.ts";
import {
  decideDue,
  decideInput,
  decideList,
  decideRun,
  JOB_INPUTS,
  JOB_PHASES,
  type JobKind,
  kindOf,
  NEVER_SEC,
  OUTCOMES,
  phaseOf,
  type RunEnding,
  STEPS,
  STEPS_WHEN_PAUSED,
} from "./decide.ts";
import { type FailureCause, failingAfter, NO_PLACE } from "./failing.ts";
import { ended, jobOutcome, newJobData, type ReplicationJobData } from "./job-data.ts";

const PAGE = readFileSync(new URL("../../../docs/spec/replicator.md", import.meta.url), "utf8");
const NOW_SEC = 1000;
const FAILURE = { error: "econnrefused", reason: "connection refused" };
const CAUSE: FailureCause = {
  class: "unreachable",
  phase: "changes",
  side: "source",
  host: "host:5984",
};
/**
 * Expected failure cause after a run, by how the run ended. `none`: the job is not failing. For
 * endings that are not listed, the failure status is unchanged.
 */
const FAILING_BY_ENDING: Readonly<Partial<Record<RunEnding["kind"], FailureCause | "none">>> = {
  completed: "none",
  "round-completed": "none",
  "caught-up": "none",
  crashed: CAUSE,
  "rate-limited": CAUSE,
  "store-refused": CAUSE,
  "duplicate-of-transient": { ...NO_PLACE, class: "duplicate" },
  "duplicate-of-persistent": { ...NO_PLACE, class: "duplicate" },
  malformed: { ...NO_PLACE, class: "invalid" },
  quarantined: { ...NO_PLACE, class: "other" },
};
const KINDS: readonly JobKind[] = [
  "transient one-shot",
  "transient continuous",
  "persistent",
  "rule",
];

const ENDINGS: { readonly [Kind in RunEnding["kind"]]: Extract<RunEnding, { kind: Kind }> } = {
  completed: { kind: "completed", result: { ok: true } },
  "round-completed": { kind: "round-completed", nextSec: 150 },
  "outside-schedule": { kind: "outside-schedule", nextSec: 150 },
  "caught-up": { kind: "caught-up", updateSequence: "7-x", pending: 0, startTimes: undefined },
  stopped: { kind: "stopped" },
  stalled: { kind: "stalled", reason: "nothing moved" },
  crashed: { kind: "crashed", failure: FAILURE, cause: CAUSE, unreachable: "http://host" },
  "rate-limited": { kind: "rate-limited", failure: FAILURE, cause: CAUSE },
  "store-refused": { kind: "store-refused", failure: FAILURE, cause: CAUSE },
  "duplicate-of-transient": { kind: "duplicate-of-transient", failure: FAILURE },
  "duplicate-of-persistent": { kind: "duplicate-of-persistent", failure: FAILURE },
  malformed: { kind: "malformed", failure: FAILURE },
  quarantined: { kind: "quarantined", failure: FAILURE },
  "list-tried": { kind: "list-tried" },
  "list-stopped": { kind: "list-stopped" },
  "list-met": { kind: "list-met" },
};

function dataOf(kind: JobKind): ReplicationJobData {
  const continuous = kind === "transient continuous" || kind === "rule";
  const replication = parseReplication({ source: "a", target: "b", continuous });
  const asked = { replication, refusal: undefined };
  const document =
    kind === "persistent" ? { database: "_replicator", databaseUuid: "u", id: "d" } : undefined;
  const rule = kind === "rule" ? "users" : undefined;
  const origin = { ...asked, document, rule, userName: null, replicationId: undefined };
  return { ...newJobData(origin, 0), errorCount: 3, stallCount: 1 };
}

/** Returns the rows of the table under this heading, by their first cell. */
function tableOf(heading: string): Map<string, string[]> {
  const [, rest = ""] = PAGE.split(`| ${heading} |`);
  const lines = rest.split("\n").slice(2);
  const rows = lines.slice(
    0,
    lines.findIndex((line) => !line.startsWith("|")),
  );
  const cells = rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  return new Map(cells.map(([name = "", ...others]) => [name, others]));
}

describe("docs/spec/replicator.md", () => {
  test("documents the outcome of each kind of job for each ending of its run", () => {
    const shown = [...tableOf("a run ended")].map(([ending, outcomes]) => [ending, outcomes]);
    const decided = Object.entries(OUTCOMES).map(([ending, outcomes]) => [
      ending,
      KINDS.map((kind) => outcomes[kind]),
    ]);
    expect(shown).toEqual(decided);
  });

  test("documents the reaction to each input in each phase", () => {
    const shown = [...tableOf("input")];
    const decided = JOB_INPUTS.map((input) => [
      input,
      [...JOB_PHASES.map((phase) => STEPS[phase][input]), STEPS_WHEN_PAUSED[input] ?? "the same"],
    ]);
    expect(shown).toEqual(decided);
  });
});

describe.each(KINDS)("a %s job", (kind) => {
  const job = dataOf(kind);
  const before = { ...job, ...jobOutcome("completed", undefined, { session_id: "s" }) };
  const pauseSec = (errorCount: number): number => 100 * errorCount;
  const facts = { nowSec: NOW_SEC, pauseSec, chance: 0.5, auditIntervalSec: 14_400 };

  test(`is classified as ${kind}`, () => {
    expect(kindOf(job)).toBe(kind);
  });

  test.each(Object.values(ENDINGS))("has the expected failure status after $kind", (ending) => {
    const first = failingAfter(undefined, { error: "old", reason: "" }, CAUSE, 5);
    const failing = { ...job, failing: first };
    const found = { ...failing, ...jobOutcome("failed", FAILURE) };
    const after = ended(failing, decideRun(ending, failing, found, facts), {
      nowMs: 9,
      historyLengthMax: 20,
    });
    const expected = FAILING_BY_ENDING[ending.kind];
    if (expected === undefined) expect(after.failing).toEqual(first);
    else if (expected === "none") expect(after.failing).toBeUndefined();
    else {
      expect(after.failing).toEqual({ ...expected, ...FAILURE, sinceMs: 5, lastMs: 9, tries: 2 });
    }
  });

  test.each(Object.values(ENDINGS))("has the expected state after $kind", (ending) => {
    const disposition = decideRun(ending, job, before, facts);
    const outcome = OUTCOMES[ending.kind][kind];
    expect(disposition.state).toBe(outcome === "same" ? before.state : outcome);
    const types = disposition.events.map(({ type }) => type);
    switch (outcome) {
      case "same":
        expect(disposition).toMatchObject({ result: before.result, errorCount: 3, stallCount: 1 });
        expect(types).toEqual(["stopped"]);
        expect(disposition.due).toBe(
          { "list-stopped": NOW_SEC, "list-met": NOW_SEC + 5 }[ending.kind as string] ?? "list",
        );
        break;
      case "completed":
        expect(disposition).toMatchObject({ result: { ok: true }, errorCount: 0, stallCount: 0 });
        expect([types, disposition.due]).toEqual([["stopped"], "list"]);
        break;
      case "parked":
        expect(disposition).toMatchObject({ errorCount: 0, stallCount: 0, due: NOW_SEC + 14_400 });
        expect(types).toEqual(["parked"]);
        break;
      case "pending": {
        const isStall = ending.kind === "stalled";
        expect(types).toEqual([isStall ? "stalled" : "stopped", "pending"]);
        const isRound = ending.kind === "round-completed";
        const counts = isRound
          ? { errorCount: 0, stallCount: 0 }
          : { errorCount: 3, stallCount: isStall ? 2 : 1 };
        const due = "nextSec" in ending ? ending.nextSec : NOW_SEC;
        expect(disposition).toMatchObject({ ...counts, due });
        break;
      }
      case "crashing":
        expect(types).toEqual(["crashed", "pending"]);
        expect(disposition).toMatchObject({ failure: FAILURE, errorCount: 4 });
        expect(disposition.due).toBe(NOW_SEC + (ending.kind === "store-refused" ? 30 : 400));
        expect(disposition.unreachable).toBe(ending.kind === "crashed" ? "http://host" : undefined);
        break;
      case "failed":
        expect(types).toEqual(["crashed"]);
        expect(disposition).toMatchObject({
          failure: FAILURE,
          errorCount: 4,
          unreachable: undefined,
        });
        expect(disposition.due).toBe(ending.kind === "duplicate-of-persistent" ? "ended" : "list");
    }
    if (outcome !== "crashing" && outcome !== "failed") expect(disposition.failure).toBeUndefined();
  });
});

describe("the retry of a failed job with scheduled hours", () => {
  const MINUTE_SEC = 60;
  const HOUR_SEC = 60 * MINUTE_SEC;
  const nowSec = 10 * HOUR_SEC;
  const pauseSec = (): number => 10 * MINUTE_SEC;
  const facts = { nowSec, pauseSec, chance: 0.5, auditIntervalSec: 14_400 };
  const kinds = KINDS.filter((kind) => kind !== "transient one-shot");
  const rows = kinds.flatMap((kind) =>
    Object.values(ENDINGS)
      .filter((ending) => OUTCOMES[ending.kind][kind] === "crashing")
      .map((ending) => [kind, ending.kind, ending] as const),
  );

  test.each(rows)("is due within the hours: %s, %s", (kind, _, ending) => {
    const dueWith = (schedule: string): unknown => {
      const continuous = schedule.startsWith("between");
      const replication = parseReplication({ source: "a", target: "b", schedule, continuous });
      const job = { ...dataOf(kind), replication, refusal: undefined };
      return decideRun(ending, job, job, facts).due;
    };
    const retrySec = ending.kind === "store-refused" ? 30 : 10 * MINUTE_SEC;
    expect(dueWith("between 09:00 and 11:00")).toBe(nowSec + retrySec);
    // If the schedule were ignored, the three retries would be due outside the scheduled hours:
    // just after, before, and long after them.
    expect(dueWith("between 09:00 and 10:00")).toBe(33 * HOUR_SEC);
    expect(dueWith("between 12:00 and 13:00")).toBe(12 * HOUR_SEC);
    expect(dueWith("every 1h between 07:00 and 08:00")).toBe(31 * HOUR_SEC);
  });
});

describe("the failure list of an ended job", () => {
  const list = { isAsked: false, isEmpty: false, isPersistent: true, retrySec: 60, keepSec: 0 };
  const later = { dueAtSec: NOW_SEC + 60, request: "ask" };
  const now = { dueAtSec: NOW_SEC, request: "keep" };
  const never = { dueAtSec: undefined, request: "keep" };
  test.each([
    ["completed", list, later],
    ["completed", { ...list, isEmpty: true }, never],
    ["completed", { ...list, isEmpty: true, keepSec: 60 }, { ...later, request: "keep" }],
    ["completed", { ...list, isEmpty: true, isAsked: true, keepSec: 60 }, now],
    ["completed", { ...list, keepSec: 5 }, later],
    ["failed", { ...list, isEmpty: true, keepSec: 60 }, never],
    ["completed", { ...list, isPersistent: false }, never],
    ["completed", { ...list, retrySec: 0 }, never],
    ["completed", { ...list, isAsked: true, isEmpty: true }, now],
    ["failed", list, never],
    ["failed", { ...list, isAsked: true }, { dueAtSec: undefined, request: "end" }],
  ] as const)("yields the expected decision for a %s job: %j", (state, asked, disposition) => {
    expect(decideList(state, asked, NOW_SEC)).toEqual(disposition);
  });
});

test.each([
  [false, false, 5000],
  [false, true, NOW_SEC],
  [true, false, NEVER_SEC],
  [true, true, NEVER_SEC],
])(
  "a job due at 5000 (paused: %s, other decision: %s) is now due at %d",
  (isPaused, isDecidedAgain, dueAtSec) => {
    expect(decideDue(5000, { isPaused, isDecidedAnew: isDecidedAgain }, NOW_SEC)).toBe(dueAtSec);
  },
);

describe.each(JOB_PHASES)("a job that is %s", (phase) => {
  test.each(JOB_INPUTS)("reacts to %s as in the table", (input) => {
    expect(decideInput(input, phase, false)).toBe(STEPS[phase][input]);
    const stands = STEPS[phase][input] === "refuse-ended";
    const whenPaused = (!stands && STEPS_WHEN_PAUSED[input]) || STEPS[phase][input];
    expect(decideInput(input, phase, true)).toBe(whenPaused);
  });

  test("is in the phase derived from its state in the queue and its data", () => {
    const queue = ({ running: "running", completed: "finished", failed: "finished" } as const)[
      phase as "running"
    ];
    const state = phase === "running" ? "crashing" : phase === "list-due" ? "completed" : phase;
    expect(phaseOf({ state: queue ?? "pending" }, { state })).toBe(phase);
  });
});
