/**
 * Decides the next state of a job; no other file does. Pure. Callers determine how a run ended,
 * what was requested and what is stored, and apply the decision. `docs/spec/replicator.md` contains
 * the same tables.
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

/** Due time of a paused job: CouchDB 4's largest scheduled time (`couch_jobs`). */
export const NEVER_SEC = 2 ** 36;

/** Due time of a job that waits for other jobs, until `chains/` schedules the job. */
export const AWAITING_SEC = NEVER_SEC - 1;

/**
 * Whether a job waits for other jobs to complete or catch up. Until it starts, its lag is unknown.
 */
export function isAwaiting({ state, scheduledAtSec }: Pick<Job, "state" | "scheduledAtSec">) {
  return state === "pending" && scheduledAtSec === AWAITING_SEC;
}

/**
 * Relative jitter of the parking time, so that jobs parked at the same time do not become due at
 * the same time.
 */
const AUDIT_JITTER = 0.1;

export function parkedSecMax(auditIntervalSec: number): number {
  return Math.ceil(auditIntervalSec * (1 + AUDIT_JITTER));
}

/**
 * Maximum pause if the disk of our own store is full. Shorter than other pauses, since a retry puts
 * no load on other servers.
 */
const STORE_PAUSE_SEC_MAX = 30;

/** Interval for checking whether the job that owns the replication has retried the failures. */
const LIST_PAUSE_SEC = 5;

/** Position from which one direction of a parked job continues. */
export interface Parked {
  /** Update sequence of the direction's source up to which all changes have arrived. */
  readonly updateSequence: SourceSequence;
  /** Creation times of both databases; undefined if the run has not requested them. */
  readonly startTimes: StartTimes | undefined;
}

export type RunEnding =
  /** The run has copied all changes, and the job is complete. */
  | { readonly kind: "completed"; readonly result: Readonly<Record<string, unknown>> }
  /** The run has copied all changes. The schedule determines when the next run starts. */
  | { readonly kind: "round-completed"; readonly nextSec: number }
  /**
   * The schedule postpones the run: the job is outside its hours, or has too few pending changes.
   */
  | { readonly kind: "outside-schedule"; readonly nextSec: number }
  /**
   * All changes up to `updateSequence` have arrived, and the source is idle. Also used if the
   * schedule requires a number of changes (`after N changes`) and fewer are pending.
   */
  | (Parked & {
      readonly kind: "caught-up";
      readonly pending: number;
      /** The reverse direction of a pair. */
      readonly reverse?: Parked | undefined;
    })
  /** The run was stopped: its time slice was over, its node is stopping, or an operator acted. */
  | { readonly kind: "stopped" }
  /** The run made no progress despite pending work. */
  | { readonly kind: "stalled"; readonly reason: string }
  /** The run failed. `unreachable` is the origin of the server, if it was unreachable. */
  | {
      readonly kind: "crashed";
      readonly failure: ReplicationFailure;
      readonly cause: FailureCause;
      readonly unreachable: string | undefined;
    }
  /** A server demanded a pause longer than allowed (`max_backoff`). */
  | {
      readonly kind: "rate-limited";
      readonly failure: ReplicationFailure;
      readonly cause: FailureCause;
    }
  /** Our own store rejected writes, for example because the disk is full. */
  | {
      readonly kind: "store-refused";
      readonly failure: ReplicationFailure;
      readonly cause: FailureCause;
    }
  /** Another job owns the replication. */
  | { readonly kind: "duplicate-of-transient"; readonly failure: ReplicationFailure }
  | { readonly kind: "duplicate-of-persistent"; readonly failure: ReplicationFailure }
  | { readonly kind: "malformed"; readonly failure: ReplicationFailure }
  /**
   * The job is not run, because nodes crashed while running it (`hazard.ts`). An operator has to
   * retry the job.
   */
  | { readonly kind: "quarantined"; readonly failure: ReplicationFailure }
  /**
   * Endings of runs that only retry failures. `list-tried`: the list was processed. `list-stopped`:
   * the run was stopped. `list-met`: another job owns the replication.
   */
  | { readonly kind: "list-tried" }
  | { readonly kind: "list-stopped" }
  | { readonly kind: "list-met" };

export type JobKind = "transient one-shot" | "transient continuous" | "persistent" | "rule";

/** Outcome of a job after a run. `same`: as before the run. */
type Outcome = RunOutcome | "same";

const ALL = (outcome: Outcome): Readonly<Record<JobKind, Outcome>> => ({
  "transient one-shot": outcome,
  "transient continuous": outcome,
  persistent: outcome,
  rule: outcome,
});

/** Outcome of a job, by the ending of its run and by the kind of the job. */
export const OUTCOMES: Readonly<Record<RunEnding["kind"], Readonly<Record<JobKind, Outcome>>>> = {
  completed: ALL("completed"),
  "round-completed": ALL("pending"),
  "outside-schedule": ALL("pending"),
  "caught-up": ALL("parked"),
  stopped: ALL("pending"),
  stalled: ALL("pending"),
  // A transient one-shot job fails immediately, because a caller waits for it. All other jobs are
  // retried.
  crashed: { ...ALL("crashing"), "transient one-shot": "failed" },
  "rate-limited": ALL("crashing"),
  "store-refused": ALL("crashing"),
  "duplicate-of-transient": ALL("crashing"),
  // A rule's job is retried: the rule would not request the job again after the document of the
  // other job is deleted.
  "duplicate-of-persistent": { ...ALL("failed"), rule: "crashing" },
  malformed: ALL("failed"),
  quarantined: ALL("failed"),
  "list-tried": ALL("same"),
  "list-stopped": ALL("same"),
  "list-met": ALL("same"),
};

/** Changes to a job that are written at the end of its run. */
export type Disposition = Ended & {
  /**
   * Due time in seconds since the epoch. `list`: to be determined by `decideList`. `ended`: the job
   * does not become due again.
   */
  readonly due: number | "list" | "ended";
  /** Origin of an unreachable server. The job becomes due when the server recovers. */
  readonly unreachable: string | undefined;
};

export interface RunFacts {
  readonly nowSec: number;
  /** Returns the pause after this number of consecutive errors. */
  readonly pauseSec: (errorCount: number) => number;
  /** Random number in [0, 1), for jitter. */
  readonly chance: number;
  /** Maximum parking time before both databases are checked. */
  readonly auditIntervalSec: number;
}

export function kindOf({
  document,
  rule,
  replication,
}: Pick<ReplicationJobData, "document" | "rule" | "replication">): JobKind {
  if (document !== undefined) return "persistent";
  if (rule !== undefined) return "rule";
  // No caller waits for a job that runs repeatedly, so treat it as continuous.
  const isLasting = replication?.continuous === true || replication?.schedule !== undefined;
  return isLasting ? "transient continuous" : "transient one-shot";
}

/**
 * Returns the changes to a job after a run. `before` is the job at the start of the run, and `job`
 * at the end of the run.
 */
export function decideRun(
  ending: RunEnding,
  job: ReplicationJobData,
  before: ReplicationJobData,
  { nowSec, pauseSec, chance, auditIntervalSec }: RunFacts,
): Disposition {
  const outcome = OUTCOMES[ending.kind][kindOf(job)];
  const { stallCount } = job;
  const { errorCount } = job;
  const base = {
    errorCount,
    stallCount,
    cause: causeOf(ending),
    succeeds: false,
    startTimes: ending.kind === "caught-up" ? ending.startTimes : undefined,
    reverseStartTimes: ending.kind === "caught-up" ? ending.reverse?.startTimes : undefined,
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
      assert(ending.kind === "completed", "A completed run must have a result");
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
      // The failure list is retried by the job that owns the replication.
      const due = ending.kind === "duplicate-of-persistent" ? "ended" : "list";
      return { ...base, ...jobOutcome(outcome, failure), errorCount: errors, events, due };
    }
  }
}

/** Returns the counters of a job that will run again. */
function countsAfter(
  kind: RunEnding["kind"],
  { errorCount, stallCount }: Pick<ReplicationJobData, "errorCount" | "stallCount">,
): Pick<Disposition, "errorCount" | "stallCount" | "succeeds"> {
  if (kind === "round-completed") return { errorCount: 0, stallCount: 0, succeeds: true };
  const stalls = kind === "stalled" ? stallCount + 1 : stallCount;
  return { errorCount, stallCount: stalls, succeeds: false };
}

function dueForList(kind: RunEnding["kind"], nowSec: number): Disposition["due"] {
  if (kind === "list-stopped") return nowSec;
  return kind === "list-met" ? nowSec + LIST_PAUSE_SEC : "list";
}

function failureOf(ending: RunEnding): ReplicationFailure {
  assert("failure" in ending, "A crashed or failed run must have a reason");
  return ending.failure;
}

/** Returns why the run failed or stalled; undefined if it did neither. */
function causeOf(ending: RunEnding): FailureCause | undefined {
  switch (ending.kind) {
    case "crashed":
    case "rate-limited":
    case "store-refused":
      return ending.cause;
    case "duplicate-of-transient":
    case "duplicate-of-persistent":
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

/** Decision about the failure list of an ended job. */
export interface ListFate {
  /** Time of the next retry, or of the job's deletion; undefined for never. */
  readonly dueAtSec: number | undefined;
  /**
   * Action on the stored retry request: `keep` leaves it unchanged, `ask` adds it, `end` removes
   * it.
   */
  readonly request: "keep" | "ask" | "end";
}

export function decideList(
  state: RunOutcome,
  list: {
    readonly isAsked: boolean;
    readonly isEmpty: boolean;
    readonly isPersistent: boolean;
    /** Interval of retries (`failure_retry_sec`); 0 to retry only on request. */
    readonly retrySec: number;
    /** Time until an ended job is deleted (`keep_finished_sec`); 0 to keep the job. */
    readonly keepSec: number;
  },
  nowSec: number,
): ListFate {
  // The run ended before it noticed this retry request, so run again.
  if (list.isAsked && state === "completed") return { dueAtSec: nowSec, request: "keep" };
  // Drop the request: a permanently failed job would fail again, and would be retried endlessly.
  if (list.isAsked) return { dueAtSec: undefined, request: "end" };
  // At this due time, the job is deleted.
  if (state === "completed" && list.isEmpty && list.keepSec > 0) {
    return { dueAtSec: nowSec + list.keepSec, request: "keep" };
  }
  const isScheduled =
    state === "completed" && list.isPersistent && list.retrySec > 0 && !list.isEmpty;
  if (!isScheduled) return { dueAtSec: undefined, request: "keep" };
  return { dueAtSec: nowSec + list.retrySec, request: "ask" };
}

/** Returns the due time of a parked job: the next audit, or an earlier retry of its failures. */
export function decideParked(
  auditAtSec: number,
  list: { readonly isAsked: boolean; readonly isEmpty: boolean; readonly retrySec: number },
  nowSec: number,
): number {
  const { isAsked, isEmpty, retrySec } = list;
  // The run ended before it noticed this retry request, so run again.
  if (isAsked) return nowSec;
  const retries = retrySec > 0 && !isEmpty;
  return retries ? Math.min(auditAtSec, nowSec + retrySec) : auditAtSec;
}

/** Adjusts a due time to the decisions that an operator made during the run. */
export function decideDue(
  dueAtSec: number,
  control: { readonly isPaused: boolean; readonly isDecidedAnew: boolean },
  nowSec: number,
): number {
  if (control.isPaused) return NEVER_SEC;
  return control.isDecidedAnew ? nowSec : dueAtSec;
}

/**
 * Phases of a job, which determine its reaction to requests. `list-due`: the job has ended, and its
 * failures are due for a retry.
 */
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
 * Requests to change a job, by a user, an operator or a service.
 *
 *   pause, resume, retry, reset, cancel   an operator's command; `reset` may set a start sequence
 *   stop          the user cancels a transient job (`_replicate`)
 *   same, other   the document or rule was written again, or the replication was requested again:
 *                 with the same replication, or with another one
 *   try-list      a retry of the job's failures is requested
 *   reachable     an unreachable server has recovered
 *   changed       the source of a parked job has changed, or can no longer be watched
 *   old           the retention time of the ended job is over
 */
export const JOB_INPUTS = [
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
export type JobInput = (typeof JOB_INPUTS)[number];

/**
 * Reaction to a request.
 *
 *   nothing        no effect
 *   refuse-ended   rejected, because the job has ended: it can be retried or reset
 *   refuse-paused  rejected, because the job is paused: it has to be resumed
 *   pause          never due
 *   due            due immediately
 *   due-soon       due within a short random time, to spread the load
 *   again          due immediately; the last outcome is cleared
 *   restart        as `again`, from the requested sequence and with zeroed statistics
 *   restart-later  as `restart`, once the job is resumed
 *   replace        replaced by a new job
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

/** Reactions by phase. If the job is running, its run detects the request through its watch. */
export const STEPS: Readonly<Record<JobPhase, Readonly<Record<JobInput, JobStep>>>> = {
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

function waiting(differing: Pick<Record<JobInput, JobStep>, "same" | "reachable">) {
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
  } as const satisfies Record<JobInput, JobStep>;
}

function ended() {
  return {
    ...waiting({ same: "replace", reachable: "nothing" }),
    pause: "refuse-ended",
    stop: "nothing",
    old: "remove",
  } as const satisfies Record<JobInput, JobStep>;
}

/** Reactions that differ if the job is paused. They do not replace `refuse-ended`. */
export const STEPS_WHEN_PAUSED: Readonly<Partial<Record<JobInput, JobStep>>> = {
  pause: "nothing",
  resume: "due",
  retry: "refuse-paused",
  reset: "restart-later",
  "try-list": "nothing",
  reachable: "nothing",
  changed: "nothing",
};

export function decideInput(input: JobInput, phase: JobPhase, isPaused: boolean): JobStep {
  const step = STEPS[phase][input];
  if (!isPaused || step === "refuse-ended") return step;
  return STEPS_WHEN_PAUSED[input] ?? step;
}
