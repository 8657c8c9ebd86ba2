/** Documents that have to arrive, with their targets and time limits. */
import type { Database, DatabaseRegistry } from "../../../src/databases/index.ts";
import type { ReadTransaction } from "../../../src/kv/index.ts";
import { openIfExists } from "../replication/scene.ts";
import type { Pair } from "../replication/topology.ts";

/** Maximum delays of documents. */
export interface Patience {
  /**
   * Time limit for documents that are written during faults, counted from the end of the faults.
   */
  readonly healedMs: number;
  /** Time limit for documents that are written while there are no faults. */
  readonly calmMs: number;
}

interface Expected extends Pair {
  readonly id: string;
  readonly sinceMs: number;
}

export class Arrivals {
  readonly #pairs: readonly Pair[];
  readonly #patience: Patience;
  /** Ids of the documents of each source. */
  readonly #documents = new Map<string, Set<string>>();
  #expected: readonly Expected[] = [];
  #healedAtMs = Number.POSITIVE_INFINITY;
  readonly problems: string[] = [];
  arrivedCount = 0;
  /** The longest delay of a document that was written after everything was healed. */
  longestMs = 0;

  constructor(pairs: readonly Pair[], patience: Patience) {
    this.#pairs = pairs;
    this.#patience = patience;
  }

  /** Whether all documents have arrived, or a document is overdue. */
  get isOver(): boolean {
    return this.#expected.length === 0 || this.problems.length > 0;
  }

  healed(nowMs: number): void {
    this.#healedAtMs = nowMs;
  }

  written(source: string, id: string, nowMs: number): void {
    const documents = this.#documents.get(source) ?? new Set();
    this.#documents.set(source, documents.add(id));
    const more = this.#pairs
      .filter((pair) => pair.source === source)
      .map((pair) => ({ ...pair, id, sinceMs: nowMs }));
    this.#expected = [...this.#expected, ...more];
  }

  /**
   * Records that a source was removed. Its documents that have not arrived are no longer expected.
   */
  sourceRemoved(source: string): void {
    this.#documents.delete(source);
    this.#expected = this.#expected.filter((expected) => expected.source !== source);
  }

  /** Records that a target was removed. All its documents are expected to arrive again. */
  targetRemoved(target: string, nowMs: number): void {
    const others = this.#expected.filter((expected) => expected.target !== target);
    const again = this.#pairs
      .filter((pair) => pair.target === target)
      .flatMap((pair) =>
        [...(this.#documents.get(pair.source) ?? [])].map((id) => ({
          ...pair,
          id,
          sinceMs: nowMs,
        })),
      );
    this.#expected = [...others, ...again];
  }

  /** Checks which documents have arrived, and records overdue documents. */
  async check(tx: ReadTransaction, databases: DatabaseRegistry, nowMs: number): Promise<void> {
    const left: Expected[] = [];
    const targets = new Set(this.#expected.map(({ target }) => target));
    const opened = new Map<string, Database | undefined>();
    for (const name of targets) opened.set(name, await openIfExists(tx, databases, name));
    for (const expected of this.#expected) {
      const { target, id, sinceMs } = expected;
      const database = opened.get(target);
      if (database !== undefined && (await database.documents.read(tx, id)) !== undefined) {
        this.arrivedCount++;
        if (sinceMs >= this.#healedAtMs) {
          this.longestMs = Math.max(this.longestMs, nowMs - sinceMs);
        }
      } else if (nowMs <= this.#deadlineMs(sinceMs)) left.push(expected);
      else this.#note(expected, nowMs);
    }
    this.#expected = left;
  }

  #deadlineMs(sinceMs: number): number {
    const { healedMs, calmMs } = this.#patience;
    return Math.max(this.#healedAtMs + healedMs, sinceMs + calmMs);
  }

  #note({ source, target, id, sinceMs }: Expected, nowMs: number): void {
    const waitedSec = Math.round((nowMs - sinceMs) / 1000);
    this.problems.push(`${id} of ${source} waits for ${waitedSec} s, and is not in ${target}`);
  }
}
