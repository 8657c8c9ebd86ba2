/**
 * Decides whether a transaction is allowed to commit. A transaction must not commit if a key that
 * it read was written after its read version. The resolver knows the writes of the last seconds by
 * key. It has forgotten older writes, so a transaction with an older read version is too old.
 *
 * Writes are kept in generations, each for the commits of a short time. A whole generation is
 * dropped when all its commits can be forgotten, so writes are never scanned for expiry.
 *
 * Sorting the keys of a large transaction costs as much as writing them, and usually no reader
 * needs the sorted keys, because the next committer has a later read version. The keys therefore
 * stay unsorted, possibly packed. A reader searches them transaction by transaction, and the keys
 * are sorted once the searches have cost as much as sorting.
 */
import { READ_VERSION_AGE_MS_MAX } from "../limits.ts";
import type { TextInterval } from "../mutation.ts";
import { lowerBound, SortedMap } from "./sorted-map.ts";

export type CommitVerdict = "free" | "conflict" | "too-old";

/** The writes of one transaction. */
export interface Writes {
  /** Number of keys and ranges. */
  readonly count: number;
  /** Returns all writes, in any order. Can be called much later, or never. */
  read(): readonly TextInterval[];
}

export class Resolver {
  readonly #generationMs: number;
  /** Oldest first. */
  readonly #generations: Generation[] = [];
  #knownAfter: number;

  /** `generationMs` is the time between the first commits of two generations. */
  constructor(knownAfter: number, generationMs = READ_VERSION_AGE_MS_MAX / 4) {
    this.#knownAfter = knownAfter;
    this.#generationMs = generationMs;
  }

  /** All writes after this version are known. Earlier writes might have been forgotten. */
  get knownAfter(): number {
    return this.#knownAfter;
  }

  judge(readVersion: number, reads: readonly TextInterval[]): CommitVerdict {
    if (reads.length === 0) return "free";
    if (readVersion < this.#knownAfter) return "too-old";
    for (let index = this.#generations.length - 1; index >= 0; index--) {
      const generation = this.#generations[index] as Generation;
      if (generation.lastVersion <= readVersion) break;
      for (const read of reads) {
        if (generation.isWrittenAfter(readVersion, read)) return "conflict";
      }
    }
    return "free";
  }

  /** Records a commit. Versions never decrease; several transactions can share a version. */
  record(version: number, committedAtMs: number, writes: Writes): void {
    let latest = this.#generations.at(-1);
    if (latest === undefined || committedAtMs - latest.firstCommitMs >= this.#generationMs) {
      latest = new Generation(committedAtMs);
      this.#generations.push(latest);
    }
    latest.record(version, committedAtMs, writes);
  }

  /** Permits forgetting commits before `timeMs`. Later commits stay known. */
  forgetBefore(timeMs: number): void {
    for (let oldest = this.#generations[0]; oldest !== undefined; oldest = this.#generations[0]) {
      if (oldest.lastCommitMs >= timeMs) return;
      this.#knownAfter = Math.max(this.#knownAfter, oldest.lastVersion);
      this.#generations.shift();
    }
  }
}

/**
 * Minimum number of writes of a large transaction, whose keys are kept unsorted at first. The
 * writes of a smaller transaction are added to the map immediately.
 */
const WAITING_COUNT_MIN = 64;

/**
 * Number of the latest large transactions of a generation whose keys stay unpacked for the next
 * searches. Few readers are older, and unpacked keys take several times the memory of packed ones
 * (`bench/large/commands.mjs`: 202 instead of 284 MiB in a cancel of 50,000 jobs).
 */
const UNPACKED_COUNT = 4;

/** Writes that are forgotten together. */
class Generation {
  readonly firstCommitMs: number;
  lastCommitMs: number;
  lastVersion = -Infinity;
  readonly #versionOfKey = new SortedMap<number>();
  /** Writes that are not in the map or the ranges yet, in order of version. */
  #waiting: WaitingWrites[] = [];
  #waitingCount = 0;
  /** Number of searches in waiting writes since these were last sorted. */
  #searchCount = 0;
  /** Written ranges in order of version. */
  #ranges: WrittenRange[] = [];

  constructor(firstCommitMs: number) {
    this.firstCommitMs = firstCommitMs;
    this.lastCommitMs = firstCommitMs;
  }

  record(version: number, committedAtMs: number, writes: Writes): void {
    this.lastVersion = version;
    this.lastCommitMs = committedAtMs;
    if (writes.count < WAITING_COUNT_MIN) {
      this.#add(version, writes.read(), (key) => this.#versionOfKey.set(key, version));
      return;
    }
    this.#waiting.push(new WaitingWrites(version, writes));
    this.#waiting.at(-1 - UNPACKED_COUNT)?.forgetUnpacked();
    this.#waitingCount += writes.count;
  }

  #add(version: number, writes: readonly TextInterval[], addKey: (key: string) => void): void {
    for (const { begin, end } of writes) {
      if (end === undefined) addKey(begin);
      else if (begin < end) this.#ranges.push({ begin, end, version });
    }
  }

  isWrittenAfter(readVersion: number, read: TextInterval): boolean {
    const { begin, end } = read;
    if (this.#isWaitingAfter(readVersion, read)) return true;
    if (end === undefined) {
      if ((this.#versionOfKey.get(begin) ?? 0) > readVersion) return true;
    } else {
      if (begin >= end) return false;
      let isWritten = false;
      this.#versionOfKey.scan(begin, end, (_key, version) => {
        isWritten = version > readVersion;
        return !isWritten;
      });
      if (isWritten) return true;
    }
    // Checks the ranges from the newest to the oldest, down to the read version.
    for (let index = this.#ranges.length - 1; index >= 0; index--) {
      const range = this.#ranges[index] as WrittenRange;
      if (range.version <= readVersion) return false;
      if (overlaps(range, read)) return true;
    }
    return false;
  }

  #isWaitingAfter(readVersion: number, read: TextInterval): boolean {
    if (this.#searchCount > this.#waitingCount) this.#order();
    for (let index = this.#waiting.length - 1; index >= 0; index--) {
      const waiting = this.#waiting[index] as WaitingWrites;
      if (waiting.version <= readVersion) return false;
      this.#searchCount++;
      if (waiting.includes(read)) return true;
    }
    return false;
  }

  /** Sorts the waiting writes into the map and the ranges. */
  #order(): void {
    for (const waiting of this.#waiting) {
      const { version } = waiting;
      this.#add(version, waiting.read(), (key) => {
        // The map might already contain a later version for the key.
        if ((this.#versionOfKey.get(key) ?? 0) < version) this.#versionOfKey.set(key, version);
      });
    }
    this.#ranges.sort((left, right) => left.version - right.version);
    this.#waiting = [];
    this.#waitingCount = 0;
    this.#searchCount = 0;
  }
}

interface WrittenRange {
  readonly begin: string;
  readonly end: string;
  readonly version: number;
}

/** The writes of one large transaction. */
class WaitingWrites {
  readonly version: number;
  readonly #writes: Writes;
  /** The written keys. Created by the next search. */
  #keys: ReadonlySet<string> | undefined;
  #ranges: readonly WrittenRange[] = [];
  /** The sorted keys. Created by the next search for a range. */
  #sortedKeys: readonly string[] | undefined;

  constructor(version: number, writes: Writes) {
    this.version = version;
    this.#writes = writes;
  }

  read(): readonly TextInterval[] {
    return this.#writes.read();
  }

  forgetUnpacked(): void {
    this.#keys = undefined;
    this.#sortedKeys = undefined;
    this.#ranges = [];
  }

  includes(read: TextInterval): boolean {
    const { begin, end } = read;
    if (end !== undefined && begin >= end) return false;
    const keys = this.#keys ?? this.#unpack();
    if (end === undefined ? keys.has(begin) : this.#hasKeyWithin(keys, begin, end)) return true;
    return this.#ranges.some((range) => overlaps(range, read));
  }

  #hasKeyWithin(keys: ReadonlySet<string>, begin: string, end: string): boolean {
    this.#sortedKeys ??= [...keys].sort();
    const found = this.#sortedKeys[lowerBound(this.#sortedKeys, begin)];
    return found !== undefined && found < end;
  }

  #unpack(): ReadonlySet<string> {
    const { version } = this;
    const keys = new Set<string>();
    const ranges: WrittenRange[] = [];
    for (const { begin, end } of this.read()) {
      if (end === undefined) keys.add(begin);
      else if (begin < end) ranges.push({ begin, end, version });
    }
    this.#keys = keys;
    this.#ranges = ranges;
    return keys;
  }
}

/** Whether a written range overlaps a read range. */
function overlaps(range: WrittenRange, { begin, end }: TextInterval): boolean {
  if (begin >= range.end) return false;
  return end === undefined ? range.begin <= begin : range.begin < end;
}
