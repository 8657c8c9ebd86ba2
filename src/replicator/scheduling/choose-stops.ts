/**
 * Chooses, once per scheduler cycle, the running jobs that yield their slots (RFC 016's churn, RFC
 * 017's order). Pure.
 *
 * If more jobs are running than there are slots, for example after `max_jobs` was lowered, the
 * surplus jobs stop, continuous jobs first. If all slots are in use and jobs are waiting, up to
 * `max_churn` continuous jobs stop after their full time slice. One-shot jobs do not stop for other
 * jobs, because a partial snapshot is useless. While slots are free, no job stops for waiting jobs.
 *
 * Stops are spread over the length of a time slice. Otherwise all time slices would end together,
 * and a job that arrives in between would have to wait until then.
 */
import { hasLabels, type Labels } from "../../jobs/index.ts";

export interface RunningJob {
  /** Fair-share group of the job; undefined if it has none. */
  readonly group: string | undefined;
  readonly isContinuous: boolean;
  readonly startedAtMs: number;
  /** Labels that a node must have to run the job. */
  readonly labels: Labels;
  /** Relative length of the job's time slice; 100 is the default. */
  readonly weight: number;
  /** Whether the job has already been requested to stop. */
  readonly isStopping: boolean;
}

export interface Slots {
  readonly jobsMax: number;
  /** Maximum number of stops per cycle. */
  readonly churnMax: number;
  readonly cycleMs: number;
  /** Minimum run time of a job with the default weight. */
  readonly runMsMin: number;
  readonly nowMs: number;
}

/** Jobs waiting for slots. */
export interface Waiting {
  /** Result of `waitingCount`. */
  readonly count: number;
  /**
   * Groups in which jobs stop for the next waiting group, highest standing first: all running
   * groups whose standing is not lower than that of the next group.
   */
  readonly givingWay: readonly string[];
}

/**
 * Returns the maximum useful count of waiting jobs. A higher count does not change the decision.
 */
export function waitingCountMax(running: readonly RunningJob[], slots: Slots): number {
  return Math.max(0, freeCount(running, slots)) + stopCountMax(slots);
}

/** Jobs that one check of the queue found due but not running. */
export interface DueJobs {
  readonly ids: ReadonlySet<string>;
  /** Whether the check might have found only some of the due jobs. */
  readonly isPart: boolean;
}

export const NOBODY: DueJobs = { ids: new Set(), isPart: false };

/**
 * Counts the jobs that were due at both checks. Other nodes have accepted or will accept jobs that
 * were due at only one check. If the first check was incomplete, counts all jobs due at the second
 * check.
 */
export function waitingCount(before: DueJobs, now: DueJobs): number {
  if (before.isPart) return now.ids.size;
  let count = 0;
  for (const id of now.ids) if (before.ids.has(id)) count++;
  return count;
}

export function chooseStops<Job extends RunningJob>(
  running: readonly Job[],
  slots: Slots,
  waiting: Waiting,
): Job[] {
  const staying = running.filter(({ isStopping }) => !isStopping);
  const excess = staying.length - slots.jobsMax;
  if (excess > 0) {
    const oldestFirst = staying.toSorted((left, right) => left.startedAtMs - right.startedAtMs);
    return [
      ...oldestFirst.filter(({ isContinuous }) => isContinuous),
      ...oldestFirst.filter(({ isContinuous }) => !isContinuous),
    ].slice(0, excess);
  }
  // Waiting jobs first fill the slots that are free or about to be free.
  const wanted = waiting.count - freeCount(staying, slots);
  const stopCount = Math.min(wanted, stopCountMax(slots));
  if (stopCount <= 0) return [];
  const place = (job: Job): number =>
    job.group === undefined ? waiting.givingWay.length : waiting.givingWay.indexOf(job.group);
  return staying
    .filter((job) => job.isContinuous && hadItsTurn(job, slots) && place(job) >= 0)
    .sort((left, right) => place(left) - place(right) || left.startedAtMs - right.startedAtMs)
    .slice(0, stopCount);
}

/**
 * Chooses jobs of groups that exceed their limit, and of groups that have reached their limit and
 * have waiting jobs. Only continuous jobs that have run for their full time slice are chosen,
 * longest running first. `crowded` contains the number of jobs to stop per group. `stopCount` is
 * the number of jobs already chosen in this cycle, which count towards `max_churn`.
 */
function chooseTurns<Job extends RunningJob>(
  running: readonly Job[],
  slots: Slots,
  crowded: ReadonlyMap<string, number>,
  stopCount: number,
): Job[] {
  const byAge = (left: Job, right: Job): number => left.startedAtMs - right.startedAtMs;
  return [...crowded]
    .flatMap(([group, count]) =>
      running
        .filter((job) => job.group === group && !job.isStopping)
        .filter((job) => job.isContinuous && hadItsTurn(job, slots))
        .sort(byAge)
        .slice(0, count),
    )
    .sort(byAge)
    .slice(0, Math.max(0, slots.churnMax - stopCount));
}

/** Another node that runs jobs. */
export interface OtherNode {
  readonly slots: number;
  readonly runningCount: number;
  readonly labels: Labels;
}

/** A node yields jobs if it exceeds its fair share by more than this fraction of the share. */
const SURPLUS_RATIO = 0.1;

/** Returns the node's share of all running jobs, in proportion to its slots. */
export function shareOf(
  { jobsMax }: Slots,
  runningCount: number,
  others: readonly OtherNode[],
): number {
  const { slotCount, jobCount } = totalOf(jobsMax, runningCount, others);
  return Math.ceil((jobCount * jobsMax) / slotCount);
}

/** Returns the other nodes that run fewer jobs than their share. */
function lessBusy(
  { jobsMax }: Slots,
  runningCount: number,
  others: readonly OtherNode[],
): readonly OtherNode[] {
  const { slotCount, jobCount } = totalOf(jobsMax, runningCount, others);
  return others.filter((other) => other.runningCount * slotCount < jobCount * other.slots);
}

function totalOf(jobsMax: number, runningCount: number, others: readonly OtherNode[]) {
  const slotCount = others.reduce((sum, { slots }) => sum + slots, jobsMax);
  const jobCount = others.reduce((sum, other) => sum + other.runningCount, runningCount);
  return { slotCount: Math.max(1, slotCount), jobCount };
}

/**
 * Chooses the jobs that less busy nodes, such as a new node, should take over: continuous jobs that
 * have run for their full time slice, longest running first. Excludes jobs that none of these nodes
 * is allowed to run. `stopping` contains the jobs that were already chosen in this cycle. Their
 * slots go to waiting jobs.
 */
function chooseSurplus<Job extends RunningJob>(
  running: readonly Job[],
  slots: Slots,
  others: readonly OtherNode[],
  stopping: readonly Job[],
): Job[] {
  const staying = running.filter(({ isStopping }) => !isStopping);
  const share = shareOf(slots, staying.length, others);
  const surplus = staying.length - share;
  if (surplus <= Math.max(1, share * SURPLUS_RATIO)) return [];
  const idle = lessBusy(slots, staying.length, others);
  return staying
    .filter(({ labels }) => idle.some((node) => hasLabels(node.labels, labels)))
    .filter((job) => job.isContinuous && hadItsTurn(job, slots) && !stopping.includes(job))
    .sort((left, right) => left.startedAtMs - right.startedAtMs)
    .slice(0, Math.max(0, Math.min(surplus, slots.churnMax - stopping.length)));
}

/**
 * Jobs that stop in a cycle: at most `max_churn`, unless the node runs more jobs than it has slots.
 */
export interface Cycle<Job> {
  /** Jobs that stop so that waiting jobs get their slots. */
  readonly forWaiting: readonly Job[];
  /** Jobs that stop so that other nodes run them. Their slots stay free for a while. */
  readonly surplus: readonly Job[];
}

export function chooseCycle<Job extends RunningJob>(
  running: readonly Job[],
  slots: Slots,
  {
    waiting,
    crowded,
    others,
  }: {
    readonly waiting: Waiting;
    readonly crowded: ReadonlyMap<string, number>;
    readonly others: readonly OtherNode[];
  },
): Cycle<Job> {
  const stops = chooseStops(running, slots, waiting);
  const left = running.filter((job) => !stops.includes(job));
  const forWaiting = [...stops, ...chooseTurns(left, slots, crowded, stops.length)];
  return { forWaiting, surplus: chooseSurplus(running, slots, others, forWaiting) };
}

/** Returns the number of slots that are free, or whose job has been requested to stop. */
function freeCount(running: readonly RunningJob[], { jobsMax }: Slots): number {
  return jobsMax - running.filter(({ isStopping }) => !isStopping).length;
}

function stopCountMax({ jobsMax, churnMax, cycleMs, runMsMin }: Slots): number {
  return Math.min(churnMax, Math.ceil((jobsMax * cycleMs) / runMsMin));
}

function hadItsTurn({ startedAtMs, weight }: RunningJob, { nowMs, runMsMin }: Slots): boolean {
  return nowMs - startedAtMs >= (runMsMin * weight) / 100;
}
