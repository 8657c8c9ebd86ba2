/**
 * A literal implementation of RFC 017, as a reference model. It has a usage per database, and a
 * priority per job. Each cycle decays all priorities, and raises those of running jobs. The churn
 * is that of CouchDB 3's scheduler.
 *
 * The RFC does not define how often its three steps run. In this model, they run once per cycle, as
 * in CouchDB 3.2. With the RFC's K2 of 0.75, a priority is then forgotten within a few cycles. With
 * CouchDB's K2 of 0.98, it takes fourteen cycles to decay as much as in one cycle with 0.75. As in
 * CouchDB, "pending(Db)" means all jobs of a database.
 */
import type { SeededRandom } from "./kernel/seeded-random.ts";

export interface ModelGroup {
  readonly name: string;
  readonly shares: number;
  readonly jobCount: number;
  /** Cycle in which the jobs of the group are added. */
  readonly firstCycle: number;
}

export interface ModelOptions {
  readonly slotCount: number;
  readonly churnMax: number;
  readonly cycleSec: number;
  readonly cycleCount: number;
  /** K2 of the RFC: fraction of a priority that remains after a cycle. */
  readonly priorityCoefficient: number;
}

export interface ModelOutcome {
  /** Run time by group. */
  readonly ranSec: ReadonlyMap<string, number>;
  /** The longest time during which a group had a pending job and no slot. */
  readonly longestWaitSec: ReadonlyMap<string, number>;
}

/** Factor by which usage decays per update (K1 in RFC 017). */
const USAGE_COEFFICIENT = 0.5;
/** Factor by which priorities decay per cycle (K2), as proposed by RFC 017. */
export const RFC_PRIORITY_COEFFICIENT = 0.75;
/** Factor by which priorities decay per cycle in CouchDB since 3.2. */
export const COUCHDB_PRIORITY_COEFFICIENT = 0.98;

interface ModelJob {
  readonly group: ModelGroup;
  priority: number;
  lastStart: number;
  isRunning: boolean;
}

export function runModel(
  groups: readonly ModelGroup[],
  { slotCount, churnMax, cycleSec, cycleCount, priorityCoefficient }: ModelOptions,
  random: SeededRandom,
): ModelOutcome {
  const jobs: ModelJob[] = [];
  const usage = new Map<string, number>();
  const ranSec = new Map<string, number>();
  const waitingSince = new Map<string, number>();
  const longestWaitSec = new Map<string, number>();
  for (let cycle = 0; cycle < cycleCount; cycle++) {
    for (const group of groups.filter(({ firstCycle }) => firstCycle === cycle)) {
      for (let number = 0; number < group.jobCount; number++) {
        jobs.splice(random.integer(jobs.length + 1), 0, {
          group,
          priority: 0,
          lastStart: -1,
          isRunning: false,
        });
      }
      waitingSince.set(group.name, cycle);
    }
    for (const group of groups) {
      const own = jobs.filter((job) => job.group === group);
      const runningCount = own.filter(({ isRunning }) => isRunning).length;
      const before = usage.get(group.name) ?? 0;
      usage.set(group.name, before * USAGE_COEFFICIENT + runningCount * cycleSec);
      ranSec.set(group.name, (ranSec.get(group.name) ?? 0) + runningCount * cycleSec);
    }
    for (const job of jobs) {
      job.priority *= priorityCoefficient;
      if (!job.isRunning) continue;
      const { name, shares } = job.group;
      const pendingCount = jobs.filter((other) => other.group === job.group).length;
      job.priority += ((usage.get(name) ?? 0) * pendingCount) / shares ** 2;
    }
    const order = (left: ModelJob, right: ModelJob): number =>
      left.priority - right.priority || left.lastStart - right.lastStart;
    const running = jobs.filter(({ isRunning }) => isRunning).toSorted(order);
    const pending = jobs.filter(({ isRunning }) => !isRunning).toSorted(order);
    const freeCount = slotCount - running.length;
    const startCount = Math.min(pending.length, Math.max(freeCount, churnMax));
    const stopCount = Math.max(0, startCount - freeCount);
    for (const job of running.slice(running.length - stopCount)) job.isRunning = false;
    for (const job of pending.slice(0, startCount)) {
      job.isRunning = true;
      job.lastStart = cycle;
      const { name } = job.group;
      const waitedSec = (cycle - (waitingSince.get(name) ?? cycle)) * cycleSec;
      longestWaitSec.set(name, Math.max(longestWaitSec.get(name) ?? 0, waitedSec));
      waitingSince.set(name, cycle);
    }
  }
  return { ranSec, longestWaitSec };
}
