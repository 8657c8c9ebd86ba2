/** Statistics on the runs of this process since startup, counted from traced events. */
import type { EventName, Events, Trace } from "../../base/index.ts";
import { NO_RUNS, type RunCounts } from "../../replicator/index.ts";

const FAILURES: ReadonlySet<EventName> = new Set([
  "replication.crashed",
  "replication.failed",
  "replication.stalled",
]);

/** Counts traced events of runs and forwards all events to the next trace. */
export class RunTally implements Trace {
  readonly #next: Trace;
  #totals = NO_RUNS;

  constructor(next: Trace) {
    this.#next = next;
  }

  /** Totals, which never decrease. */
  get totals(): RunCounts {
    return this.#totals;
  }

  event<Name extends EventName>(name: Name, fields: Events[Name]): void {
    this.#next.event(name, fields);
    const { startCount, failureCount, documentCount } = this.#totals;
    if (name === "replication.started") this.#add({ startCount: startCount + 1 });
    else if (FAILURES.has(name)) this.#add({ failureCount: failureCount + 1 });
    else if (name === "replication.copied") {
      const { documentCount: more } = fields as Events["replication.copied"];
      this.#add({ documentCount: documentCount + more });
    }
  }

  #add(totals: Partial<RunCounts>): void {
    this.#totals = { ...this.#totals, ...totals };
  }
}
