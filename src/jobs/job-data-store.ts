/** The data of jobs: JSON, cut into values; that of the run at hand, and that of the next one when it was given meanwhile. */
import { equalBytes } from "../base/index.ts";
import type { Key, ReadTransaction, Transaction } from "../kv/index.ts";
import type { JobData, JobName } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";
import { DATA_CHUNK_BYTES, decodeData, encodeData } from "./job-record.ts";

export class JobDataStore {
  readonly #keys: JobKeys;

  constructor(keys: JobKeys) {
    this.#keys = keys;
  }

  async get(tx: ReadTransaction, job: JobName): Promise<JobData> {
    // Most data is one value, and whoever writes data writes the first.
    const first = await tx.get(this.#keys.data(job, 0));
    if (first === undefined) return {};
    if (first.length < DATA_CHUNK_BYTES) return decodeData([first]);
    const page = await tx.getRangePage(this.#keys.dataChunks(job));
    return decodeData(page.entries.map(({ value }) => value));
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

  /** Of a job that is not there yet, and so has no data. */
  setFirst(tx: Transaction, job: JobName, data: JobData): void {
    write(tx, data, (chunk) => this.#keys.data(job, chunk));
  }

  set(tx: Transaction, job: JobName, data: JobData): void {
    tx.clearRange(this.#keys.dataChunks(job));
    this.setFirst(tx, job, data);
  }

  /** Data that takes its place when the next run is queued. */
  setNext(tx: Transaction, job: JobName, data: JobData): void {
    tx.clearRange(this.#keys.nextDataChunks(job));
    write(tx, data, (chunk) => this.#keys.nextData(job, chunk));
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

function write(tx: Transaction, data: JobData, keyOf: (chunk: number) => Key): void {
  for (const [chunk, bytes] of encodeData(data).entries()) tx.set(keyOf(chunk), bytes);
}
