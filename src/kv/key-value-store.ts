/**
 * Opens all transactions and contains the only retry loop. A body can run several times. A call
 * ends when its signal aborts, its time limit passes or the store closes; after that, its body can
 * no longer access the store.
 */
import {
  assert,
  backoff,
  type Clock,
  errorCode,
  OperationalError,
  type Runtime,
} from "../base/index.ts";
import type { CommitEffect, Engine, EngineTransaction, StoreSpace } from "./engine.ts";
import { isRetryable, KeyValueError } from "./kv-error.ts";
import { READ_VERSION_AGE_MS_MAX } from "./limits.ts";
import type { Commit, Key, ReadTransaction, Transaction, Value } from "./transaction.ts";
import { TransactionIds } from "./transaction-ids.ts";

export interface ReadOptions {
  /** Ends the call with `signal.reason`. Does not undo a commit in progress. */
  readonly signal?: AbortSignal | undefined;
  /** Maximum number of retries. If the last retry fails, its error is thrown. */
  readonly retryCountMax?: number | undefined;
  /**
   * Time limit for all attempts together. When it passes, throws KV_TIMED_OUT, or KV_UNKNOWN_COMMIT
   * if a commit was in progress.
   */
  readonly timeoutMs?: number | undefined;
}

export interface TransactOptions extends ReadOptions {
  /**
   * Handling of a commit whose outcome is unknown. "check" (default): writes an id with the body
   * and looks it up afterwards, so that the body is applied exactly once. "retry": the body is
   * idempotent and runs again. "throw": throws KV_UNKNOWN_COMMIT, as "check" does if the id cannot
   * be read.
   */
  readonly whenUnknown?: "throw" | "retry" | "check" | undefined;
}

export interface RetryPolicy {
  readonly retryCountMax: number;
  /**
   * First pause between attempts, doubled on each attempt and multiplied by a random number below
   * 1.
   */
  readonly backoffMsMin: number;
  readonly backoffMsMax: number;
  /** Time limit of the call. Default: no limit. */
  readonly timeoutMs?: number | undefined;
}

/**
 * A conflict means that another transaction committed, so the store makes progress. The limit stops
 * a body that conflicts with itself, and is far above the number of retries under contention (64
 * writers on one key: bench/kv/contention.mjs).
 */
const DEFAULT_RETRY: RetryPolicy = { retryCountMax: 1_000, backoffMsMin: 1, backoffMsMax: 100 };

/**
 * Maximum number of retries after attempts that ended with KV_TOO_OLD and took `TOO_LONG_MS` or
 * longer. A body that always takes too long would otherwise be repeated for hours.
 */
const TOO_LONG_COUNT_MAX = 10;
const TOO_LONG_MS = READ_VERSION_AGE_MS_MAX / 2;

/** A row that every writing transaction reads, and a check of its value. */
export interface Fence {
  readonly key: Key;
  /** Throws a KeyValueError if this process must no longer write. */
  check(value: Value | undefined): void;
}

/**
 * Time limit for commits in progress when the store closes. A node has ten seconds to shut down.
 */
const CLOSE_MS_MAX = 3_000;

export class KeyValueStore {
  readonly #runtime: Runtime;
  readonly #random: Runtime["random"];
  readonly #engine: Engine;
  readonly #retry: RetryPolicy;
  readonly #transactionIds: TransactionIds;
  readonly #running = new Set<Run>();
  readonly #failed: Promise<KeyValueError>;
  #fail: (error: KeyValueError) => void = () => {};
  #fence: Fence | undefined;
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
    this.#failed = new Promise((resolve) => {
      this.#fail = resolve;
    });
    void engine.failed?.then(this.#fail);
  }

  /**
   * Sets a condition for all later commits: a transaction is allowed to write only if `check`
   * accepts the row. The row is read in the transaction, so a concurrent change of the row is a
   * conflict. If `check` throws, the store has failed for this process.
   */
  fence(fence: Fence): void {
    this.#fence = fence;
  }

  /**
   * Runs `body` in a transaction and commits it. After a conflict, runs `body` again in a new
   * transaction. Resolves with the result of the committed attempt.
   */
  transact<T>(body: (tx: Transaction) => Promise<T>, options: TransactOptions = {}): Promise<T> {
    return this.#run(options, (run) => this.#transact(body, options, run));
  }

  /** Runs `body` on a snapshot of the store, without a commit and therefore without conflicts. */
  read<T>(body: (tx: ReadTransaction) => Promise<T>, options: ReadOptions = {}): Promise<T> {
    return this.#run(options, (run) => this.#read(body, options, run));
  }

  /**
   * Resolves with the reason when the store can no longer serve this process. Another process might
   * be able to open it.
   */
  get failed(): Promise<KeyValueError> {
    return this.#failed;
  }

  /** Whether the store responds. If it does not, requests wait or are refused. */
  isAvailable(): boolean {
    return this.#engine.isAvailable?.() ?? true;
  }

  /** Whether one `clearRange` is allowed to clear more than CLEARED_KEYS_MAX keys. */
  get clearsRangesAtOnce(): boolean {
    return this.#engine.clearsRangesAtOnce ?? false;
  }

  /**
   * Whether the store refuses writes because the disk is full. Writes succeed again once there is
   * free space.
   */
  isFull(): boolean {
    return this.#engine.isFull?.() ?? false;
  }

  /**
   * Disk space that the store occupies on this machine; undefined if the engine does not know it.
   */
  space(): StoreSpace | undefined {
    return this.#engine.space?.();
  }

  /** Ends running calls, waits for commits in progress, and closes the engine. Idempotent. */
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

  /**
   * Waits until the commits have settled, but no longer than `CLOSE_MS_MAX` in case the store does
   * not respond.
   */
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
    const run = new Run(this.#runtime.clock);
    this.#running.add(run);
    const { signal } = options;
    const onAbort = (): void => run.giveUp(signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    const timeoutMs = options.timeoutMs ?? this.#retry.timeoutMs;
    // Most calls have no time limit, and creating a controller costs more than a read.
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
      // The sleep was aborted, because the run ended in time.
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
        // A read is not committed, so it needs no conflict ranges.
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
        if (hasWrites) await this.#checkFence(engineTransaction.transaction);
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

  async #checkFence(tx: Transaction): Promise<void> {
    if (this.#fence === undefined) return;
    const value = await tx.get(this.#fence.key);
    try {
      this.#fence.check(value);
    } catch (error) {
      this.#fail(error as KeyValueError);
      throw error;
    }
  }

  /** Returns the commit that wrote `id`, if it succeeded. */
  async #findCommit(id: Uint8Array, run: Run): Promise<Commit | undefined> {
    const versionstamp = await this.#read((tx) => this.#transactionIds.find(tx, id), {}, run);
    if (versionstamp === undefined) return undefined;
    this.#transactionIds.settle(id);
    return { versionstamp };
  }

  /** Waits until the next attempt can start. Throws `error` after the last attempt. */
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
    const isTooLong = errorCode(error) === "KV_TOO_OLD" && run.attemptMs >= TOO_LONG_MS;
    if (isTooLong && run.tooLongCount++ === TOO_LONG_COUNT_MAX) throw error;
    const { backoffMsMin, backoffMsMax } = this.#retry;
    const pauseMs = backoff({ min: backoffMsMin, max: backoffMsMax }, attempt + 1);
    this.#runtime.trace.event("kv.retry", { code: errorCode(error), attempt });
    await this.#runtime.clock.sleep(pauseMs * this.#random.ratio(), run.signal);
  }
}

/** One call of `transact` or `read`: its current attempt, and whether it was cancelled. */
class Run {
  /** The commit in progress. */
  commit: Promise<Commit> | undefined;
  /** Number of attempts so far that took too long. */
  tooLongCount = 0;
  readonly #clock: Clock;
  #beganMs = 0;
  #attempt: EngineTransaction | undefined;
  #givenUp: { readonly reason: unknown } | undefined;
  #reject: ((reason: unknown) => void) | undefined;
  #controller: AbortController | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Duration of the current attempt. */
  get attemptMs(): number {
    return this.#clock.monotonicMs() - this.#beganMs;
  }

  /** Aborts when the run is cancelled. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#givenUp !== undefined) this.#controller.abort(this.#givenUp.reason);
    return this.#controller.signal;
  }

  /** Settles like `work`, or rejects if the run is cancelled first. */
  race<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.#givenUp !== undefined) reject(this.#givenUp.reason);
      work.then(resolve, reject);
    });
  }

  begin(engine: Engine, attempt: number): EngineTransaction {
    this.throwIfGivenUp();
    this.#beganMs = this.#clock.monotonicMs();
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

  /** Cancels the run, but not a commit in progress, whose outcome becomes the result. */
  giveUpAfterCommit(reason: unknown): void {
    this.#givenUp ??= { reason };
    this.#controller?.abort(reason);
  }
}

/** Runs all effects even if one throws. The first error is then thrown, because it is a bug. */
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
    "An effect of a committed transaction must not fail with an operational error",
  );
  if (errors.length > 0) throw errors[0];
  return value;
}
