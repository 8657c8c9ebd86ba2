/**
 * Data and requests of jobs, stored as JSON in chunks. During a run, a job can have a second set of
 * values for its next run.
 */
import type { ReadTransaction, Transaction } from "../kv/index.ts";
import type { JobData, JobFacts, JobName } from "./job.ts";
import type { JobKeys } from "./job-keys.ts";
import { DATA_CHUNK_BYTES, decodeData, encodeData } from "./job-record.ts";

/** Values to write. An undefined value is left unchanged. */
export interface Stored {
  readonly data: JobData | undefined;
  readonly request: JobData | undefined;
}

/** Conversion between requests and their stored form. */
export interface RequestForm {
  encode(job: JobName, request: JobData): JobData;
  /**
   * Decodes any stored form, including an unencoded request. Returns an unreadable request as
   * stored.
   */
  decode(job: JobName, stored: JobData): JobData;
  /**
   * Re-encodes the request in the current form, or returns `undefined` if it is already in this
   * form. Throws if the request is unreadable.
   */
  renew(job: JobName, stored: JobData): JobData | undefined;
}

const AS_IT_IS: RequestForm = {
  encode: (_, request) => request,
  decode: (_, stored) => stored,
  renew: () => undefined,
};

export class JobDataStore {
  readonly #data: JsonRows;
  readonly #nextData: JsonRows;
  readonly #request: JsonRows;
  readonly #nextRequest: JsonRows;

  constructor(keys: JobKeys, form: RequestForm = AS_IT_IS) {
    this.#data = new JsonRows(keys.data);
    this.#nextData = new JsonRows(keys.nextData);
    this.#request = new JsonRows(keys.request, form);
    this.#nextRequest = new JsonRows(keys.nextRequest, form);
  }

  get(tx: ReadTransaction, job: JobName): Promise<JobData | undefined> {
    return this.#data.get(tx, job);
  }

  /**
   * Reads the request of a job that is known to have one. Checking whether it has one would cost
   * another read.
   */
  getRequest(tx: ReadTransaction, job: JobName): Promise<JobData | undefined> {
    return this.#request.get(tx, job);
  }

  /** Like `getRequest`, but decodes on the first call of the returned function. */
  getRequestLater(tx: ReadTransaction, job: JobName): Promise<() => JobData | undefined> {
    return this.#request.getLater(tx, job);
  }

  /** Returns data and requests of several jobs, in the given order. */
  async getMany(
    tx: ReadTransaction,
    jobs: readonly { readonly name: JobName; readonly facts: Pick<JobFacts, "hasRequest"> }[],
  ): Promise<readonly Stored[]> {
    const names = jobs.map(({ name }) => name);
    const asked = jobs.filter(({ facts }) => facts.hasRequest).map(({ name }) => name);
    const [data, found] = await Promise.all([
      this.#data.getMany(tx, names),
      this.#request.getMany(tx, asked),
    ]);
    const requests = new Map(asked.map((name, index) => [name, found[index]]));
    return names.map((name, index) => ({ data: data[index], request: requests.get(name) }));
  }

  /**
   * Rewrites the requests of the current and the next run in the current form. Returns whether a
   * request was in a different form.
   */
  async renewRequests(tx: Transaction, job: JobName): Promise<boolean> {
    const areRenewed = [await this.#request.renew(tx, job), await this.#nextRequest.renew(tx, job)];
    return areRenewed.includes(true);
  }

  /** Whether exactly this data and this request are stored. An undefined value is not compared. */
  async has(tx: ReadTransaction, job: JobName, { data, request }: Stored): Promise<boolean> {
    return (
      (data === undefined || (await this.#data.has(tx, job, data))) &&
      (request === undefined || (await this.#request.has(tx, job, request)))
    );
  }

  /** Stores the values of a new job, which has no older values to clear. */
  setFirst(tx: Transaction, job: JobName, { data, request }: Stored): void {
    if (data !== undefined) this.#data.setFirst(tx, job, data);
    if (request !== undefined) this.#request.setFirst(tx, job, request);
  }

  set(tx: Transaction, job: JobName, { data, request }: Stored): void {
    if (data !== undefined) this.#data.set(tx, job, data);
    if (request !== undefined) this.#request.set(tx, job, request);
  }

  /** Stores the values that replace the current values when the next run is queued. */
  setNext(tx: Transaction, job: JobName, { data, request }: Stored): void {
    if (data !== undefined) this.#nextData.set(tx, job, data);
    if (request !== undefined) this.#nextRequest.set(tx, job, request);
  }

  /** Replaces the current values by the values set for the next run. Returns the new values. */
  async takeNext(
    tx: Transaction,
    job: JobName,
    { hasRequest }: Pick<JobFacts, "hasRequest">,
  ): Promise<Stored> {
    const data = await this.#data.takeFrom(this.#nextData, tx, job);
    if (!hasRequest) return { data, request: undefined };
    return { data, request: await this.#request.takeFrom(this.#nextRequest, tx, job) };
  }

  clear(tx: Transaction, job: JobName, { state, hasRequest }: JobFacts): void {
    this.#data.clear(tx, job);
    if (hasRequest) this.#request.clear(tx, job);
    if (state !== "running") return;
    this.#nextData.clear(tx, job);
    if (hasRequest) this.#nextRequest.clear(tx, job);
  }
}

/** One JSON object per job, in as many rows as needed. */
class JsonRows {
  readonly #keys: JobKeys["data"];
  readonly #form: RequestForm;

  constructor(keys: JobKeys["data"], form: RequestForm = AS_IT_IS) {
    this.#keys = keys;
    this.#form = form;
  }

  async get(tx: ReadTransaction, job: JobName): Promise<JobData | undefined> {
    return this.#decode(tx, job, await tx.get(this.#keys.key({ ...job, chunk: 0 })));
  }

  async getLater(tx: ReadTransaction, job: JobName): Promise<() => JobData | undefined> {
    const rows = await this.#read(tx, job, await tx.get(this.#keys.key({ ...job, chunk: 0 })));
    return once(() => rows && this.#form.decode(job, decodeData(rows)));
  }

  async #decode(
    tx: ReadTransaction,
    job: JobName,
    first: Uint8Array | undefined,
  ): Promise<JobData | undefined> {
    const rows = await this.#read(tx, job, first);
    return rows && this.#form.decode(job, decodeData(rows));
  }

  /**
   * Returns the rows of an object, given its first row. If the first row is shorter than a chunk,
   * it is the only one.
   */
  async #read(
    tx: ReadTransaction,
    job: JobName,
    first: Uint8Array | undefined,
  ): Promise<readonly Uint8Array[] | undefined> {
    if (first === undefined) return undefined;
    return first.length < DATA_CHUNK_BYTES ? [first] : this.#rows(tx, job);
  }

  /** Returns the values of several jobs, in the given order. */
  async getMany(
    tx: ReadTransaction,
    jobs: readonly JobName[],
  ): Promise<readonly (JobData | undefined)[]> {
    const first = await tx.getMany(jobs.map((job) => this.#keys.key({ ...job, chunk: 0 })));
    return Promise.all(jobs.map((job, index) => this.#decode(tx, job, first[index])));
  }

  async has(tx: ReadTransaction, job: JobName, value: JobData): Promise<boolean> {
    const stored = await this.get(tx, job);
    return stored !== undefined && JSON.stringify(stored) === JSON.stringify(value);
  }

  async renew(tx: Transaction, job: JobName): Promise<boolean> {
    const rows = await this.#rows(tx, job);
    if (rows.length === 0) return false;
    const renewed = this.#form.renew(job, decodeData(rows));
    if (renewed === undefined) return false;
    this.clear(tx, job);
    this.#setRows(tx, job, encodeData(renewed));
    return true;
  }

  setFirst(tx: Transaction, job: JobName, value: JobData): void {
    this.#setRows(tx, job, encodeData(this.#form.encode(job, value)));
  }

  #setRows(tx: Transaction, job: JobName, rows: readonly Uint8Array[]): void {
    for (const [chunk, bytes] of rows.entries()) tx.set(this.#keys.key({ ...job, chunk }), bytes);
  }

  set(tx: Transaction, job: JobName, value: JobData): void {
    this.clear(tx, job);
    this.setFirst(tx, job, value);
  }

  /**
   * Moves the value of `other` to these rows. Returns the value, or `undefined` if there is no
   * value.
   */
  async takeFrom(other: JsonRows, tx: Transaction, job: JobName): Promise<JobData | undefined> {
    const rows = await other.#rows(tx, job);
    if (rows.length === 0) return undefined;
    other.clear(tx, job);
    this.clear(tx, job);
    this.#setRows(tx, job, rows);
    return this.#form.decode(job, decodeData(rows));
  }

  clear(tx: Transaction, job: JobName): void {
    tx.clearRange(this.#keys.range({ type: job.type, id: job.id }));
  }

  async #rows(tx: ReadTransaction, job: JobName): Promise<Uint8Array[]> {
    const page = await tx.getRangePage(this.#keys.range({ type: job.type, id: job.id }));
    return page.entries.map(({ value }) => value);
  }
}

/** Memoizes `make`, and drops the reference to `make` once it has been called. */
function once<T>(make: () => T): () => T {
  let state: { readonly make: () => T } | { readonly made: T } = { make };
  return () => {
    if ("make" in state) state = { made: state.make() };
    return state.made;
  };
}
