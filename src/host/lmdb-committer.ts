/**
 * Commits groups of transactions: each group is one transaction of LMDB, so that all of them cost one write to the disk.
 *
 * Every transaction is judged against what was committed since its read version, by this process or by another: the commit
 * log in the file tells. All of it happens under LMDB's lock between processes and without a pause, and nothing is written
 * for a transaction that loses.
 */
import {
  type AtomicOperation,
  applyAtomic,
  type KeyValue,
  READ_VERSION_AGE_MS_MAX,
  Resolver,
  type TextInterval,
  writeVersionstamp,
} from "../kv/index.ts";
import { asBuffer } from "./lmdb-encoding.ts";
import { type LmdbDatabase, readLastVersion, reasonOf } from "./lmdb-environment.ts";
import {
  decodeShared,
  encodeShared,
  encodeVersion,
  isShared,
  isSharedRecord,
  logKey,
  logKeyVersion,
  replaceRow,
  storedEnd,
  storedKey,
  VERSION_KEY,
} from "./lmdb-layout.ts";
import { decodeLogRecord, encodeLogRecord } from "./lmdb-log-record.ts";
import {
  type CommitterAnswer,
  type MutationVisitor,
  OUTCOMES,
  type Outcome,
  type PackedRequest,
  visitMutations,
} from "./lmdb-messages.ts";

/** Longer than any read version lives, so that a transaction is too old before its history is gone. */
const HISTORY_MS = READ_VERSION_AGE_MS_MAX + 1_000;

/** The file keeps the log longer, for processes that lag behind with their watches. */
const LOG_MS = 4 * READ_VERSION_AGE_MS_MAX;

/** What a commit may spend on old records: more than one, so that a backlog shrinks. */
const TRIM_COUNT_MAX = 4;

export class LmdbCommitter {
  readonly #database: LmdbDatabase;
  readonly #directory: string;
  #resolver: Resolver | undefined;
  /** The resolver knows every write up to here. */
  #knownVersion = 0;
  /** Log records in the file that will be deleted when they are old, oldest first. */
  #log: { readonly version: number; readonly committedAtMs: number }[] = [];

  constructor(database: LmdbDatabase, directory: string) {
    this.#database = database;
    this.#directory = directory;
  }

  /** Never throws: a failure is the outcome of all. */
  commit(requests: readonly PackedRequest[]): CommitterAnswer & { kind: "group" } {
    const outcomes = new Uint8Array(requests.length);
    const mark = Math.random();
    let version = 0;
    try {
      const committed = this.#database.transactionSync(() => {
        const nowMs = Date.now();
        version = this.#catchUp(nowMs) + 1;
        return this.#applyAll(requests, { version, committedAtMs: nowMs, mark }, outcomes);
      });
      if (committed) this.#knownVersion = version;
      return { kind: "group", version, outcomes, reason: "" };
    } catch (error) {
      // What the resolver noted was not committed, or nobody knows: it learns anew from the log.
      this.#resolver = undefined;
      outcomes.fill(
        outcomeIndex(this.#mayHaveCommitted(version, mark) ? "unknown" : "unavailable"),
      );
      return { kind: "group", version, outcomes, reason: reasonOf(error, this.#directory) };
    }
  }

  /** After a failure. LMDB writes its root last: what cannot be seen now will not be seen later. */
  #mayHaveCommitted(version: number, mark: number): boolean {
    try {
      this.#database.resetReadTxn();
      const record = this.#database.get(logKey(version));
      return record !== undefined && decodeLogRecord(record).mark === mark;
    } catch {
      return true;
    }
  }

  /** Whether any request was applied. */
  #applyAll(
    requests: readonly PackedRequest[],
    group: { readonly version: number; readonly committedAtMs: number; readonly mark: number },
    outcomes: Uint8Array,
  ): boolean {
    const { version, committedAtMs } = group;
    const resolver = this.#resolver as Resolver;
    const writesOfAll: TextInterval[] = [];
    let batchIndex = 0;
    for (const [index, request] of requests.entries()) {
      const verdict =
        request.readVersion === undefined
          ? "free"
          : resolver.judge(request.readVersion, request.reads);
      if (verdict !== "free") {
        outcomes[index] = outcomeIndex(verdict);
        continue;
      }
      const writes = [...request.writes];
      const application = new Application(this.#database, version, batchIndex, writes);
      visitMutations(request.mutations, application);
      resolver.record(version, committedAtMs, writes);
      for (const write of writes) writesOfAll.push(write);
      batchIndex++;
    }
    if (batchIndex === 0) return false;
    const record = encodeLogRecord({ ...group, writes: writesOfAll });
    this.#database.putSync(logKey(version), record);
    this.#database.putSync(VERSION_KEY, encodeVersion(version));
    this.#log.push({ version, committedAtMs });
    this.#trimLog(committedAtMs);
    return true;
  }

  /** Learns what others committed. Returns the last version. */
  #catchUp(nowMs: number): number {
    const lastVersion = readLastVersion(this.#database);
    if (this.#resolver === undefined) this.#readLog();
    const resolver = this.#resolver as Resolver;
    for (let version = this.#knownVersion + 1; version <= lastVersion; version++) {
      const bytes = this.#database.get(logKey(version));
      if (bytes === undefined) {
        // This process slept for longer than the log lasts.
        this.#readLog();
        break;
      }
      const { committedAtMs, writes } = decodeLogRecord(bytes);
      resolver.record(version, committedAtMs, writes);
      this.#log.push({ version, committedAtMs });
    }
    this.#knownVersion = lastVersion;
    (this.#resolver as Resolver).forgetBefore(nowMs - HISTORY_MS);
    return lastVersion;
  }

  /** Begins anew with all that the log has. */
  #readLog(): void {
    this.#log = [];
    const lastVersion = readLastVersion(this.#database);
    let resolver: Resolver | undefined;
    const range = { start: logKey(0), end: logKey(Number.MAX_SAFE_INTEGER) };
    for (const { key, value } of this.#database.getRange(range)) {
      const version = logKeyVersion(key);
      const { committedAtMs, writes } = decodeLogRecord(value);
      resolver ??= new Resolver(version - 1);
      resolver.record(version, committedAtMs, writes);
      this.#log.push({ version, committedAtMs });
    }
    this.#resolver = resolver ?? new Resolver(lastVersion);
    this.#knownVersion = lastVersion;
  }

  #trimLog(nowMs: number): void {
    let count = 0;
    for (const { version, committedAtMs } of this.#log) {
      if (count >= TRIM_COUNT_MAX || committedAtMs >= nowMs - LOG_MS) break;
      this.#database.removeSync(logKey(version));
      count++;
    }
    this.#log.splice(0, count);
  }
}

/** Carries out one request's mutations inside the transaction of LMDB, and notes what they write. */
class Application implements MutationVisitor {
  readonly #database: LmdbDatabase;
  readonly #version: number;
  readonly #batchIndex: number;
  readonly #writes: TextInterval[];

  constructor(database: LmdbDatabase, version: number, batchIndex: number, writes: TextInterval[]) {
    this.#database = database;
    this.#version = version;
    this.#batchIndex = batchIndex;
    this.#writes = writes;
  }

  set(key: Buffer, value: Buffer): void {
    this.#note(key);
    if (isShared(key)) this.#replaceShared(key, value);
    else this.#database.putSync(storedKey(key), value);
  }

  clear(key: Buffer): void {
    this.#note(key);
    if (isShared(key)) this.#replaceShared(key, undefined);
    else this.#database.removeSync(storedKey(key));
  }

  clearRange(begin: Buffer, end: Buffer): void {
    this.#writes.push({ begin: begin.toString("latin1"), end: end.toString("latin1") });
    if (Buffer.compare(begin, end) >= 0) return;
    const range = { start: storedKey(begin), end: storedEnd(end) };
    for (const key of [...this.#database.getKeys(range)]) {
      if (isSharedRecord(key)) this.#clearShared(key, begin, end);
      else this.#database.removeSync(storedKey(key));
    }
  }

  setVersionstampedKey(key: Buffer, offset: number, value: Buffer): void {
    writeVersionstamp(key, offset, this.#version, this.#batchIndex);
    this.set(key, value);
  }

  setVersionstampedValue(key: Buffer, value: Buffer, offset: number): void {
    writeVersionstamp(value, offset, this.#version, this.#batchIndex);
    this.set(key, value);
  }

  operate(operation: AtomicOperation, key: Buffer, operand: Buffer): void {
    const stored = isShared(key)
      ? this.#sharedRows(key).find((row) => Buffer.compare(row.key, key) === 0)?.value
      : this.#database.get(storedKey(key));
    this.set(key, asBuffer(applyAtomic(operation, stored, operand)));
  }

  #note(key: Buffer): void {
    this.#writes.push({ begin: key.toString("latin1"), end: undefined });
  }

  #sharedRows(sharing: Uint8Array): KeyValue[] {
    const record = this.#database.get(storedKey(sharing));
    return record === undefined ? [] : decodeShared(sharing, record);
  }

  #replaceShared(key: Buffer, value: Buffer | undefined): void {
    this.#writeShared(key, replaceRow(this.#sharedRows(key), key, value));
  }

  #clearShared(sharing: Uint8Array, begin: Buffer, end: Buffer): void {
    const kept = this.#sharedRows(sharing).filter(
      ({ key }) => Buffer.compare(key, begin) < 0 || Buffer.compare(key, end) >= 0,
    );
    this.#writeShared(sharing, kept);
  }

  #writeShared(sharing: Uint8Array, rows: readonly KeyValue[]): void {
    const stored = storedKey(sharing);
    if (rows.length === 0) this.#database.removeSync(stored);
    else this.#database.putSync(stored, encodeShared(rows));
  }
}

function outcomeIndex(outcome: Outcome): number {
  return OUTCOMES.indexOf(outcome);
}
