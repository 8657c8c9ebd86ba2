/**
 * Reports changes of jobs (`subscribe`, `unsubscribe`, `wait` of RFC 007), using the store's
 * watches. An unchanged job causes no reads.
 *
 * A subscription remembers the state known to its owner. An event is a difference from this state:
 * another state, another due time, or a later update of a running job. Several changes between two
 * reads are one event, with the latest data.
 */
import { abortWith, type Runtime } from "../base/index.ts";
import type { KeyValueStore, Transaction, Watch } from "../kv/index.ts";
import type { Job, JobName, JobSigns, Observation } from "./job.ts";
import type { Jobs } from "./jobs.ts";

/** `removed`: the job no longer exists. A subscription ends after `removed` or `finished`. */
export type SubscriptionEvent =
  | { readonly kind: "changed"; readonly job: Job }
  | { readonly kind: "removed"; readonly name: JobName };

export interface WaitOptions {
  /** State to wait for; `removed` means that the job no longer exists. Other events are dropped. */
  readonly state?: Job["state"] | "removed";
  /** Time limit of the wait. Default: no limit. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Shared reason for ending a wait, since creating an error costs more than the wait itself. */
const OVER = new Error("The wait has ended");

export class JobSubscription {
  readonly name: JobName;
  /** The job at the start of the subscription. */
  readonly job: Job;
  /**
   * The values reported last. If the due time of a pending job differs from them, the job has run
   * in the meantime without being observed.
   */
  #signs: JobSigns | undefined;
  readonly #ended = new AbortController();

  /** Created by `JobSubscriptions.subscribe`. */
  constructor({ job, activity }: Observation) {
    const { type, id, state, scheduledAtSec } = job;
    this.name = { type, id };
    this.job = job;
    this.#signs = { state, scheduledAtSec, activity };
    if (state === "finished") this.unsubscribe();
  }

  /** Signal that aborts when the subscription has ended. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** Ends the subscription, including waits in progress. Idempotent. */
  unsubscribe(): void {
    this.#ended.abort(new Error("The subscription has ended"));
  }

  /**
   * Whether `signs` differs from what was last reported. `undefined` stands for a job that no
   * longer exists.
   */
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

/**
 * Result of reading a subscription's job. `job` is set if the read found an event that matches the
 * wait.
 */
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

  /**
   * Subscribes to the changes of a job. Returns `undefined` if the job does not exist. The
   * subscription of a finished job has already ended.
   */
  async subscribe(name: JobName): Promise<JobSubscription | undefined> {
    const observation = await this.#kv.read((tx) => this.#jobs.observe(tx, name));
    return observation && new JobSubscription(observation);
  }

  /**
   * Waits for the next event of any of the subscriptions, and returns it. Returns `undefined` if
   * the time limit has passed or all subscriptions have ended.
   */
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

  /**
   * Reads the state of a subscription's job. Reads the job's data only for an event, because most
   * changes do not match.
   */
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

  /**
   * Settles when one of the jobs might have changed, a subscription has ended, the time limit has
   * passed, or the signal aborts.
   */
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
    // After a failed watch, the jobs are read again, because a change might have been missed.
    await Promise.race([...fired, ...timer]).catch(() => {});
    over.abort(OVER);
    await Promise.allSettled([...fired, ...timer]);
    for (const each of unfollow) each();
  }
}
