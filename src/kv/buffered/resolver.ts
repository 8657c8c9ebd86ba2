/**
 * Decides whether a transaction is allowed to commit. A transaction must not commit if a key that
 * it read was written after its read version. The resolver knows the writes of the last seconds by
 * key. It has forgotten older writes, so a transaction with an older read version is too old.
 *
 * Writes are kept in two generations. New writes are added to the younger generation. When the
 * whole elder generation can be forgotten, it is dropped, and the younger generation becomes the
 * elder. Writes are therefore never scanned for expiry, and are kept for at most twice the
 * requested time.
 *
 * Sorting the keys of a large transaction costs as much as writing them, and usually no reader
 * needs the sorted keys, because the next committer has a later read version. The keys therefore
 * stay unsorted, possibly packed. A reader searches them transaction by transaction, and the keys
 * are sorted once the searches have cost as much as sorting.
 */
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
  #elder = new Generation();
  #younger = new Generation();
  #knownAfter: number;

  constructor(knownAfter: number) {
    this.#knownAfter = knownAfter;
  }

  /** All writes after this version are known. Earlier writes might have been forgotten. */
  get knownAfter(): number {
    return this.#knownAfter;
  }

  judge(readVersion: number, reads: readonly TextInterval[]): CommitVerdict {
    if (reads.length === 0) return "free";
    if (readVersion < this.#knownAfter) return "too-old";
    for (const generation of [this.#younger, this.#elder]) {
      if (generation.lastVersion <= readVersion) continue;
      for (const read of reads) {
        if (generation.isWrittenAfter(readVersion, read)) return "conflict";
      }
    }
    return "free";
  }

  /** Records a commit. Versions never decrease; several transactions can share a version. */
  record(version: number, committedAtMs: number, writes: Writes): void {
    this.#younger.record(version, committedAtMs, writes);
  }

  /** Permits forgetting commits before `timeMs`. Later commits stay known. */
  forgetBefore(timeMs: number): void {
    if (this.#elder.lastCommitMs >= timeMs || this.#younger.isEmpty) return;
    this.#knownAfter = Math.max(this.#knownAfter, this.#elder.lastVersion);
    this.#elder = this.#younger;
    this.#younger = new Generation();
  }
}

/**
 * Minimum number of writes of a large transaction, whose keys are kept unsorted at first. The
 * writes of a smaller transaction are added to the map immediately.
 */
const WAITING_COUNT_MIN = 64;

/** Generation of writes that are forgotten together. */
class Generation {
  readonly #versionOfKey = new SortedMap<number>();
  /** Writes that are not in the map or the ranges yet, in order of version. */
  #waiting: WaitingWrites[] = [];
  #waitingCount = 0;
  /** Number of searches in waiting writes since these were last sorted. */
  #searchCount = 0;
  /** Written ranges in order of version. */
  #ranges: WrittenRange[] = [];
  lastVersion = -Infinity;
  lastCommitMs = -Infinity;

  get isEmpty(): boolean {
    return this.lastVersion === -Infinity;
  }

  record(version: number, committedAtMs: number, writes: Writes): void {
    this.lastVersion = version;
    this.lastCommitMs = committedAtMs;
    if (writes.count < WAITING_COUNT_MIN) {
      this.#add(version, writes.read(), (key) => this.#versionOfKey.set(key, version));
      return;
    }
    this.#waiting.push(new WaitingWrites(version, writes));
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
  /** The written keys. Created by the first search for a key. */
  #keys: ReadonlySet<string> | undefined;
  #ranges: readonly WrittenRange[] = [];
  /** The sorted keys. Created by the first search for a range. */
  #sortedKeys: readonly string[] | undefined;

  constructor(version: number, writes: Writes) {
    this.version = version;
    this.#writes = writes;
  }

  read(): readonly TextInterval[] {
    return this.#writes.read();
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
