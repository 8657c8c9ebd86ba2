/**
 * Writes small records of local databases in groups: the logs of a run's source and target, and
 * those of other runs at the same time, are written in one transaction.
 */
import { type Clock, chunksOf } from "../../../base/index.ts";
import { KeyValueError, type KeyValueStore, type Transaction } from "../../../kv/index.ts";

/** Maximum number of writes per transaction. A replication log can have some 20 KB. */
const GROUP_MAX = 16;

interface Waiting {
  /** Performs the write. Resolves with a function that settles its caller after the commit. */
  readonly perform: (tx: Transaction) => Promise<() => void>;
  readonly reject: (error: unknown) => void;
}

export class GroupedWrites {
  readonly #clock: Clock;
  readonly #kv: KeyValueStore;
  #waiting: Waiting[] = [];

  constructor(clock: Clock, kv: KeyValueStore) {
    this.#clock = clock;
    this.#kv = kv;
  }

  /**
   * Performs `body` in a transaction with the writes of other callers. An error of `body` rejects
   * only this call, so `body` must throw before its first write. If the store refuses the group,
   * for example because one log is too large, each write is repeated alone. `body` must be
   * repeatable.
   */
  write<T>(body: (tx: Transaction) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const perform = (tx: Transaction): Promise<() => void> =>
        body(tx).then(
          (value) => () => resolve(value),
          (error: unknown) => {
            if (error instanceof KeyValueError) throw error;
            return () => reject(error);
          },
        );
      this.#waiting.push({ perform, reject });
      if (this.#waiting.length === 1) void this.#flush();
    });
  }

  /** Commits the waiting writes, and those added within one turn of the event loop. */
  async #flush(): Promise<void> {
    await this.#clock.sleep(0);
    const groups = chunksOf(this.#waiting, GROUP_MAX);
    this.#waiting = [];
    for (const group of groups) void this.#commit(group);
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    try {
      const settling = await this.#kv.transact(
        (tx) => Promise.all(group.map(({ perform }) => perform(tx))),
        { whenUnknown: "retry" },
      );
      for (const settle of settling) settle();
    } catch (error) {
      const [first] = group;
      if (group.length === 1) first?.reject(error);
      else await Promise.all(group.map((each) => this.#commit([each])));
    }
  }
}
