/**
 * Reports the counters of this process to its parent, because a replication process has no port of
 * its own.
 */
import type { Clock } from "../../base/index.ts";
import type { Service } from "../supervise.ts";
import type { CountReport, EventCounts } from "./metrics.ts";

/** Interval between reports. Counts since the last report are lost if the process is killed. */
const REPORT_INTERVAL_MS = 1000;

export class CountReporter implements Service {
  readonly name = "count-reporter";
  readonly #clock: Clock;
  readonly #counts: EventCounts;
  readonly #report: (report: CountReport) => void;

  constructor(clock: Clock, counts: EventCounts, tell: (report: CountReport) => void) {
    this.#clock = clock;
    this.#counts = counts;
    this.#report = tell;
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#clock.sleep(REPORT_INTERVAL_MS, signal).catch(() => {});
      const report = this.#counts.takeReport();
      if (report.length > 0) this.#report(report);
    }
  }
}
