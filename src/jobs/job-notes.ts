/**
 * Bytes that an observer stores with a job. A note is adjacent to the first row of the job's data,
 * so a transaction that writes both modifies only one page of a paged store. A note belongs to the
 * observer: the queue neither reads nor removes it.
 */
import { keyAfter, type ReadTransaction, type Transaction } from "../kv/index.ts";
import type { JobName, JobType } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";

export class JobNotes {
  readonly #keys: JobKeys;

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  get(tx: ReadTransaction, job: JobName): Promise<Uint8Array | undefined> {
    return tx.get(this.#keys.note.key(job));
  }

  /** Returns the notes of several jobs of a type, in the order of `ids`. */
  getMany(
    tx: ReadTransaction,
    type: JobType,
    ids: readonly string[],
  ): Promise<(Uint8Array | undefined)[]> {
    return tx.getMany(ids.map((id) => this.#keys.note.key({ type, id })));
  }

  /** Sets the note; `undefined` removes it. */
  set(tx: Transaction, job: JobName, note: Uint8Array | undefined): void {
    if (note === undefined) tx.clear(this.#keys.note.key(job));
    else tx.set(this.#keys.note.key(job), note);
  }

  /**
   * Returns the notes after `afterId` ("" for the first) up to `lastId` (undefined for the last),
   * by job id. The job of a note might no longer exist. Also reads the rows of data between the
   * notes.
   */
  async between(
    tx: ReadTransaction,
    type: JobType,
    afterId: string,
    lastId: string | undefined,
  ): Promise<ReadonlyMap<string, Uint8Array>> {
    const all = this.#keys.note.range({ type });
    const begin = afterId === "" ? all.begin : keyAfter(this.#keys.note.key({ type, id: afterId }));
    const end =
      lastId === undefined ? all.end : keyAfter(this.#keys.note.key({ type, id: lastId }));
    const found = new Map<string, Uint8Array>();
    for await (const { key, value } of tx.getRange({ begin, end })) {
      const { id, chunk } = this.#keys.data.unpack(key);
      if (chunk === undefined) found.set(id, value);
    }
    return found;
  }
}
