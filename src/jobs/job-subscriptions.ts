/**
 * Reports changes of jobs (`subscribe`, `unsubscribe`, `wait` of RFC 007), with the store's watches. A job that does
 * not change costs nothing.
 *
 * A subscription remembers the state that its owner knows. An event is a difference from that: another state, another due
 * time, or a later update of a running job. Changes between two looks are one event, with the latest data.
 */
import { abortWith, type Runtime } from "../base/index.ts";
import type { KeyValueStore, Transaction, Watch } from "../kv/index.ts";
import type { Job, JobName, JobSigns, Observation } from "./job.ts";
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

/** Made once: an error that is made again takes longer than what it ends. */
const OVER = new Error("The waiting is over");

export class JobSubscription {
  readonly name: JobName;
  /** The job as it was when the subscription began. */
  readonly job: Job;
  /** As they are known. Another due time tells a job that waits again, after a run that nobody saw, from one that still waits. */
  #signs: JobSigns | undefined;
  readonly #ended = new AbortController();

  /** Use `JobSubscriptions.subscribe`. */
  constructor({ job, activity }: Observation) {
    const { type, id, state, scheduledAtSec } = job;
    this.name = { type, id };
    this.job = job;
    this.#signs = { state, scheduledAtSec, activity };
    if (state === "finished") this.unsubscribe();
  }

  /** Aborts when no more events come. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** No more events, also for who waits already. Safe to call twice. */
  unsubscribe(): void {
    this.#ended.abort(new Error("The subscription has ended"));
  }

  /** Whether the job's signs are others than those that are known; undefined: it is gone. */
  isNews(signs: JobSigns | undefined): boolean {
    return (
      signs?.state !== this.#signs?.state ||
      signs?.activity !== this.#signs?.activity ||
      signs?.scheduledAtSec !== this.#signs?.scheduledAtSec
    );
  }

  note(signs: JobSigns | undefined): void {
    this.#signs = signs;
    if (signs === undefined || signs.state === "finished") this.unsubscribe();
  }
}

/** A look at the job of a subscription. `job`: as it is, if that is an event which somebody waits for. */
interface Look {
  readonly subscription: JobSubscription;
  readonly signs: JobSigns | undefined;
  readonly job: Job | undefined;
  readonly changed: Watch;
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
        Promise.all(open.map((subscription) => this.#look(tx, subscription, state))),
      );
      const cancelAll = (): void => {
        for (const { changed } of looks) changed.cancel();
      };
      for (const { subscription, signs, job } of looks) {
        if (subscription.ended.aborted || !subscription.isNews(signs)) continue;
        subscription.note(signs);
        const isRemoval = signs === undefined && (state === undefined || state === "removed");
        if (job === undefined && !isRemoval) continue;
        cancelAll();
        return job === undefined
          ? { kind: "removed", name: subscription.name }
          : { kind: "changed", job };
      }
      const leftMs = startedAtMs + timeoutMs - clock.monotonicMs();
      try {
        if (leftMs > 0) await this.#anyChange(looks, leftMs, signal);
      } finally {
        cancelAll();
      }
      if (leftMs <= 0) return undefined;
    }
  }

  /** Reads the data of the job for an event only: of most changes nobody wants to know more than that they are none. */
  async #look(
    tx: Transaction,
    subscription: JobSubscription,
    state: WaitOptions["state"],
  ): Promise<Look> {
    const { name } = subscription;
    const signs = await this.#jobs.signs(tx, name);
    const isAwaited = signs !== undefined && (state === undefined || state === signs.state);
    const job =
      isAwaited && subscription.isNews(signs) ? await this.#jobs.get(tx, name) : undefined;
    return { subscription, signs, job, changed: this.#jobs.watch(tx, name) };
  }

  /** Settles when one of the jobs may have changed, a subscription has ended, the time is over, or the signal aborts. */
  async #anyChange(
    looks: readonly Look[],
    leftMs: number,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { clock } = this.#runtime;
    const over = new AbortController();
    const ends = looks.map(({ subscription }) => subscription.ended);
    const unfollow = [...ends, ...(signal === undefined ? [] : [signal])].map((end) =>
      abortWith(end, over),
    );
    const fired = looks.map(({ changed }) => changed.fired(over.signal));
    const timer = leftMs === Number.POSITIVE_INFINITY ? [] : [clock.sleep(leftMs, over.signal)];
    // A watch that breaks tells nothing, and one looks again.
    await Promise.race([...fired, ...timer]).catch(() => {});
    over.abort(OVER);
    await Promise.allSettled([...fired, ...timer]);
    for (const each of unfollow) each();
  }
}
