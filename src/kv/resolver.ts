/**
 * Decides whether a transaction may commit: it may not if something it read was written after its read version. Knows the
 * writes of the last seconds by key; whatever is older has been forgotten, and a transaction that read before that is too old.
 *
 * Writes are forgotten by the generation. The younger one takes them, until all of the elder may be forgotten; then that goes as
 * a whole, and the younger is the elder. So nothing is looked at twice, and at most twice as long as asked for is remembered.
 *
 * To put the keys of a large transaction in order costs as much as to write them, and mostly nobody asks: whoever commits next has read
 * later. So they wait, and whoever asks searches them one transaction after the other, until that was done so often that it
 * would have paid to put them in order.
 */
import type { TextInterval } from "./mutation.ts";
import { SortedMap } from "./sorted-map.ts";

export type Verdict = "free" | "conflict" | "too-old";

export class Resolver {
  #elder = new Generation();
  #younger = new Generation();
  #knownAfter: number;

  constructor(knownAfter: number) {
    this.#knownAfter = knownAfter;
  }

  /** All writes after this version are known. */
  get knownAfter(): number {
    return this.#knownAfter;
  }

  judge(readVersion: number, reads: readonly TextInterval[]): Verdict {
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

  /** Takes note of what was committed. Versions never descend; several transactions may share one. */
  record(version: number, committedAtMs: number, writes: readonly TextInterval[]): void {
    this.#younger.record(version, committedAtMs, writes);
  }

  /** Allows to forget what was committed before `timeMs`; what was committed later is known for longer. */
  forgetBefore(timeMs: number): void {
    if (this.#elder.lastCommitMs >= timeMs || this.#younger.isEmpty) return;
    this.#knownAfter = Math.max(this.#knownAfter, this.#elder.lastVersion);
    this.#elder = this.#younger;
    this.#younger = new Generation();
  }
}

/** The keys of a smaller transaction are put in order at once: many of them are searched by many. */
const WAITING_KEYS_MIN = 64;

/** What one large transaction wrote. */
interface WaitingKeys {
  readonly version: number;
  readonly keys: string[];
  isSorted: boolean;
}

/** Writes that are forgotten together. */
class Generation {
  readonly #versionOfKey = new SortedMap<number>();
  /** Not in the map yet, in order of their versions. */
  #waiting: WaitingKeys[] = [];
  #waitingKeyCount = 0;
  /** How often one of those was searched. */
  #searchCount = 0;
  /** In order of their versions. */
  readonly #ranges: { readonly begin: string; readonly end: string; readonly version: number }[] =
    [];
  lastVersion = -Infinity;
  lastCommitMs = -Infinity;

  get isEmpty(): boolean {
    return this.lastVersion === -Infinity;
  }

  record(version: number, committedAtMs: number, writes: readonly TextInterval[]): void {
    const keys: string[] = [];
    for (const { begin, end } of writes) {
      if (end === undefined) keys.push(begin);
      else if (begin < end) this.#ranges.push({ begin, end, version });
    }
    if (keys.length < WAITING_KEYS_MIN)
      for (const key of keys) this.#versionOfKey.set(key, version);
    else {
      this.#waiting.push({ version, keys, isSorted: false });
      this.#waitingKeyCount += keys.length;
    }
    this.lastVersion = version;
    this.lastCommitMs = committedAtMs;
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
    // From the newest down: older ones cannot matter.
    for (let index = this.#ranges.length - 1; index >= 0; index--) {
      const range = this.#ranges[index] as { begin: string; end: string; version: number };
      if (range.version <= readVersion) return false;
      if (
        end === undefined
          ? begin < range.end && range.begin <= begin
          : begin < range.end && range.begin < end
      ) {
        return true;
      }
    }
    return false;
  }

  #isWaitingAfter(readVersion: number, read: TextInterval): boolean {
    if (this.#searchCount > this.#waitingKeyCount) this.#order();
    for (let index = this.#waiting.length - 1; index >= 0; index--) {
      const waiting = this.#waiting[index] as WaitingKeys;
      if (waiting.version <= readVersion) return false;
      this.#searchCount++;
      if (isAmong(waiting, read)) return true;
    }
    return false;
  }

  /** Puts the waiting keys into the map, where later ones may be already. */
  #order(): void {
    for (const { version, keys } of this.#waiting) {
      for (const key of keys) {
        if ((this.#versionOfKey.get(key) ?? 0) < version) this.#versionOfKey.set(key, version);
      }
    }
    this.#waiting = [];
    this.#waitingKeyCount = 0;
    this.#searchCount = 0;
  }
}

function isAmong(waiting: WaitingKeys, { begin, end }: TextInterval): boolean {
  const { keys } = waiting;
  if (!waiting.isSorted) {
    keys.sort();
    waiting.isSorted = true;
  }
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((keys[middle] as string) < begin) low = middle + 1;
    else high = middle;
  }
  const found = keys[low];
  return found !== undefined && (end === undefined ? found === begin : found < end);
}
