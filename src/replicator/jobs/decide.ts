/**
 * Decides what becomes of a job; no other file does. It is pure, like `choose-stops.ts`. Its callers find out how a run
 * ended, what is wanted of a job and what the store knows of it, and carry the decision out. `docs/spec/replicator.md`
 * shows the same tables.
 */
import { assert } from "../../base/index.ts";
import type { Job } from "../../jobs/index.ts";
import type { SourceSequence, StartTimes } from "../endpoints/endpoint.ts";
import { intoWindow, scheduleOf } from "../request/schedule.ts";
import type { ReplicationFailure } from "./failing.ts";
import { type FailureCause, NO_PLACE } from "./failing.ts";
import {
  type Ended,
  hasEnded,
  jobOutcome,
  type ReplicationJobData,
  type RunOutcome,
} from "./job-data.ts";

/** When a paused job is due: never; CouchDB 4's largest scheduled time (`couch_jobs`). */
export const NEVER_SEC = 2 ** 36;

/** The share by which a job stays parked for less or more than it may: jobs that parked together do not come back together. */
const AUDIT_JITTER = 0.1;

/** How long a job stays parked at most, in seconds. */
export function parkedSecMax(auditIntervalSec: number): number {
  return Math.ceil(auditIntervalSec * (1 + AUDIT_JITTER));
}

/** To try whether its own store has room again costs nobody else anything: a job that failed for want of it waits no longer than this. */
const STORE_PAUSE_SEC_MAX = 30;

/** When a job that has ended looks again whether the owner of its replication has tried their failures. */
const LIST_PAUSE_SEC = 5;

/** How a run ended. */
export type RunEnding =
  /** It came to the end of the changes. */
  | { readonly kind: "completed"; readonly result: Readonly<Record<string, unknown>> }
  /** The same, and its schedule says when it begins the next time. */
  | { readonly kind: "round-completed"; readonly nextSec: number }
  /** Its schedule lets it run later: its hours are over, or the source has too few changes. */
  | { readonly kind: "not-now"; readonly nextSec: number }
  /**
   * All that the source had at `updateSequence` has arrived, and it has been quiet for `park_after_sec`; or its schedule waits for more
   * changes than these.
   */
  | {
      readonly kind: "quiet";
      readonly updateSequence: SourceSequence;
      readonly pending: number;
      /** Undefined for a run that has not asked both sides. */
      readonly startTimes: StartTimes | undefined;
    }
  /** It had its turn, its node stops, or an operator decided something. */
  | { readonly kind: "stopped" }
  /** Nothing moved, though something should have. */
  | { readonly kind: "stalled"; readonly reason: string }
  /** `unreachable`: the origin of a server that could not be reached. */
  | {
      readonly kind: "crashed";
      readonly failure: ReplicationFailure;
      readonly cause: FailureCause;
      readonly unreachable: string | undefined;
    }
  /** A server wants it to come later (`max_backoff`). */
  | {
      readonly kind: "put-off";
      readonly failure: ReplicationFailure;
      readonly cause: FailureCause;
    }
  /** The store of the job refuses to be written, as on a full disk. */
  | {
      readonly kind: "store-refused";
      readonly failure: ReplicationFailure;
      readonly cause: FailureCause;
    }
  /** Another job owns the replication. */
  | { readonly kind: "met-transient"; readonly failure: ReplicationFailure }
  | { readonly kind: "met-persistent"; readonly failure: ReplicationFailure }
  | { readonly kind: "malformed"; readonly failure: ReplicationFailure }
  /** Nodes died over it (`hazard.ts`): it waits for an operator. */
  | { readonly kind: "quarantined"; readonly failure: ReplicationFailure }
  /** A run for the failures alone: they were tried, it was stopped before, or another job owns the replication. */
  | { readonly kind: "list-tried" }
  | { readonly kind: "list-stopped" }
  | { readonly kind: "list-met" };

export type JobKind = "transient one-shot" | "transient continuous" | "persistent" | "rule";

/** `same`: what it was before the run. */
type Outcome = RunOutcome | "same";

const ALL = (outcome: Outcome): Readonly<Record<JobKind, Outcome>> => ({
  "transient one-shot": outcome,
  "transient continuous": outcome,
  persistent: outcome,
  rule: outcome,
});

/** What becomes of a job, by how its run ended. */
export const OUTCOMES: Readonly<Record<RunEnding["kind"], Readonly<Record<JobKind, Outcome>>>> = {
  completed: ALL("completed"),
  "round-completed": ALL("pending"),
  "not-now": ALL("pending"),
  quiet: ALL("parked"),
  stopped: ALL("pending"),
  stalled: ALL("pending"),
  // The caller of a one-shot transient job waits for the answer. No caller waits for the others, and users rely on them.
  crashed: { ...ALL("crashing"), "transient one-shot": "failed" },
  "put-off": ALL("crashing"),
  "store-refused": ALL("crashing"),
  "met-transient": ALL("crashing"),
  // Nobody asks a second time for the job of a rule: it waits until the document is gone.
  "met-persistent": { ...ALL("failed"), rule: "crashing" },
  malformed: ALL("failed"),
  quarantined: ALL("failed"),
  "list-tried": ALL("same"),
  "list-stopped": ALL("same"),
  "list-met": ALL("same"),
};

/** What is written of a run that ended. */
export type Fate = Ended & {
  /** In seconds since the epoch; `list`: as `decideList` says; `ended`: not again. */
  readonly due: number | "list" | "ended";
  /** A server for whose return the job waits, beside its own pause. */
  readonly unreachable: string | undefined;
};

export interface RunFacts {
  readonly nowSec: number;
  /** The pause after so many errors in a row. */
  readonly pauseSec: (errorCount: number) => number;
  /** A random number from 0 to 1. */
  readonly chance: number;
  /** How long a job stays parked at most: then it looks whether both databases are still what they were. */
  readonly auditIntervalSec: number;
}

export function kindOf({
  document,
  rule,
  replication,
}: Pick<ReplicationJobData, "document" | "rule" | "replication">): JobKind {
  if (document !== undefined) return "persistent";
  if (rule !== undefined) return "rule";
  // Nobody waits for the answer of a job that runs again and again.
  const isLasting = replication?.continuous === true || replication?.schedule !== undefined;
  return isLasting ? "transient continuous" : "transient one-shot";
}

/** What becomes of a job whose run ended so. `job`: as the run left it; `before`: as the run found it. */
export function decideRun(
  ending: RunEnding,
  job: ReplicationJobData,
  before: ReplicationJobData,
  { nowSec, pauseSec, chance, auditIntervalSec }: RunFacts,
): Fate {
  const outcome = OUTCOMES[ending.kind][kindOf(job)];
  const { stallCount } = job;
  const { errorCount } = job;
  const base = {
    errorCount,
    stallCount,
    cause: causeOf(ending),
    succeeds: false,
    startTimes: "startTimes" in ending ? ending.startTimes : undefined,
    unreachable: undefined,
  };
  switch (outcome) {
    case "same":
      return {
        ...base,
        ...jobOutcome(before.state, before.failure, before.result),
        errorCount: before.errorCount,
        succeeds: before.state === "completed",
        events: [{ type: "stopped" }],
        due: dueForList(ending.kind, nowSec),
      };
    case "completed": {
      assert(ending.kind === "completed", "Who has completed has a result");
      const events = [{ type: "stopped" }] as const;
      const completed = jobOutcome(outcome, undefined, ending.result);
      const counts = { errorCount: 0, stallCount: 0, succeeds: true };
      return { ...base, ...completed, ...counts, events, due: "list" };
    }
    case "pending": {
      const ended =
        ending.kind === "stalled"
          ? ({ type: "stalled", reason: ending.reason } as const)
          : ({ type: "stopped" } as const);
      const events = [ended, { type: "pending" }] as const;
      const counts = countsAfter(ending.kind, job);
      const due = "nextSec" in ending ? ending.nextSec : nowSec;
      return { ...base, ...jobOutcome(outcome), ...counts, events, due };
    }
    case "parked": {
      const events = [{ type: "parked" }] as const;
      const parked = { ...jobOutcome(outcome), errorCount: 0, stallCount: 0, succeeds: true };
      const auditSec = auditIntervalSec * (1 + (2 * chance - 1) * AUDIT_JITTER);
      return { ...base, ...parked, events, due: nowSec + Math.round(auditSec) };
    }
    case "crashing": {
      const failure = failureOf(ending);
      const errors = errorCount + 1;
      const pauseSecMax =
        ending.kind === "store-refused" ? STORE_PAUSE_SEC_MAX : Number.POSITIVE_INFINITY;
      const dueSec = nowSec + Math.min(pauseSec(errors), pauseSecMax);
      return {
        ...base,
        ...jobOutcome(outcome, failure),
        errorCount: errors,
        events: [{ type: "crashed", reason: reasonOf(failure) }, { type: "pending" }],
        due: intoWindow(scheduleOf(job.replication), dueSec),
        unreachable: ending.kind === "crashed" ? ending.unreachable : undefined,
      };
    }
    case "failed": {
      const failure = failureOf(ending);
      const errors = errorCount + 1;
      const events = [{ type: "crashed", reason: reasonOf(failure) }] as const;
      // A request for a replication's list is for the owner of the replication.
      const due = ending.kind === "met-persistent" ? "ended" : "list";
      return { ...base, ...jobOutcome(outcome, failure), errorCount: errors, events, due };
    }
  }
}

/** Of a job that will run again. */
function countsAfter(
  kind: RunEnding["kind"],
  { errorCount, stallCount }: Pick<ReplicationJobData, "errorCount" | "stallCount">,
): Pick<Fate, "errorCount" | "stallCount" | "succeeds"> {
  if (kind === "round-completed") return { errorCount: 0, stallCount: 0, succeeds: true };
  const stalls = kind === "stalled" ? stallCount + 1 : stallCount;
  return { errorCount, stallCount: stalls, succeeds: false };
}

function dueForList(kind: RunEnding["kind"], nowSec: number): Fate["due"] {
  if (kind === "list-stopped") return nowSec;
  return kind === "list-met" ? nowSec + LIST_PAUSE_SEC : "list";
}

function failureOf(ending: RunEnding): ReplicationFailure {
  assert("failure" in ending, "Who has crashed or failed has a reason");
  return ending.failure;
}

/** Why the job fails from now on, or goes on failing; undefined: this run says nothing about that. */
function causeOf(ending: RunEnding): FailureCause | undefined {
  switch (ending.kind) {
    case "crashed":
    case "put-off":
    case "store-refused":
      return ending.cause;
    case "met-transient":
    case "met-persistent":
      return { ...NO_PLACE, class: "duplicate" };
    case "malformed":
      return { ...NO_PLACE, class: "invalid" };
    case "quarantined":
      return { ...NO_PLACE, class: "other" };
    default:
      return undefined;
  }
}

function reasonOf({ error, reason }: ReplicationFailure): string {
  return `${error}: ${reason}`;
}

/** What the list of failures of a job that has ended asks for. */
export interface ListFate {
  /** When the list is due to be tried; undefined: it is not. */
  readonly dueAtSec: number | undefined;
  /** What is written of the request to try it. */
  readonly request: "keep" | "ask" | "end";
}

export function decideList(
  state: RunOutcome,
  list: {
    readonly isAsked: boolean;
    readonly isEmpty: boolean;
    readonly isPersistent: boolean;
    /** `failure_retry_sec`; 0: only when asked. */
    readonly retrySec: number;
    /** `keep_finished_sec`; 0: it stays. */
    readonly keepSec: number;
  },
  nowSec: number,
): ListFate {
  // The request came too late for the run that ended.
  if (list.isAsked && state === "completed") return { dueAtSec: nowSec, request: "keep" };
  // A job that fails for good would fail again: it must not run in circles.
  if (list.isAsked) return { dueAtSec: undefined, request: "end" };
  // Then the job is deleted.
  if (state === "completed" && list.isEmpty && list.keepSec > 0) {
    return { dueAtSec: nowSec + list.keepSec, request: "keep" };
  }
  const isScheduled =
    state === "completed" && list.isPersistent && list.retrySec > 0 && !list.isEmpty;
  if (!isScheduled) return { dueAtSec: undefined, request: "keep" };
  return { dueAtSec: nowSec + list.retrySec, request: "ask" };
}

/** When a parked job is due: to look at both databases, or sooner, to try the failures of its list again. */
export function decideParked(
  auditAtSec: number,
  list: { readonly isAsked: boolean; readonly isEmpty: boolean; readonly retrySec: number },
  nowSec: number,
): number {
  const { isAsked, isEmpty, retrySec } = list;
  // The request came too late for the run that ended.
  if (isAsked) return nowSec;
  const retries = retrySec > 0 && !isEmpty;
  return retries ? Math.min(auditAtSec, nowSec + retrySec) : auditAtSec;
}

/** When a job is due that would be due then, after what operators decided while it ran. */
export function decideDue(
  dueAtSec: number,
  control: { readonly isPaused: boolean; readonly isDecidedAnew: boolean },
  nowSec: number,
): number {
  if (control.isPaused) return NEVER_SEC;
  return control.isDecidedAnew ? nowSec : dueAtSec;
}

/** Where a job is for those who want something of it. `list-due`: it has ended, and its failures are to be tried again. */
export const JOB_PHASES = [
  "pending",
  "running",
  "parked",
  "crashing",
  "list-due",
  "completed",
  "failed",
] as const;
export type JobPhase = (typeof JOB_PHASES)[number];

export function phaseOf(
  job: Pick<Job, "state">,
  data: Pick<ReplicationJobData, "state">,
): JobPhase {
  if (job.state === "running") return "running";
  return job.state === "pending" && hasEnded(data.state) ? "list-due" : data.state;
}

/**
 * A wish: what a user, an operator or a service wants of a job.
 *
 *   pause, resume, retry, reset, cancel   an operator; `reset` also from a sequence
 *   stop          its user cancels a transient job (`_replicate`)
 *   same, other   its document is written, or it is asked for, again: with the same replication, or another
 *   try-list      its failures are to be tried again
 *   reachable     the server answers again that it could not reach
 *   changed       its source has changed since it parked, or cannot be watched any more
 *   old           it ended longer ago than anybody may ask for
 */
export const JOB_WISHES = [
  "pause",
  "resume",
  "retry",
  "reset",
  "cancel",
  "stop",
  "same",
  "other",
  "try-list",
  "reachable",
  "changed",
  "old",
] as const;
export type JobWish = (typeof JOB_WISHES)[number];

/**
 * What is done about it.
 *
 *   nothing        it is so already, or it makes no difference
 *   refuse-ended   the job has ended: it can be retried and reset
 *   refuse-paused  the job is paused: it has to be resumed
 *   pause          it is never due
 *   due            it is due at once
 *   due-soon       it is due at once, a little spread with the others
 *   again          it is due at once, and how it ended last is forgotten
 *   restart        the same, and it begins where it is told, with figures that begin at zero
 *   restart-later  the same, when it is resumed
 *   replace        a new job takes its place
 *   remove
 */
export type JobStep =
  | "nothing"
  | "refuse-ended"
  | "refuse-paused"
  | "pause"
  | "due"
  | "due-soon"
  | "again"
  | "restart"
  | "restart-later"
  | "replace"
  | "remove";

/** What is done, by where the job is. A job that is running learns of it through its watch. */
export const STEPS: Readonly<Record<JobPhase, Readonly<Record<JobWish, JobStep>>>> = {
  pending: waiting({ same: "nothing", reachable: "nothing" }),
  parked: { ...waiting({ same: "nothing", reachable: "nothing" }), changed: "again" },
  running: {
    ...waiting({ same: "nothing", reachable: "nothing" }),
    retry: "nothing",
    "try-list": "nothing",
  },
  crashing: waiting({ same: "replace", reachable: "due-soon" }),
  "list-due": waiting({ same: "replace", reachable: "nothing" }),
  completed: ended(),
  failed: ended(),
};

function waiting(differing: Pick<Record<JobWish, JobStep>, "same" | "reachable">) {
  return {
    pause: "pause",
    resume: "nothing",
    retry: "again",
    reset: "restart",
    cancel: "remove",
    stop: "remove",
    other: "replace",
    "try-list": "due",
    changed: "nothing",
    old: "nothing",
    ...differing,
  } as const satisfies Record<JobWish, JobStep>;
}

function ended() {
  return {
    ...waiting({ same: "replace", reachable: "nothing" }),
    pause: "refuse-ended",
    stop: "nothing",
    old: "remove",
  } as const satisfies Record<JobWish, JobStep>;
}

/** What is done instead when the job is paused, wherever it is. */
export const STEPS_WHEN_PAUSED: Readonly<Partial<Record<JobWish, JobStep>>> = {
  pause: "nothing",
  resume: "due",
  retry: "refuse-paused",
  reset: "restart-later",
  "try-list": "nothing",
  reachable: "nothing",
  changed: "nothing",
};

export function decideWish(wish: JobWish, phase: JobPhase, isPaused: boolean): JobStep {
  const step = STEPS[phase][wish];
  if (!isPaused || step === "refuse-ended") return step;
  return STEPS_WHEN_PAUSED[wish] ?? step;
}
