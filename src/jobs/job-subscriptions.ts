/**
 * Reports changes of jobs (`subscribe`, `unsubscribe`, `wait` of RFC 007), with the store's watches. A job that does
 * not change costs nothing.
 *
 * A subscription remembers the state that its owner knows. An event is a difference from that: another state, another due
 * time, or a later update of a running job. Changes between two looks are one event, with the latest data.
 */
import { type Runtime, waitAtMost } from "../base/index.ts";
import type { KeyValueStore } from "../kv/index.ts";
import type { Job, JobName, Observation } from "./job.ts";
import type { Jobs } from "./jobs.ts";

/** `removed`: there is no such job any more. After it, and after `finished`, a subscription has no more events. */
export type SubscriptionEvent =
  | { readonly kind: "changed"; readonly job: Job }
  | { readonly kind: "removed"; readonly name: JobName };

export interface WaitOptions {
  /** Events in other states are thrown away; `removed` counts as one. */
  readonly state?: Job["state"] | "removed";
  /** For ever when absent. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

export class JobSubscription {
  readonly name: JobName;
  /** The job as it was when the subscription began. */
  readonly job: Job;
  #state: Job["state"] | "removed";
  #activity: string | undefined;
  /** Tells a job that waits again, after a run that nobody saw, from one that still waits. */
  #scheduledAtSec: number | undefined;
  readonly #ended = new AbortController();

  /** Use `JobSubscriptions.subscribe`. */
  constructor({ job, activity }: Observation) {
    this.name = { type: job.type, id: job.id };
    this.job = job;
    this.#state = job.state;
    this.#activity = activity;
    this.#scheduledAtSec = job.scheduledAtSec;
    if (job.state === "finished") this.unsubscribe();
  }

  /** Aborts when no more events come. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** No more events, also for who waits already. Safe to call twice. */
  unsubscribe(): void {
    this.#ended.abort(new Error("The subscription has ended"));
  }

  /** Notes the job's state; returns the event that this is, if it is news. */
  note(observation: Observation | undefined): SubscriptionEvent | undefined {
    const state = observation?.job.state ?? "removed";
    const activity = observation?.activity;
    const scheduledAtSec = observation?.job.scheduledAtSec;
    const isSame =
      state === this.#state &&
      activity === this.#activity &&
      scheduledAtSec === this.#scheduledAtSec;
    if (isSame) return undefined;
    this.#state = state;
    this.#activity = activity;
    this.#scheduledAtSec = scheduledAtSec;
    if (state === "removed" || state === "finished") this.unsubscribe();
    return observation === undefined
      ? { kind: "removed", name: this.name }
      : { kind: "changed", job: observation.job };
  }
}

export class JobSubscriptions {
  readonly #runtime: Runtime;
  readonly #kv: KeyValueStore;
  readonly #jobs: Jobs;

  constructor(runtime: Runtime, kv: KeyValueStore, jobs: Jobs) {
    this.#runtime = runtime;
    this.#kv = kv;
    this.#jobs = jobs;
  }

  /** Undefined when there is no such job. That of a finished job has ended already. */
  async subscribe(name: JobName): Promise<JobSubscription | undefined> {
    const observation = await this.#kv.read((tx) => this.#jobs.observe(tx, name));
    return observation && new JobSubscription(observation);
  }

  /** The next event of any of these; undefined when the time is over, or when none of them has more events. */
  async wait(
    subscriptions: readonly JobSubscription[],
    { state, timeoutMs = Number.POSITIVE_INFINITY, signal }: WaitOptions = {},
  ): Promise<SubscriptionEvent | undefined> {
    const { clock } = this.#runtime;
    const startedAtMs = clock.monotonicMs();
    for (;;) {
      signal?.throwIfAborted();
      const open = subscriptions.filter(({ ended }) => !ended.aborted);
      if (open.length === 0) return undefined;
      const looks = await this.#kv.transact((tx) =>
        Promise.all(
          open.map(async (subscription) => ({
            subscription,
            observation: await this.#jobs.observe(tx, subscription.name),
            changed: this.#jobs.watch(tx, subscription.name),
          })),
        ),
      );
      const cancelAll = (): void => {
        for (const { changed } of looks) changed.cancel();
      };
      for (const { subscription, observation } of looks) {
        if (subscription.ended.aborted) continue;
        const event = subscription.note(observation);
        if (event === undefined || (state !== undefined && stateOf(event) !== state)) continue;
        cancelAll();
        return event;
      }
      const leftMs = startedAtMs + timeoutMs - clock.monotonicMs();
      const ends = open.map(({ ended }) => ended);
      const over = AbortSignal.any(signal === undefined ? ends : [signal, ...ends]);
      if (leftMs > 0) {
        await waitAtMost(clock, leftMs, over, (waited) =>
          Promise.race(looks.map(({ changed }) => changed.fired(waited))),
        );
      }
      cancelAll();
      if (leftMs <= 0) return undefined;
    }
  }
}

function stateOf(event: SubscriptionEvent): Job["state"] | "removed" {
  return event.kind === "removed" ? "removed" : event.job.state;
}
