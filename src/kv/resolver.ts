/**
 * Decides whether a transaction may commit: it may not if something it read was written after its read version. Knows the
 * writes of the last seconds by key; whatever is older has been forgotten, and a transaction that read before that is too old.
 *
 * Writes are forgotten by the generation. The younger one takes them, until all of the elder may be forgotten; then that goes as
 * a whole, and the younger is the elder. So nothing is looked at twice, and at most twice as long as asked for is remembered.
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

/** Writes that are forgotten together. */
class Generation {
  readonly #versionOfKey = new SortedMap<number>();
  /** In order of their versions. */
  readonly #ranges: { readonly begin: string; readonly end: string; readonly version: number }[] =
    [];
  lastVersion = -Infinity;
  lastCommitMs = -Infinity;

  get isEmpty(): boolean {
    return this.lastVersion === -Infinity;
  }

  record(version: number, committedAtMs: number, writes: readonly TextInterval[]): void {
    for (const { begin, end } of writes) {
      if (end === undefined) this.#versionOfKey.set(begin, version);
      else if (begin < end) this.#ranges.push({ begin, end, version });
    }
    this.lastVersion = version;
    this.lastCommitMs = committedAtMs;
  }

  isWrittenAfter(readVersion: number, { begin, end }: TextInterval): boolean {
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
}
