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
import { decodeLogRecord, LogRecordWriter } from "./lmdb-log-record.ts";
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

/** Old records are deleted by one commit in so many: they lie on a page that a commit does not touch otherwise. */
const TRIM_PERIOD = 16;
/** What such a commit may spend on them: more than one for each that did not, so that a backlog shrinks. */
const TRIM_COUNT_MAX = 64;

/** How exactly it is known when a version was committed, to trim the log. */
const SAMPLE_MS = 1_000;

export class LmdbCommitter {
  readonly #database: LmdbDatabase;
  readonly #directory: string;
  #resolver: Resolver | undefined;
  /** The resolver knows every write up to here. */
  #knownVersion = 0;
  /** It began here, for nobody asked for what lies before; what the log has of that it can learn later. */
  #begunVersion = 0;
  /** No record of the log is older. */
  #firstLogged = 0;
  /** Which version was the last at some times of the past, oldest first. */
  readonly #samples: { readonly version: number; readonly timeMs: number }[] = [];

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
        version = this.#catchUp(requests, nowMs) + 1;
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
    const log = new LogRecordWriter(group);
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
      for (const write of request.writes) log.interval(write);
      visitMutations(request.mutations, new Application(this.#database, version, batchIndex, log));
      resolver.record(version, committedAtMs, log.endTransaction());
      batchIndex++;
    }
    if (batchIndex === 0) return false;
    this.#database.putSync(logKey(version), log.finish());
    this.#database.putSync(VERSION_KEY, encodeVersion(version));
    this.#trimLog(version, committedAtMs);
    return true;
  }

  /**
   * Learns what others committed since the earliest state that the requests have read; of what came before, a process that
   * commits now and then learns nothing. Returns the last version.
   */
  #catchUp(requests: readonly PackedRequest[], nowMs: number): number {
    const lastVersion = readLastVersion(this.#database);
    const askedVersion = earliestRead(requests, lastVersion);
    if (this.#resolver === undefined) this.#firstLogged = this.#oldestLogged();
    const begunVersion = this.#resolver?.knownAfter === this.#begunVersion ? this.#begunVersion : 0;
    if (
      this.#resolver === undefined ||
      askedVersion > this.#knownVersion ||
      askedVersion < begunVersion
    ) {
      this.#beginAt(askedVersion);
    }
    for (let version = this.#knownVersion + 1; version <= lastVersion; version++) {
      const bytes = this.#database.get(logKey(version));
      if (bytes === undefined) {
        // This process slept for longer than the log lasts.
        this.#beginAt(version);
        continue;
      }
      const { committedAtMs, writes } = decodeLogRecord(bytes);
      (this.#resolver as Resolver).record(version, committedAtMs, writes);
    }
    this.#knownVersion = lastVersion;
    (this.#resolver as Resolver).forgetBefore(nowMs - HISTORY_MS);
    return lastVersion;
  }

  #beginAt(version: number): void {
    this.#resolver = new Resolver(version);
    this.#begunVersion = version;
    this.#knownVersion = version;
  }

  #oldestLogged(): number {
    const range = { start: logKey(0), end: logKey(Number.MAX_SAFE_INTEGER), limit: 1 };
    for (const key of this.#database.getKeys(range)) return logKeyVersion(key);
    return readLastVersion(this.#database) + 1;
  }

  /** Deletes records that are old, of whichever process. */
  #trimLog(version: number, nowMs: number): void {
    const samples = this.#samples;
    const lastMs = samples.at(-1)?.timeMs ?? Number.NEGATIVE_INFINITY;
    if (nowMs - lastMs >= SAMPLE_MS) samples.push({ version, timeMs: nowMs });
    while ((samples[1]?.timeMs ?? nowMs) < nowMs - LOG_MS) samples.shift();
    const oldest = samples[0] as { readonly version: number; readonly timeMs: number };
    if (oldest.timeMs >= nowMs - LOG_MS || version % TRIM_PERIOD !== 0) return;
    for (let count = 0; count < TRIM_COUNT_MAX && this.#firstLogged <= oldest.version; count++) {
      const isThere = this.#database.removeSync(logKey(this.#firstLogged));
      // Where another process was here before, it may have come far.
      this.#firstLogged = isThere ? this.#firstLogged + 1 : this.#oldestLogged();
    }
  }
}

/** The earliest version by which one of the requests is to be judged; `lastVersion` if none has read anything. */
function earliestRead(requests: readonly PackedRequest[], lastVersion: number): number {
  let earliest = lastVersion;
  for (const { readVersion, reads } of requests) {
    if (readVersion !== undefined && reads.length > 0 && readVersion < earliest)
      earliest = readVersion;
  }
  return earliest;
}

/** Carries out one request's mutations inside the transaction of LMDB, and notes what they write. */
class Application implements MutationVisitor {
  readonly #database: LmdbDatabase;
  readonly #version: number;
  readonly #batchIndex: number;
  readonly #log: LogRecordWriter;

  constructor(database: LmdbDatabase, version: number, batchIndex: number, log: LogRecordWriter) {
    this.#database = database;
    this.#version = version;
    this.#batchIndex = batchIndex;
    this.#log = log;
  }

  set(key: Buffer, value: Buffer): void {
    this.#log.key(key);
    if (isShared(key)) this.#replaceShared(key, value);
    else this.#database.putSync(storedKey(key), value);
  }

  clear(key: Buffer): void {
    this.#log.key(key);
    if (isShared(key)) this.#replaceShared(key, undefined);
    else this.#database.removeSync(storedKey(key));
  }

  clearRange(begin: Buffer, end: Buffer): void {
    this.#log.range(begin, end);
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
