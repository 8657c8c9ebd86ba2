/**
 * Commits groups of transactions. A group is one LMDB transaction, so it costs one write to disk.
 *
 * Each transaction is checked for conflicts with the commits of all processes since its read
 * version, as recorded in the commit log. This happens synchronously under LMDB's inter-process
 * lock. A rejected transaction writes nothing.
 */
import { ABORT, TransactionFlags } from "lmdb";
import { READ_VERSION_AGE_MS_MAX, Resolver } from "../../kv/index.ts";
import { GIVEN_UP_REASON, isDiskFull, isGivenUp, reasonOf } from "./environment.ts";
import {
  encodeVersion,
  type LmdbDatabase,
  logKey,
  logKeyVersion,
  readLastVersion,
  VERSION_KEY,
} from "./layout.ts";
import { decodeLogRecord, LogRecordWriter } from "./log-record.ts";
import {
  type CommitterAnswer,
  OUTCOMES,
  type Outcome,
  type PackedRequest,
  visitMutations,
} from "./messages.ts";
import { RedoWriter } from "./redo.ts";
import { Application, Tree } from "./tree.ts";

/**
 * Time for which the resolver keeps writes. Exceeds the lifetime of read versions, so that a
 * transaction expires before the writes that it could conflict with.
 */
const HISTORY_MS = READ_VERSION_AGE_MS_MAX + 1_000;

/**
 * Time for which the log is kept. Exceeds `HISTORY_MS`, because processes that lag behind read the
 * log to fire watches.
 */
const LOG_MS = 2 * READ_VERSION_AGE_MS_MAX;

/**
 * Old records are deleted once per this number of commits. Deleting on every commit would write
 * additional pages each time.
 */
const TRIM_PERIOD = 16;
/** Maximum number of records per deletion. More than `TRIM_PERIOD`, so that a backlog shrinks. */
const TRIM_COUNT_MAX = 64;

/**
 * Maximum size of requests for which a redo record is attempted. Near the limit, a commit that
 * trims the log might not fit into a record and is then tried twice. This costs far less than a
 * second sync for every commit.
 */
const REDO_BYTES_MAX = 3_400;

const WAIT_TWICE = TransactionFlags.ABORTABLE | TransactionFlags.SYNCHRONOUS_COMMIT;
/** Flags with LMDB's MDB_NOMETASYNC, which the lmdb package passes through but does not name. */
const WAIT_ONCE = WAIT_TWICE | 0x4_0000;

/** Resolution of the commit times used for trimming the log. */
const SAMPLE_MS = 1_000;

/** Requests committed together. */
interface Group {
  readonly requests: readonly PackedRequest[];
  /** Outcome of each request as an index into `OUTCOMES`; initially "committed". */
  readonly outcomes: Uint8Array;
  readonly mark: number;
  /** Whether the LMDB transaction has begun and might have written to disk. */
  isBegun: boolean;
  version: number;
}

export class LmdbCommitter {
  readonly #database: LmdbDatabase;
  readonly #directory: string;
  readonly #redo: RedoWriter | undefined;
  #isGivenUp = false;
  #resolver: Resolver | undefined;
  /** Version up to which the resolver knows all writes. */
  #knownVersion = 0;
  /**
   * Version from which the resolver knows all writes. It has not needed earlier writes yet, which
   * can still be in the log.
   */
  #begunVersion = 0;
  /** Lower bound for the versions in the log. */
  #firstLogged = 0;
  /** Samples of the latest version with their times, oldest first. */
  readonly #samples: { readonly version: number; readonly timeMs: number }[] = [];

  constructor(database: LmdbDatabase, directory: string) {
    this.#database = database;
    this.#directory = directory;
    this.#redo = RedoWriter.open(database, directory);
    this.#database.transactionSync(() => {
      this.#redo?.settle(this.#lastVersion() + 1);
      return ABORT;
    }, WAIT_TWICE);
  }

  /** Whether this process can no longer commit. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** Commits the requests. Never throws: a failure becomes the outcome of all requests. */
  commit(requests: readonly PackedRequest[]): CommitterAnswer & { kind: "group" } {
    const numbers = Uint32Array.from(requests, ({ number }) => number);
    const outcomes = new Uint8Array(requests.length);
    if (this.#isGivenUp) {
      outcomes.fill(outcomeIndex("unavailable"));
      const reason = GIVEN_UP_REASON;
      return { kind: "group", version: 0, numbers, outcomes, reason, isDiskFull: false };
    }
    const mark = Math.random();
    const group = { requests, outcomes, mark, isBegun: false, version: 0 };
    try {
      if (!this.#transact(group, isSmall(requests) ? this.#redo : undefined)) {
        // The writes do not fit into the redo record, so the group is committed without one.
        this.#resolver = undefined;
        outcomes.fill(0);
        this.#transact(group, undefined);
      }
      const { version } = group;
      return { kind: "group", version, numbers, outcomes, reason: "", isDiskFull: false };
    } catch (error) {
      // The commits failed or their outcome is unknown, so the log must be read again.
      this.#resolver = undefined;
      this.#isGivenUp = isGivenUp(error);
      outcomes.fill(outcomeIndex(this.#mayBeCommitted(group) ? "unknown" : "unavailable"));
      return {
        kind: "group",
        version: group.version,
        numbers,
        outcomes,
        reason: reasonOf(error, this.#directory),
        isDiskFull: isDiskFull(error, this.#directory),
      };
    }
  }

  close(): void {
    this.#redo?.close();
  }

  /**
   * Runs one LMDB transaction. With a redo `record`, the transaction waits for only one sync.
   * Returns false, without any effect, if the writes do not fit into the record.
   */
  #transact(group: Group, record: RedoWriter | undefined): boolean {
    const end = this.#database.transactionSync(
      () => {
        const committedAtMs = Date.now();
        group.version = this.#catchUp(group.requests, committedAtMs) + 1;
        this.#redo?.settle(group.version);
        group.isBegun = true;
        record?.begin();
        const tree = new Tree(this.#database, record);
        if (!this.#applyAll(group, committedAtMs, tree)) return "nothing";
        if (record === undefined) this.#redo?.announce(group.version);
        else if (!record.save(group.version)) return ABORT;
        return "committed";
      },
      record === undefined ? WAIT_TWICE : WAIT_ONCE,
    );
    if (end === "committed") this.#knownVersion = group.version;
    return end !== ABORT;
  }

  /**
   * Returns whether a group might be committed despite a failure. Acquires the lock, because
   * another process that opens the store might apply the redo record meanwhile. A commit that is
   * neither visible nor has a redo record never becomes visible, because LMDB writes its root last.
   */
  #mayBeCommitted({ isBegun, version, mark }: Group): boolean {
    // A transaction that failed before its first write has committed nothing.
    if (!isBegun) return false;
    let isCommitted = false;
    try {
      this.#database.transactionSync(() => {
        const lastVersion = this.#lastVersion();
        const record = this.#database.get(logKey(version));
        isCommitted = record !== undefined && decodeLogRecord(record).mark === mark;
        // Another process might already have written this version and its redo record.
        if (lastVersion < version) this.#redo?.settle(version);
        return ABORT;
      }, WAIT_TWICE);
    } catch (error) {
      this.#isGivenUp ||= isGivenUp(error);
      return true;
    }
    return isCommitted;
  }

  /**
   * Returns the last committed version. Must be the first call in a transaction. After a permanent
   * failure, the LMDB library runs the callback without transaction and lock, and reports no error.
   * This function then throws, because no snapshot can be acquired.
   */
  #lastVersion(): number {
    this.#database.resetReadTxn();
    return readLastVersion(this.#database);
  }

  /** Applies the requests that have no conflicts. Returns whether there were any such requests. */
  #applyAll(group: Group, committedAtMs: number, tree: Tree): boolean {
    const { requests, version, mark, outcomes } = group;
    const resolver = this.#resolver as Resolver;
    const log = new LogRecordWriter({ committedAtMs, mark });
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
      visitMutations(request.mutations, new Application(tree, version, batchIndex, log));
      resolver.record(version, committedAtMs, log.endTransaction());
      batchIndex++;
    }
    if (batchIndex === 0) return false;
    tree.putLate();
    tree.putLog(version, log);
    tree.put(VERSION_KEY, encodeVersion(version));
    this.#trimLog(version, committedAtMs, tree);
    return true;
  }

  /**
   * Reads the commits since the earliest version read by the requests. Older commits that this
   * process has not read yet are skipped, because the requests cannot conflict with them. Returns
   * the last version.
   */
  #catchUp(requests: readonly PackedRequest[], nowMs: number): number {
    const lastVersion = this.#lastVersion();
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
        // The record was trimmed, because this process was suspended for longer than the log is
        // kept.
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

  /** Deletes old records of all processes. */
  #trimLog(version: number, nowMs: number, tree: Tree): void {
    const samples = this.#samples;
    const lastMs = samples.at(-1)?.timeMs ?? Number.NEGATIVE_INFINITY;
    if (nowMs - lastMs >= SAMPLE_MS) samples.push({ version, timeMs: nowMs });
    while ((samples[1]?.timeMs ?? nowMs) < nowMs - LOG_MS) samples.shift();
    const oldest = samples[0] as { readonly version: number; readonly timeMs: number };
    if (oldest.timeMs >= nowMs - LOG_MS || version % TRIM_PERIOD !== 0) return;
    for (let count = 0; count < TRIM_COUNT_MAX && this.#firstLogged <= oldest.version; count++) {
      const isThere = tree.remove(logKey(this.#firstLogged));
      // If another process has already trimmed the log, continues at the oldest record.
      this.#firstLogged = isThere ? this.#firstLogged + 1 : this.#oldestLogged();
    }
  }
}

/** Whether the group's writes probably fit into a redo record. */
function isSmall(requests: readonly PackedRequest[]): boolean {
  let byteCount = 0;
  for (const { mutations } of requests) byteCount += mutations.length;
  return byteCount <= REDO_BYTES_MAX;
}

/** Returns the earliest read version of the requests; `lastVersion` if none has read. */
function earliestRead(requests: readonly PackedRequest[], lastVersion: number): number {
  let earliest = lastVersion;
  for (const { readVersion, reads } of requests) {
    if (readVersion !== undefined && reads.length > 0 && readVersion < earliest)
      earliest = readVersion;
  }
  return earliest;
}

function outcomeIndex(outcome: Outcome): number {
  return OUTCOMES.indexOf(outcome);
}
