/** The update sequence, page by page. Its records hold everything that a change reports, so no other record is read. */
import { assert, type Page } from "../../base/index.ts";
import {
  firstGreaterThan,
  type Key,
  type RangeOptions,
  type ReadTransaction,
  type Versionstamp,
} from "../../kv/index.ts";
import type { Change } from "../document.ts";
import type { DocumentReader } from "../documents/document-reader.ts";
import { type ChangedLeaf, decodeChangeRecord } from "../records/change-record.ts";
import type { DatabaseKeys } from "../records/database-keys.ts";
import { formatRevision } from "../revisions/revision.ts";
import { formatSequence, parseSequence } from "./sequence.ts";

export interface ChangesOptions {
  /** Changes behind this sequence; from the start when absent or "0". */
  readonly since?: string;
  /** Changes up to this sequence and with it; all there are when absent. */
  readonly until?: string;
  /** Changes before this sequence: how a descending feed goes on. */
  readonly before?: string;
  readonly limit?: number;
  readonly descending?: boolean;
  /** Of the stored rows. */
  readonly byteLimit?: number;
}

export class ChangesFeed {
  readonly #keys: DatabaseKeys;
  readonly #reader: DocumentReader;

  constructor(keys: DatabaseKeys, reader: DocumentReader) {
    this.#keys = keys;
    this.#reader = reader;
  }

  async page(tx: ReadTransaction, options: ChangesOptions): Promise<Page<Change>> {
    const { since = "0", until, before, limit, byteLimit, descending = false } = options;
    assert(limit === undefined || limit >= 0, "A limit is not negative");
    const all = this.#keys.changes();
    const sinceStamp = parseSequence(since);
    const beforeStamp = before === undefined ? undefined : parseSequence(before);
    if (limit === 0) return { entries: [], stoppedBy: "row-limit" };
    if (until !== undefined && !isBefore(sinceStamp, parseSequence(until))) {
      return { entries: [], stoppedBy: "exhausted" };
    }
    const begin =
      sinceStamp === undefined ? all.begin : firstGreaterThan(this.#keys.change(sinceStamp));
    const untilStamp = until === undefined ? undefined : parseSequence(until);
    const bound =
      untilStamp === undefined ? all.end : firstGreaterThan(this.#keys.change(untilStamp));
    const end = beforeStamp === undefined ? bound : this.#keys.change(beforeStamp);
    const rangeOptions: RangeOptions = {
      reverse: descending,
      ...(limit === undefined ? {} : { limit }),
      ...(byteLimit === undefined ? {} : { byteLimit }),
    };
    const page = await tx.getRangePage({ begin, end }, rangeOptions);
    const entries: Change[] = [];
    for (const { key, value } of page.entries) {
      const record = decodeChangeRecord(value);
      const leaves = record.complete ? record.leaves : await this.#allLeaves(tx, record.id);
      entries.push(this.#change(key, record.id, leaves));
    }
    return { entries, stoppedBy: page.stoppedBy };
  }

  /** Of the last change; undefined when there is none. */
  async lastVersionstamp(tx: ReadTransaction): Promise<Versionstamp | undefined> {
    const page = await tx.snapshot.getRangePage(this.#keys.changes(), { limit: 1, reverse: true });
    const [last] = page.entries;
    return last === undefined ? undefined : this.#keys.changeVersionstamp(last.key);
  }

  #change(key: Key, id: string, leaves: readonly ChangedLeaf[]): Change {
    const named = leaves.map((leaf) => {
      return { revision: formatRevision(leaf), deleted: leaf.deleted };
    });
    const [winner] = named;
    assert(winner !== undefined, "A changed document has a leaf");
    return {
      sequence: formatSequence(this.#keys.changeVersionstamp(key)),
      id,
      deleted: winner.deleted,
      winner: winner.revision,
      leaves: named,
    };
  }

  async #allLeaves(tx: ReadTransaction, id: string): Promise<readonly ChangedLeaf[]> {
    const { tree } = await this.#reader.load(tx, id);
    return tree.leaves.map(({ generation, hash, leaf }) => {
      return { generation, hash, deleted: leaf.deleted };
    });
  }
}

/** Undefined comes before everything. */
function isBefore(left: Versionstamp | undefined, right: Versionstamp | undefined): boolean {
  if (right === undefined) return false;
  return left === undefined || left.compare(right) < 0;
}
