/**
 * Copies all rows of a store into an empty store. Nodes must not use the source during the copy.
 * The engines can differ: they have the same row format. Only the versions, which order a
 * database's changes, are assigned by each engine.
 *
 * FoundationDB cannot read at one version for more than five seconds. The source is therefore read
 * in pages, each at its own version, and is read a second time at the end. A difference between the
 * two means that a node is running.
 */
import { createHash } from "node:crypto";
import { type Clock, concatBytes, utf8Encode } from "../../base/index.ts";
import {
  BEHIND_LAST_KEY,
  FIRST_KEY,
  type KeyShape,
  type KeyValue,
  KeyValueError,
  type KeyValueStore,
  keyAfter,
  type Transaction,
  type Versionstamp,
} from "../../kv/index.ts";

type Rows = readonly KeyValue[];

/** A store being filled. Call `close` in a `finally` block. */
export interface CopyTarget {
  /** Rejects with KV_UNAVAILABLE if the target cannot accept versionstamps up to `version`. */
  begin(version: number): Promise<void>;
  /** Adds rows, about a megabyte per call, in ascending key order. */
  put(rows: Rows): Promise<void>;
  /** Returns the rows put so far, in order. */
  pages(): AsyncIterable<Rows> | Iterable<Rows>;
  /** Allows nodes to open the store. */
  finish(version: number): Promise<void>;
  /** Deletes the target, unless it is finished. */
  close(): Promise<void>;
}

export interface CopyStoreParts {
  readonly clock: Clock;
  readonly source: KeyValueStore;
  readonly target: CopyTarget;
  /** Maximum interval between two writes of a running node. */
  readonly quietMs: number;
  /** Reports the number of rows copied so far. */
  readonly onRows?: (rowCount: number) => void;
}

export interface CopySummary {
  readonly rowCount: number;
  readonly byteCount: number;
}

const EVERYTHING = { begin: FIRST_KEY, end: BEHIND_LAST_KEY };
const PAGE_BYTES = 1_000_000;
/** End of the range that is copied. Later keys are transaction ids. */
const BEHIND_TUPLES = new Uint8Array([0xfe]);
/** Key that exists in a cluster while a store is being copied into it. */
export const COPY_MARK_KEY = concatBytes([BEHIND_TUPLES, utf8Encode("copy")]);
const TUPLES = { begin: FIRST_KEY, end: BEHIND_TUPLES };
const MARK = new Uint8Array([1]);

export const COPY_KEY_SHAPES: readonly KeyShape[] = [
  { key: '0xfe "copy"', value: "1", note: "exists while a store is being copied into the cluster" },
];

/**
 * Copies the store and compares the copy with it. On failure, deletes the target and rejects with
 * KV_UNAVAILABLE.
 */
export async function copyStore(parts: CopyStoreParts): Promise<CopySummary> {
  const { clock, source, target, quietMs, onRows } = parts;
  const version = Number(await source.read((tx) => tx.readVersion()));
  const { entries } = await source.read((tx) => tx.getRangePage(TUPLES, { limit: 1 }));
  if (entries.length === 0) throw unavailable("the store to copy is empty");
  await target.begin(version);
  const quiet = clock.sleep(quietMs);
  const copied = new RowDigest();
  for await (const rows of pagesOf(source)) {
    await target.put(rows);
    copied.add(rows);
    onRows?.(copied.rowCount);
  }
  await quiet;
  const later = await digestOf(pagesOf(source));
  if (later.text !== copied.text) {
    throw unavailable("the store changed during the copy: stop all its nodes first");
  }
  const written = await digestOf(target.pages());
  if (written.text !== copied.text) {
    throw unavailable("the copy differs from the store: copy the store again");
  }
  await target.finish(version);
  return { rowCount: copied.rowCount, byteCount: copied.byteCount };
}

/** Copy target in a FoundationDB cluster. A marker key identifies an incomplete copy. */
export class ClusterCopyTarget implements CopyTarget {
  readonly #kv: KeyValueStore;
  #state: "closed" | "begun" | "finished" = "closed";

  constructor(kv: KeyValueStore) {
    this.#kv = kv;
  }

  async begin(version: number): Promise<void> {
    if (await isCopyUnfinished(this.#kv)) await this.#clear();
    const { entries } = await this.#kv.read((tx) => tx.getRangePage(EVERYTHING, { limit: 1 }));
    if (entries.length > 0) throw unavailable("the cluster already has a store with this prefix");
    this.#state = "begun";
    const reached = await this.#mark();
    if (reached > version) return;
    throw unavailable(
      `the version ${reached} of the cluster is below the version ${version} of the store, so new changes would get lower sequences than existing ones. ` +
        `Run fdbcli --exec 'advanceversion ${version + 1}' first`,
    );
  }

  async put(rows: Rows): Promise<void> {
    await this.#write((tx) => {
      for (const { key, value } of rows) tx.set(key, value);
    });
  }

  pages(): AsyncIterable<Rows> {
    return pagesOf(this.#kv);
  }

  async finish(): Promise<void> {
    await this.#write((tx) => tx.clear(COPY_MARK_KEY));
    this.#state = "finished";
  }

  async close(): Promise<void> {
    if (this.#state === "begun") await this.#clear();
    this.#state = "closed";
  }

  #clear(): Promise<void> {
    return this.#write((tx) => tx.clearRange(EVERYTHING));
  }

  /** Marks the store as incomplete. Returns the version at which the marker was committed. */
  async #mark(): Promise<number> {
    let stamp: Versionstamp | undefined;
    await this.#write((tx) => {
      tx.set(COPY_MARK_KEY, MARK);
      tx.afterCommit(({ versionstamp }) => {
        stamp = versionstamp;
      });
    });
    return stamp === undefined ? 0 : versionOf(stamp);
  }

  /** Idempotent. */
  #write(body: (tx: Transaction) => void): Promise<void> {
    return this.#kv.transact(async (tx) => body(tx), { whenUnknown: "retry" });
  }
}

/** Whether a copy into this store was interrupted. Nodes must not open such a store. */
export async function isCopyUnfinished(kv: KeyValueStore): Promise<boolean> {
  return (await kv.read((tx) => tx.get(COPY_MARK_KEY))) !== undefined;
}

/** Reads all rows of a store, each page at its own version. */
async function* pagesOf(kv: KeyValueStore): AsyncGenerator<Rows> {
  for (let begin = FIRST_KEY; ; ) {
    const range = { begin, end: BEHIND_TUPLES };
    const page = await kv.read((tx) => tx.getRangePage(range, { byteLimit: PAGE_BYTES }));
    const { entries, stoppedBy } = page;
    if (entries.length > 0) yield entries;
    if (stoppedBy === "exhausted") return;
    begin = keyAfter((entries.at(-1) as KeyValue).key);
  }
}

async function digestOf(pages: AsyncIterable<Rows> | Iterable<Rows>): Promise<RowDigest> {
  const digest = new RowDigest();
  for await (const rows of pages) digest.add(rows);
  return digest;
}

/** Digest of a sequence of rows, to compare two sequences. */
class RowDigest {
  rowCount = 0;
  byteCount = 0;
  readonly #hash = createHash("sha256");
  readonly #lengths = Buffer.alloc(8);
  #text: string | undefined;

  add(rows: Rows): void {
    for (const { key, value } of rows) {
      this.#lengths.writeUInt32BE(key.length, 0);
      this.#lengths.writeUInt32BE(value.length, 4);
      this.#hash.update(this.#lengths).update(key).update(value);
      this.byteCount += key.length + value.length;
    }
    this.rowCount += rows.length;
  }

  /** Returns the digest. No rows can be added afterwards. */
  get text(): string {
    this.#text ??= this.#hash.digest("hex");
    return this.#text;
  }
}

/** Decodes the commit version (the first eight bytes). */
function versionOf({ bytes }: Versionstamp): number {
  return Number(Buffer.from(bytes).readBigUInt64BE(0));
}

function unavailable(reason: string): KeyValueError {
  return new KeyValueError("KV_UNAVAILABLE", { reason });
}
