/**
 * Chooses the running jobs that give up their slots, once in a cycle of a node's scheduler (RFC 016's churn, RFC 017's
 * order). Pure.
 *
 * With more jobs than slots, as after `max_jobs` was lowered, the surplus stops: continuous jobs first, one-shot jobs
 * last. With all slots taken and jobs waiting, up to `max_churn` continuous jobs stop that have had their turn. A
 * one-shot job is never stopped for others, because half a snapshot of the source is worth nothing. With free slots
 * nothing stops.
 *
 * Stops are spread over the length of a turn. If all jobs changed at once, none would have had its turn until the turn
 * is over, and a job that comes meanwhile would wait that long. So every cycle has some job that can give way.
 */

export interface RunningJob {
  /** Undefined for a job that belongs to none. */
  readonly group: string | undefined;
  readonly isContinuous: boolean;
  readonly startedAtMs: number;
  /** 100 for an ordinary job; one of 200 keeps its slot twice as long before it has had its turn. */
  readonly weight: number;
  /** It was told to stop already. */
  readonly isStopping: boolean;
}

export interface Slots {
  readonly jobsMax: number;
  /** Stops in one cycle, at most. */
  readonly churnMax: number;
  /** From one such decision to the next. */
  readonly cycleMs: number;
  /** How long an ordinary job keeps its slot at least. */
  readonly runMsMin: number;
  readonly nowMs: number;
}

/** Who wants the slots. */
export interface Waiting {
  /** Of `waitingCount`. */
  readonly count: number;
  /** Groups whose standing is not below that of all those jobs' groups, highest first: theirs is what gives way. */
  readonly givingWay: readonly string[];
}

/** The most waiting jobs that are counted: more of them do not change which jobs stop. */
export function waitingCountMax(running: readonly RunningJob[], slots: Slots): number {
  return Math.max(0, freeCount(running, slots)) + stopCountMax(slots);
}

/** Jobs that are due and not running, as one look at the queue found them. */
export interface DueJobs {
  readonly ids: ReadonlySet<string>;
  /** There may be more than these. */
  readonly isPart: boolean;
}

export const NOBODY: DueJobs = { ids: new Set(), isPart: false };

/**
 * How many jobs wait: those that were due at a look before, and are now. Another node had room for the others, or has; they are
 * no reason to stop anything here. Where the look before did not see all, those that it did not see may have waited, too.
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
  // Slots that are free, and those that are about to be, go to waiting jobs first.
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
 * Continuous jobs of groups that have no room: they are above the group's limit, or give way to others of it. `crowded` says how
 * many of each group should stop. Those that have run longest come first. `stopCount` jobs stop in this cycle already: all together
 * are `max_churn` at most.
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
}

/** A node gives up jobs when it has this part of its share too many. */
const SURPLUS_RATIO = 0.1;

/** Jobs that a node runs when all of the cluster are shared out by slots. */
export function shareOf(
  { jobsMax }: Slots,
  runningCount: number,
  others: readonly OtherNode[],
): number {
  const slotCount = others.reduce((sum, { slots }) => sum + slots, jobsMax);
  const jobCount = others.reduce((sum, other) => sum + other.runningCount, runningCount);
  return Math.ceil((jobCount * jobsMax) / Math.max(1, slotCount));
}

/**
 * Continuous jobs that had their turn and go to nodes that have less to do, such as one that has just joined: the longest
 * running first. `stopping` jobs stop in this cycle already, and waiting ones take their place here.
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
  return staying
    .filter((job) => job.isContinuous && hadItsTurn(job, slots) && !stopping.includes(job))
    .sort((left, right) => left.startedAtMs - right.startedAtMs)
    .slice(0, Math.max(0, Math.min(surplus, slots.churnMax - stopping.length)));
}

/** The jobs that stop in a cycle: `max_churn` at most, unless there are fewer slots than jobs. */
export interface Cycle<Job> {
  /** Their slots are for jobs that wait. */
  readonly forWaiting: readonly Job[];
  /** Their slots stay free for a while, since other nodes are to run these jobs. */
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

/** Slots that are free, or whose job has been told to stop. */
function freeCount(running: readonly RunningJob[], { jobsMax }: Slots): number {
  return jobsMax - running.filter(({ isStopping }) => !isStopping).length;
}

function stopCountMax({ jobsMax, churnMax, cycleMs, runMsMin }: Slots): number {
  return Math.min(churnMax, Math.ceil((jobsMax * cycleMs) / runMsMin));
}

function hadItsTurn({ startedAtMs, weight }: RunningJob, { nowMs, runMsMin }: Slots): boolean {
  return nowMs - startedAtMs >= (runMsMin * weight) / 100;
}
