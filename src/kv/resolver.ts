/**
 * Decides whether a transaction may commit: it may not if something it read was written after its read version. Knows the
 * writes of the last seconds by key; whatever is older has been forgotten, and a transaction that read before that is too old.
 */
import { SortedMap } from "./sorted-map.ts";

/** As texts: a key, or the keys from `begin` to before `end`. */
export interface TextInterval {
  readonly begin: string;
  readonly end: string | undefined;
}

interface WrittenVersion {
  readonly version: number;
  readonly committedAtMs: number;
  readonly writes: TextInterval[];
}

export type Verdict = "free" | "conflict" | "too-old";

export class Resolver {
  readonly #versionOfKey = new SortedMap<number>();
  /** In order of their versions. */
  readonly #writtenRanges: { begin: string; end: string; version: number }[] = [];
  readonly #history: WrittenVersion[] = [];
  /** All writes after this version are known. */
  #knownAfter: number;

  constructor(knownAfter: number) {
    this.#knownAfter = knownAfter;
  }

  judge(readVersion: number, reads: readonly TextInterval[]): Verdict {
    if (reads.length === 0) return "free";
    if (readVersion < this.#knownAfter) return "too-old";
    for (const { begin, end } of reads) {
      if (this.#isWrittenAfter(readVersion, begin, end)) return "conflict";
    }
    return "free";
  }

  /** Takes note of what was committed. Versions never descend; several transactions may share one. */
  record(version: number, committedAtMs: number, writes: readonly TextInterval[]): void {
    for (const { begin, end } of writes) {
      if (end === undefined) this.#versionOfKey.set(begin, version);
      else if (begin < end) this.#writtenRanges.push({ begin, end, version });
    }
    // Those that commit as a group share one entry: there are many, and all are forgotten together.
    const last = this.#history[this.#history.length - 1];
    if (last?.version !== version)
      this.#history.push({ version, committedAtMs, writes: [...writes] });
    else for (const write of writes) last.writes.push(write);
  }

  /** Forgets what was committed before `timeMs`. */
  forgetBefore(timeMs: number): void {
    let count = 0;
    for (const { committedAtMs } of this.#history) {
      if (committedAtMs >= timeMs) break;
      count++;
    }
    if (count === 0) return;
    const forgotten = this.#history.splice(0, count);
    this.#knownAfter = (forgotten[count - 1] as WrittenVersion).version;
    for (const { version, writes } of forgotten) {
      for (const { begin, end } of writes) {
        if (end === undefined && this.#versionOfKey.get(begin) === version) {
          this.#versionOfKey.delete(begin);
        }
      }
    }
    const kept = this.#writtenRanges.findIndex((range) => range.version > this.#knownAfter);
    this.#writtenRanges.splice(0, kept === -1 ? this.#writtenRanges.length : kept);
  }

  #isWrittenAfter(readVersion: number, begin: string, end: string | undefined): boolean {
    if (end === undefined) {
      if ((this.#versionOfKey.get(begin) ?? 0) > readVersion) return true;
    } else {
      if (begin >= end) return false;
      let written = false;
      this.#versionOfKey.scan(begin, end, (_key, version) => {
        written = version > readVersion;
        return !written;
      });
      if (written) return true;
    }
    // From the newest down: older ones cannot matter.
    for (let index = this.#writtenRanges.length - 1; index >= 0; index--) {
      const range = this.#writtenRanges[index] as { begin: string; end: string; version: number };
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
