/**
 * Reports the state of this process every few seconds, and carries out drain orders: a draining
 * process accepts no new jobs, and stops its current runs after a checkpoint. An order applies
 * until the process ends. It does not apply to a process that replaces it.
 */
import { hexEncode, Notifier, type Runtime, waitAtMost } from "../../base/index.ts";
import type { WorkerId } from "../../jobs/index.ts";
import type { KeyValueStore, Subspace } from "../../kv/index.ts";
import type { HostMeasure } from "../endpoints/host-measures.ts";
import type { NodeId, NodeReport, ProcessMeasure } from "./node-report.ts";
import { NodeStore } from "./node-store.ts";
import { type RunCounts, RunMinutes, RunRates } from "./run-rates.ts";

const INTERVAL_MS = 5000;
/**
 * Time limit for removing the report. Without the removal, the process is shown as dead until the
 * report expires.
 */
const LEAVE_MS_MAX = 2000;
const ID_BYTES = 6;

/** Static properties of the process. */
export interface NodeIdentity {
  readonly node: string;
  readonly processId: string;
  readonly version: string;
}

/** Part of the scheduler that the reporter needs, to report its state and to drain it. */
export interface DrainedScheduler {
  /** Id of the current worker; undefined while the process is not registered. */
  readonly worker: WorkerId | undefined;
  /** Notified when the process has registered as a worker. */
  readonly registered: Notifier;
  readonly slots: number;
  readonly runningCount: number;
  setDraining(isDraining: boolean): void;
}

export interface NodeReporterParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly subspace: Subspace;
  readonly identity: NodeIdentity;
  readonly scheduler: DrainedScheduler;
  readonly measureProcess: () => ProcessMeasure;
  /** Returns the measurements for the servers with the most requests. */
  readonly measureHosts: () => readonly HostMeasure[];
  /** Returns the totals since the process started. */
  readonly measureRuns: () => RunCounts;
}

export class NodeReporter {
  readonly name = "replicator.node-reporter";
  readonly id: NodeId;
  readonly #parts: NodeReporterParts;
  readonly #store: NodeStore;
  readonly #rates: RunRates;
  readonly #minutes = new RunMinutes();
  readonly #startedMs: number;
  /** Notified when the order to drain is given or withdrawn. */
  readonly #heard = new Notifier();

  constructor(parts: NodeReporterParts) {
    this.#parts = parts;
    this.#store = new NodeStore(parts.subspace);
    this.#rates = new RunRates(parts.subspace);
    this.id = hexEncode(parts.runtime.random.bytes(ID_BYTES));
    this.#startedMs = parts.runtime.clock.nowMs();
  }

  async run(signal: AbortSignal): Promise<void> {
    const { runtime, kv, scheduler } = this.#parts;
    let isHeard = false;
    let reported: { readonly worker: WorkerId; readonly isDraining: boolean } | undefined;
    while (!signal.aborted) {
      const report = this.#report(isHeard);
      const minute = this.#minute();
      const { isDraining, changed } = await kv.transact(
        async (tx) => {
          if (report !== undefined) this.#store.report(tx, this.id, report);
          this.#rates.write(tx, this.id, minute.startMs, minute.counts);
          return {
            isDraining: await this.#store.isDraining(tx, this.id),
            changed: this.#store.watchDrains(tx),
          };
        },
        { whenUnknown: "retry" },
      );
      scheduler.setDraining(isDraining);
      const { worker } = report ?? {};
      if (
        worker !== undefined &&
        (worker !== reported?.worker || isHeard !== reported.isDraining)
      ) {
        reported = { worker, isDraining: isHeard };
        runtime.trace.event("node.reported", { id: this.id, ...reported });
      }
      // Do not wait for the interval: report the change immediately.
      if (isDraining !== isHeard) this.#heard.notify();
      isHeard = isDraining;
      await waitAtMost(runtime.clock, INTERVAL_MS, signal, (over) =>
        Promise.race([
          changed.fired(over),
          scheduler.registered.notified(over),
          this.#heard.notified(over),
        ]),
      );
      changed.cancel();
    }
    await this.#leave();
  }

  /**
   * Returns the report of the process; undefined while the process is not registered as a worker.
   * In that time, the last stored report contains the previous registration.
   */
  #report(isDraining: boolean): NodeReport | undefined {
    const { runtime, identity, scheduler, measureProcess, measureHosts } = this.#parts;
    const { worker } = scheduler;
    if (worker === undefined) return undefined;
    return {
      ...identity,
      ...measureProcess(),
      worker,
      isDraining,
      slots: scheduler.slots,
      runningCount: scheduler.runningCount,
      startedMs: this.#startedMs,
      reportedMs: runtime.clock.nowMs(),
      hosts: measureHosts(),
    };
  }

  /** Returns the counts of the current minute. */
  #minute() {
    return this.#minutes.note(this.#parts.measureRuns(), this.#parts.runtime.clock.nowMs());
  }

  /** Removes the report at an orderly shutdown, so that the process does not appear as dead. */
  async #leave(): Promise<void> {
    const minute = this.#minute();
    const remove = this.#parts.kv.transact(
      async (tx) => {
        this.#store.remove(tx, this.id);
        this.#rates.write(tx, this.id, minute.startMs, minute.counts);
      },
      { timeoutMs: LEAVE_MS_MAX, whenUnknown: "retry" },
    );
    // If the store is not accessible, the removal fails, and the process is shown as dead until its
    // report expires.
    await remove.catch(() => {});
  }
}
