/** The data of jobs: JSON, cut into values; that of the run at hand, and that of the next one when it was given meanwhile. */
import { equalBytes } from "../base/index.ts";
import type { Key, ReadTransaction, Transaction } from "../kv/index.ts";
import type { JobData, JobName } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";
import { decodeData, encodeData } from "./job-record.ts";

export class JobDataStore {
  readonly #keys: JobKeys;

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  async get(tx: ReadTransaction, job: JobName): Promise<JobData> {
    const page = await tx.getRangePage(this.#keys.dataChunks(job));
    return page.entries.length === 0 ? {} : decodeData(page.entries.map(({ value }) => value));
  }

  /** Whether exactly this is stored. */
  async has(tx: ReadTransaction, job: JobName, data: JobData): Promise<boolean> {
    const stored = (await tx.getRangePage(this.#keys.dataChunks(job))).entries;
    const wanted = encodeData(data);
    return (
      stored.length === wanted.length &&
      stored.every(({ value }, index) => equalBytes(value, wanted[index] as Uint8Array))
    );
  }

  set(tx: Transaction, job: JobName, data: JobData): void {
    write(tx, this.#keys.dataChunks(job), data, (chunk) => this.#keys.data(job, chunk));
  }

  /** Data that takes its place when the next run is queued. */
  setNext(tx: Transaction, job: JobName, data: JobData): void {
    write(tx, this.#keys.nextDataChunks(job), data, (chunk) => this.#keys.nextData(job, chunk));
  }

  async takeNext(tx: Transaction, job: JobName): Promise<void> {
    const next = (await tx.getRangePage(this.#keys.nextDataChunks(job))).entries;
    if (next.length === 0) return;
    tx.clearRange(this.#keys.nextDataChunks(job));
    this.set(tx, job, decodeData(next.map(({ value }) => value)));
  }

  clear(tx: Transaction, job: JobName): void {
    tx.clearRange(this.#keys.dataChunks(job));
    tx.clearRange(this.#keys.nextDataChunks(job));
  }
}

function write(
  tx: Transaction,
  range: { readonly begin: Key; readonly end: Key },
  data: JobData,
  keyOf: (chunk: number) => Key,
): void {
  const chunks = encodeData(data);
  tx.clearRange(range);
  for (const [chunk, bytes] of chunks.entries()) tx.set(keyOf(chunk), bytes);
}
