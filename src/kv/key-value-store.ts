/**
 * The one place that opens transactions, and the one loop that repeats them. A body may run several times. It is given
 * up when its signal aborts, its time is over or the store closes; what it does after that does not reach the store.
 */
import { assert, backoff, errorCode, OperationalError, type Runtime } from "../base/index.ts";
import type { CommitEffect, Engine, EngineTransaction } from "./engine.ts";
import { isRetryable, KeyValueError } from "./kv-error.ts";
import type { Commit, ReadTransaction, Transaction } from "./transaction.ts";
import { TransactionIds } from "./transaction-ids.ts";

export interface ReadOptions {
  /** Gives up with `signal.reason`. A commit that is under way is not undone by that. */
  readonly signal?: AbortSignal | undefined;
  /** So many attempts after the first; then the last error is thrown. */
  readonly retryCountMax?: number | undefined;
  /** For all attempts together; then KV_TIMED_OUT, or KV_UNKNOWN_COMMIT when a commit was under way. */
  readonly timeoutMs?: number | undefined;
}

export interface TransactOptions extends ReadOptions {
  /**
   * What follows when a commit's fate is unknown. "check" (default): an id is written with the body and looked up, so that the body is
   * applied once. "retry": the body is idempotent and runs again. "throw": the caller gets KV_UNKNOWN_COMMIT, as with "check" when
   * the id cannot be looked up.
   */
  readonly whenUnknown?: "throw" | "retry" | "check" | undefined;
}

export interface RetryPolicy {
  readonly retryCountMax: number;
  /** The first pause; it doubles with each attempt, and a random half of it is taken. */
  readonly backoffMsMin: number;
  readonly backoffMsMax: number;
  /** None when absent. */
  readonly timeoutMs?: number | undefined;
}

/**
 * Every conflict means that another transaction committed, so the store progresses; the bound is there for a body that
 * defeats itself, and far above what contention needs (64 writers on one key: bench/kv/contention.ts).
 */
const DEFAULT_RETRY: RetryPolicy = { retryCountMax: 1_000, backoffMsMin: 1, backoffMsMax: 100 };

/** A node that is told to stop has ten seconds. */
const CLOSE_MS_MAX = 3_000;

export class KeyValueStore {
  readonly #runtime: Runtime;
  readonly #random: Runtime["random"];
  readonly #engine: Engine;
  readonly #retry: RetryPolicy;
  readonly #transactionIds: TransactionIds;
  readonly #running = new Set<Run>();
  #closing: Promise<void> | undefined;

  constructor({
    runtime,
    engine,
    retry = {},
  }: {
    readonly runtime: Runtime;
    readonly engine: Engine;
    readonly retry?: Partial<RetryPolicy>;
  }) {
    this.#runtime = runtime;
    this.#random = runtime.random.fork("kv.retry");
    this.#engine = engine;
    this.#retry = { ...DEFAULT_RETRY, ...retry };
    this.#transactionIds = new TransactionIds(runtime);
  }

  /** Runs `body` in a transaction and commits it; again after a conflict. Resolves with what the committed attempt returned. */
  transact<T>(body: (tx: Transaction) => Promise<T>, options: TransactOptions = {}): Promise<T> {
    return this.#run(options, (run) => this.#transact(body, options, run));
  }

  /** Runs `body` on one snapshot of the store. Nothing is committed, so nothing conflicts. */
  read<T>(body: (tx: ReadTransaction) => Promise<T>, options: ReadOptions = {}): Promise<T> {
    return this.#run(options, (run) => this.#read(body, options, run));
  }

  /** Resolves with the reason when the store can serve this process no more. Another process may be able to open it. */
  get failed(): Promise<KeyValueError> {
    return this.#engine.failed ?? new Promise(() => {});
  }

  /** False while the store does not answer: what is asked of it waits, or is refused. */
  isAvailable(): boolean {
    return this.#engine.isAvailable?.() ?? true;
  }

  /** Whether `clearRange` is not bounded by CLEARED_KEYS_MAX. */
  get clearsRangesAtOnce(): boolean {
    return this.#engine.clearsRangesAtOnce ?? false;
  }

  /** True while the store refuses writes for want of room; it goes on by itself. */
  isFull(): boolean {
    return this.#engine.isFull?.() ?? false;
  }

  /** Gives up what runs, lets the commits that are under way end, and closes the engine. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const commits: Promise<unknown>[] = [];
    const reason = new KeyValueError("KV_CLOSED", { closed: "store" });
    for (const run of [...this.#running]) {
      if (run.commit === undefined) run.giveUp(reason);
      else {
        commits.push(run.commit);
        run.giveUpAfterCommit(reason);
      }
    }
    await this.#settled(commits);
    await this.#engine.close();
  }

  /** Waits for commits, but not for a store that does not answer. */
  async #settled(commits: readonly Promise<unknown>[]): Promise<void> {
    if (commits.length === 0) return;
    const timer = new AbortController();
    const timeout = this.#runtime.clock.sleep(CLOSE_MS_MAX, timer.signal).catch(() => {});
    await Promise.race([Promise.allSettled(commits), timeout]);
    timer.abort();
  }

  async #run<T>(options: ReadOptions, work: (run: Run) => Promise<T>): Promise<T> {
    if (this.#closing !== undefined) throw new KeyValueError("KV_CLOSED", { closed: "store" });
    options.signal?.throwIfAborted();
    const run = new Run();
    this.#running.add(run);
    const { signal } = options;
    const onAbort = (): void => run.giveUp(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const timeoutMs = options.timeoutMs ?? this.#retry.timeoutMs;
    // Most calls have no limit, and a controller costs more than a read.
    const timer = timeoutMs === undefined ? undefined : new AbortController();
    if (timer !== undefined) this.#limitTime(run, timeoutMs as number, timer.signal);
    try {
      return await run.race(work(run));
    } finally {
      this.#running.delete(run);
      signal?.removeEventListener("abort", onAbort);
      timer?.abort();
    }
  }

  #limitTime(run: Run, timeoutMs: number, signal: AbortSignal): void {
    this.#runtime.clock.sleep(timeoutMs, signal).then(
      () => {
        const code = run.commit === undefined ? "KV_TIMED_OUT" : "KV_UNKNOWN_COMMIT";
        run.giveUp(new KeyValueError(code, { timeoutMs }));
      },
      // The run ended in time.
      () => {},
    );
  }

  async #read<T>(
    body: (tx: ReadTransaction) => Promise<T>,
    options: ReadOptions,
    run: Run,
  ): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      const engineTransaction = run.begin(this.#engine, attempt);
      try {
        // It is not committed, so its reads need not be remembered.
        return await body(engineTransaction.transaction.snapshot);
      } catch (error) {
        engineTransaction.cancel();
        await this.#prepareRetry(error, attempt, options, run);
      } finally {
        engineTransaction.cancel();
      }
    }
  }

  async #transact<T>(
    body: (tx: Transaction) => Promise<T>,
    options: TransactOptions,
    run: Run,
  ): Promise<T> {
    const { whenUnknown = "check" } = options;
    let id: Uint8Array | undefined;
    for (let attempt = 0; ; attempt++) {
      const engineTransaction = run.begin(this.#engine, attempt);
      let done: { readonly value: T; readonly hasWrites: boolean } | undefined;
      try {
        const value = await body(engineTransaction.transaction);
        const { hasWrites } = engineTransaction;
        if (hasWrites && whenUnknown === "check") {
          const { transaction } = engineTransaction;
          id ??= this.#transactionIds.draw();
          if (this.#transactionIds.areOldLeft) await this.#transactionIds.clearOld(transaction);
          this.#transactionIds.write(transaction, id);
        }
        done = { value, hasWrites };
        run.commit = engineTransaction.commit();
        const commit = await run.commit;
        if (id !== undefined) this.#transactionIds.settle(id);
        return runEffects(engineTransaction.effects, commit, value);
      } catch (error) {
        engineTransaction.cancel();
        run.commit = undefined;
        if (errorCode(error) !== "KV_UNKNOWN_COMMIT" || done === undefined) {
          await this.#prepareRetry(error, attempt, options, run);
          continue;
        }
        if (done.hasWrites && whenUnknown === "throw") throw error;
        await this.#pause(error, attempt, options, run);
        if (!done.hasWrites || id === undefined) continue;
        const commit = await this.#findCommit(id, run).catch(() => {
          throw error;
        });
        if (commit !== undefined) return runEffects(engineTransaction.effects, commit, done.value);
      }
    }
  }

  /** The commit that wrote `id`, if it was carried out. */
  async #findCommit(id: Uint8Array, run: Run): Promise<Commit | undefined> {
    const versionstamp = await this.#read((tx) => this.#transactionIds.find(tx, id), {}, run);
    if (versionstamp === undefined) return undefined;
    this.#transactionIds.settle(id);
    return { versionstamp };
  }

  /** Returns when the next attempt is due; throws `error` when there is none. */
  async #prepareRetry(
    error: unknown,
    attempt: number,
    options: ReadOptions,
    run: Run,
  ): Promise<void> {
    if (!isRetryable(error)) throw error;
    await this.#pause(error, attempt, options, run);
  }

  async #pause(error: unknown, attempt: number, options: ReadOptions, run: Run): Promise<void> {
    run.throwIfGivenUp();
    if (attempt >= (options.retryCountMax ?? this.#retry.retryCountMax)) throw error;
    const { backoffMsMin, backoffMsMax } = this.#retry;
    const pauseMs = backoff({ min: backoffMsMin, max: backoffMsMax }, attempt + 1);
    this.#runtime.trace.event("kv.retry", { code: errorCode(error), attempt });
    await this.#runtime.clock.sleep(pauseMs * this.#random.ratio(), run.signal);
  }
}

/** One call of `transact` or `read`: its attempt at hand, and whether it was given up. */
class Run {
  /** The commit that is under way. */
  commit: Promise<Commit> | undefined;
  #attempt: EngineTransaction | undefined;
  #givenUp: { readonly reason: unknown } | undefined;
  #reject: ((reason: unknown) => void) | undefined;
  #controller: AbortController | undefined;

  /** Aborts when the run is given up. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#givenUp !== undefined) this.#controller.abort(this.#givenUp.reason);
    return this.#controller.signal;
  }

  /** Settles as `work`, or rejects when the run is given up first. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.#givenUp !== undefined) reject(this.#givenUp.reason);
      work.then(resolve, reject);
    });
  }

  begin(engine: Engine, attempt: number): EngineTransaction {
    this.throwIfGivenUp();
    this.#attempt = engine.begin(attempt);
    return this.#attempt;
  }

  throwIfGivenUp(): void {
    if (this.#givenUp !== undefined) throw this.#givenUp.reason;
  }

  giveUp(reason: unknown): void {
    if (this.#givenUp !== undefined) return;
    this.giveUpAfterCommit(reason);
    if (this.commit === undefined) this.#attempt?.cancel();
    this.#reject?.(reason);
  }

  /** Lets the commit that is under way decide; no further attempt follows it. */
  giveUpAfterCommit(reason: unknown): void {
    this.#givenUp ??= { reason };
    this.#controller?.abort(reason);
  }
}

/** Runs all effects, even when one throws; then the first error is the caller's, as the defect that it is. */
function runEffects<T>(effects: readonly CommitEffect[], commit: Commit, value: T): T {
  const errors: unknown[] = [];
  for (const effect of effects) {
    try {
      effect(commit);
    } catch (error) {
      errors.push(error);
    }
  }
  assert(
    !(errors[0] instanceof OperationalError),
    "An effect of a committed transaction does not fail with an operational error",
  );
  if (errors.length > 0) throw errors[0];
  return value;
}
