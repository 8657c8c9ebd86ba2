/**
 * Commits groups of transactions: each group is one transaction of LMDB, so all of them cost one write to the disk.
 *
 * Every transaction is judged against the commits since its read version, by this process or by another; the commit log
 * in the file has them. All of it happens under LMDB's lock between processes and without a pause. Nothing is written
 * for a transaction that is refused.
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

/** Longer than any read version lives, so that a transaction is too old before its history is gone. */
const HISTORY_MS = READ_VERSION_AGE_MS_MAX + 1_000;

/** The file keeps the log longer, for processes that lag behind with their watches. */
const LOG_MS = 4 * READ_VERSION_AGE_MS_MAX;

/** Old records are deleted by one commit in so many: they lie on a page that a commit does not touch otherwise. */
const TRIM_PERIOD = 16;
/** What such a commit may spend on them: more than one for each that did not, so that a backlog shrinks. */
const TRIM_COUNT_MAX = 64;

/**
 * Requests of so many bytes most likely fit into a redo record. One in `TRIM_PERIOD` of the largest does not, for the records of the
 * log that go, and is tried twice: that costs far less than a second wait for the disk in the others.
 */
const REDO_BYTES_MAX = 3_400;

const WAIT_TWICE = TransactionFlags.ABORTABLE | TransactionFlags.SYNCHRONOUS_COMMIT;
/** With LMDB's MDB_NOMETASYNC, which lmdb passes on but does not name. */
const WAIT_ONCE = WAIT_TWICE | 0x4_0000;

/** How exactly it is known when a version was committed, to trim the log. */
const SAMPLE_MS = 1_000;

/** Requests that are committed together. */
interface Group {
  readonly requests: readonly PackedRequest[];
  /** Indices into `OUTCOMES`; "committed" until something else is known. */
  readonly outcomes: Uint8Array;
  readonly mark: number;
  /** Something may have been written. */
  isBegun: boolean;
  version: number;
}

export class LmdbCommitter {
  readonly #database: LmdbDatabase;
  readonly #directory: string;
  readonly #redo: RedoWriter | undefined;
  #isGivenUp = false;
  #resolver: Resolver | undefined;
  /** The resolver knows every write up to here. */
  #knownVersion = 0;
  /** It began here, because no transaction needed earlier commits. The log may still have them. */
  #begunVersion = 0;
  /** No record of the log is older. */
  #firstLogged = 0;
  /** Which version was the last at some times of the past, oldest first. */
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

  /** Nothing can be committed in this process any more. */
  get isGivenUp(): boolean {
    return this.#isGivenUp;
  }

  /** Never throws: a failure is the outcome of all. */
  commit(requests: readonly PackedRequest[]): CommitterAnswer & { kind: "group" } {
    const outcomes = new Uint8Array(requests.length);
    if (this.#isGivenUp) {
      outcomes.fill(outcomeIndex("unavailable"));
      return { kind: "group", version: 0, outcomes, reason: GIVEN_UP_REASON, isDiskFull: false };
    }
    const mark = Math.random();
    const group = { requests, outcomes, mark, isBegun: false, version: 0 };
    try {
      if (!this.#transact(group, isSmall(requests) ? this.#redo : undefined)) {
        // It wrote more than it looked like.
        this.#resolver = undefined;
        outcomes.fill(0);
        this.#transact(group, undefined);
      }
      return { kind: "group", version: group.version, outcomes, reason: "", isDiskFull: false };
    } catch (error) {
      // The noted commits failed or are unknown: it reads the log again.
      this.#resolver = undefined;
      this.#isGivenUp = isGivenUp(error);
      outcomes.fill(outcomeIndex(this.#mayBeCommitted(group) ? "unknown" : "unavailable"));
      return {
        kind: "group",
        version: group.version,
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
   * One transaction of LMDB. With a `record` it waits for the disk once. False, and nothing was done, when it writes more than that
   * holds.
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
   * After a failure. Under the lock: for as long as there is a redo record, another process that opens the store may carry it out.
   * LMDB writes its root last: what cannot be seen then will never be, once no record of it is left either.
   */
  #mayBeCommitted({ isBegun, version, mark }: Group): boolean {
    // Before that nothing was written.
    if (!isBegun) return false;
    let isCommitted = false;
    try {
      this.#database.transactionSync(() => {
        const lastVersion = this.#lastVersion();
        const record = this.#database.get(logKey(version));
        isCommitted = record !== undefined && decodeLogRecord(record).mark === mark;
        // Another process may have made the version, and written the record of it.
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
   * Inside a transaction, first of all: throws when LMDB has given the environment up. The library does not say then that there is no
   * transaction and nobody holds the lock; but what is read comes from a snapshot, and a new one cannot be had.
   */
  #lastVersion(): number {
    this.#database.resetReadTxn();
    return readLastVersion(this.#database);
  }

  /** Whether any request was applied. */
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
    tree.putLog(version, log);
    tree.put(VERSION_KEY, encodeVersion(version));
    this.#trimLog(version, committedAtMs, tree);
    return true;
  }

  /**
   * Learns what others committed since the earliest state that the requests have read; of what came before, a process that
   * commits now and then learns nothing. Returns the last version.
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
  #trimLog(version: number, nowMs: number, tree: Tree): void {
    const samples = this.#samples;
    const lastMs = samples.at(-1)?.timeMs ?? Number.NEGATIVE_INFINITY;
    if (nowMs - lastMs >= SAMPLE_MS) samples.push({ version, timeMs: nowMs });
    while ((samples[1]?.timeMs ?? nowMs) < nowMs - LOG_MS) samples.shift();
    const oldest = samples[0] as { readonly version: number; readonly timeMs: number };
    if (oldest.timeMs >= nowMs - LOG_MS || version % TRIM_PERIOD !== 0) return;
    for (let count = 0; count < TRIM_COUNT_MAX && this.#firstLogged <= oldest.version; count++) {
      const isThere = tree.remove(logKey(this.#firstLogged));
      // Where another process was here before, it may have come far.
      this.#firstLogged = isThere ? this.#firstLogged + 1 : this.#oldestLogged();
    }
  }
}

/** Whether a redo record will most likely hold what the group writes. */
function isSmall(requests: readonly PackedRequest[]): boolean {
  let byteCount = 0;
  for (const { mutations } of requests) byteCount += mutations.length;
  return byteCount <= REDO_BYTES_MAX;
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

function outcomeIndex(outcome: Outcome): number {
  return OUTCOMES.indexOf(outcome);
}
