/**
 * Charges the run time of one node's jobs to their groups. Each group is charged an instalment when
 * a job is accepted. Additional time is charged while the job runs, and unused time is refunded
 * when the job ends.
 */
import type { Clock } from "../base/index.ts";
import type { HeldJob } from "./job.ts";

interface MeteredRun {
  readonly group: string;
  readonly startedAtMs: number;
  chargedSec: number;
}

export class RunMeter {
  readonly #clock: Clock;
  readonly #instalmentSec: number;
  readonly #running = new Map<HeldJob, MeteredRun>();
  #ended = new Map<string, number>();

  /** `instalmentSec` must be the instalment of the type's fair share. */
  constructor(clock: Clock, instalmentSec: number) {
    this.#clock = clock;
    this.#instalmentSec = instalmentSec;
  }

  /**
   * Whether a job has ended since the last call of `takeBill`. If so, the stored standing of its
   * group might be too high.
   */
  get hasEnded(): boolean {
    return this.#ended.size > 0;
  }

  /** Records an accepted job. Jobs without a group are not charged. */
  start(held: HeldJob, group: string | undefined): void {
    if (group === undefined) return;
    const startedAtMs = this.#clock.monotonicMs();
    this.#running.set(held, { group, startedAtMs, chargedSec: this.#instalmentSec });
  }

  end(held: HeldJob): void {
    const run = this.#running.get(held);
    if (run === undefined) return;
    this.#running.delete(held);
    add(this.#ended, run.group, this.#ranSec(run) - run.chargedSec);
  }

  /** Returns the number of running jobs by group. */
  groups(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { group } of this.#running.values()) {
      counts.set(group, (counts.get(group) ?? 0) + 1);
    }
    return counts;
  }

  /**
   * Returns the seconds to charge to each group since the last call, negative for refunds
   * (`Groups.charge`).
   */
  takeBill(): ReadonlyMap<string, number> {
    const bill = this.#ended;
    this.#ended = new Map();
    for (const run of this.#running.values()) {
      const dueSec = this.#ranSec(run) - run.chargedSec;
      if (dueSec <= 0) continue;
      run.chargedSec += dueSec;
      add(bill, run.group, dueSec);
    }
    return bill;
  }

  #ranSec({ startedAtMs }: MeteredRun): number {
    return (this.#clock.monotonicMs() - startedAtMs) / 1000;
  }
}

function add(sums: Map<string, number>, group: string, seconds: number): void {
  sums.set(group, (sums.get(group) ?? 0) + seconds);
}
