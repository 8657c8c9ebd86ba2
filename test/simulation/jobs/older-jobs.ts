/**
 * Queues of earlier versions, for nodes that are not upgraded yet. Format 2 has no groups, and
 * format 1 has neither groups nor workers. Newer nodes have to read the records of these queues
 * during an upgrade.
 */
import { assert, compareBytes, type Runtime } from "../../../src/base/index.ts";
import { type AcceptOptions, Jobs } from "../../../src/jobs/index.ts";
import { type JobKeys, jobKeys } from "../../../src/jobs/job-keys.ts";
import { decodeFacts } from "../../../src/jobs/job-record.ts";
import type { Key, Subspace, Transaction, VersionstampedBytes } from "../../../src/kv/index.ts";

/** Formats of job records. */
export type RecordFormat = 1 | 2;

const NULL = 0x00;
/**
 * Position of the format number in the packed tuple. The type code of small integers precedes it.
 */
const FORMAT_AT = 1;

export class OlderJobs extends Jobs {
  readonly #format: RecordFormat;
  readonly #keys: JobKeys;

  constructor(runtime: Runtime, subspace: Subspace, format: RecordFormat) {
    super(runtime, subspace);
    this.#format = format;
    this.#keys = jobKeys(subspace);
  }

  /**
   * Adds a job as earlier versions did: they stored the request among the data, without a format.
   */
  override add(...[tx, job, data, options = {}]: Parameters<Jobs["add"]>) {
    const { scheduledAtSec, request = {} } = options;
    const { format: _, ...flat } = { ...request, ...data };
    const plan = scheduledAtSec === undefined ? {} : { scheduledAtSec };
    return super.add(this.#older(tx, job.type), job, flat, plan);
  }

  override accept(...[tx, type, options]: Parameters<Jobs["accept"]>) {
    const { worker, ...wanted } = options;
    const holder: AcceptOptions =
      this.#format === 1 || worker === undefined ? wanted : { ...wanted, worker };
    return super.accept(this.#older(tx, type), type, holder);
  }

  override update(...[tx, held, ...stored]: Parameters<Jobs["update"]>) {
    return super.update(this.#older(tx, held.type), held, ...stored);
  }

  override resubmit(...[tx, job, dueAtSec, ...stored]: Parameters<Jobs["resubmit"]>) {
    return super.resubmit(this.#older(tx, job.type), job, dueAtSec, ...stored);
  }

  override finish(...[tx, held, ...stored]: Parameters<Jobs["finish"]>) {
    return super.finish(this.#older(tx, held.type), held, ...stored);
  }

  override requeueSilent(...[tx, type, until, limit]: Parameters<Jobs["requeueSilent"]>) {
    return super.requeueSilent(this.#older(tx, type), type, until, limit);
  }

  #older(tx: Transaction, type: string): Transaction {
    return withRecords(tx, this.#keys, type, (value) => inFormat(this.#format, value));
  }
}

/** Returns a transaction that applies `change` to the job records that it writes. */
export function withRecords(
  tx: Transaction,
  keys: JobKeys,
  type: string,
  change: (value: Uint8Array) => Uint8Array,
): Transaction {
  const { begin, end } = keys.job.range({ type });
  const changed = (key: Key, value: Uint8Array): Uint8Array =>
    compareBytes(key, begin) >= 0 && compareBytes(key, end) < 0 ? change(value) : value;
  const set = (key: Key, value: Uint8Array): void => tx.set(key, changed(key, value));
  const setVersionstampedValue = (key: Key, { bytes, offset }: VersionstampedBytes): void =>
    tx.setVersionstampedValue(key, { bytes: changed(key, bytes), offset });
  return new Proxy(tx, {
    get(target, name) {
      if (name === "set") return set;
      if (name === "setVersionstampedValue") return setVersionstampedValue;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

/** Converts a current record to an earlier format, unless the conversion would lose information. */
function inFormat(format: RecordFormat, value: Uint8Array): Uint8Array {
  const facts = decodeFacts(value);
  if (facts.group !== undefined || facts.hasRequest) return value;
  const hasWorker = facts.state === "running" && facts.worker !== undefined;
  const writable = hasWorker ? 2 : format;
  const isWithoutWorker = facts.state === "running" && writable === 1;
  const older = value.slice(0, value.length - (isWithoutWorker ? 2 : 1));
  assert(
    value.subarray(older.length).every((byte) => byte === NULL),
    "Missing members must be null, at the end of a record",
  );
  older[FORMAT_AT] = writable;
  return older;
}
