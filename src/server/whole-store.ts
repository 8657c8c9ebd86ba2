/**
 * Checks of a whole store, performed by a starting node, a copy, a backup and a restore. They
 * reject a store that is incomplete, or that a newer version or another program wrote.
 */
import { compareBytes, errorCode } from "../base/index.ts";
import { COPY_MARK_KEY, type CopyStoreParts, type CopySummary, copyStore } from "../host/index.ts";
import { type KeyValue, KeyValueError, type KeyValueStore } from "../kv/index.ts";
import { checkFormat } from "./formats.ts";
import { LAYOUT_KEY } from "./layout.ts";

/**
 * Time limit for the first reads. A cluster that is recovering from lost processes responds sooner.
 * With a wrong cluster file, there is never a response.
 */
const ANSWER_MS_MAX = 20_000;

/** The rows of a store needed for the checks. */
interface StoreRecords {
  readonly layout: Uint8Array | undefined;
  readonly copyMark: Uint8Array | undefined;
}

/**
 * Rejects with KV_UNAVAILABLE if the store does not respond or contains an unfinished copy, and
 * with KV_UNUSABLE if a newer program wrote it. `place` names the store in messages.
 */
export async function checkOpenedStore(kv: KeyValueStore, place: string): Promise<StoreRecords> {
  const records = await readRecords(kv, place);
  checkRecords(records, place);
  return records;
}

/**
 * Copies a store to an empty one. The source must pass the checks, and a node must have used it.
 */
export async function copyWholeStore(
  parts: CopyStoreParts & { readonly sourcePlace: string },
): Promise<CopySummary> {
  const { layout } = await checkOpenedStore(parts.source, parts.sourcePlace);
  if (layout === undefined) throw empty(parts.sourcePlace);
  return copyStore(parts);
}

/** Applies the checks to all rows of a store while they are read, from beginning to end. */
export class StoreRowsCheck {
  readonly #place: string;
  #records: StoreRecords = { layout: undefined, copyMark: undefined };

  constructor(place: string) {
    this.#place = place;
  }

  add(rows: readonly KeyValue[]): void {
    for (const { key, value } of rows) {
      if (compareBytes(key, LAYOUT_KEY) === 0) this.#records = { ...this.#records, layout: value };
      if (compareBytes(key, COPY_MARK_KEY) === 0) {
        this.#records = { ...this.#records, copyMark: value };
      }
    }
  }

  /**
   * Throws like `checkOpenedStore`, and with KV_UNAVAILABLE if the rows are not those of a Tandem
   * store.
   */
  end(): void {
    checkRecords(this.#records, this.#place);
    if (this.#records.layout === undefined) throw empty(this.#place);
  }

  /** Yields the pages unchanged. Throws after the last one if a check fails. */
  *pages(pages: Iterable<readonly KeyValue[]>): Generator<readonly KeyValue[]> {
    for (const rows of pages) {
      this.add(rows);
      yield rows;
    }
    this.end();
  }
}

/**
 * Performs the first reads of a store, with a time limit because an unreachable cluster would never
 * respond.
 */
export async function readRecords(kv: KeyValueStore, place: string): Promise<StoreRecords> {
  try {
    return await kv.read(
      async (tx) => ({ layout: await tx.get(LAYOUT_KEY), copyMark: await tx.get(COPY_MARK_KEY) }),
      { timeoutMs: ANSWER_MS_MAX },
    );
  } catch (error) {
    if (errorCode(error) !== "KV_TIMED_OUT") throw error;
    const seconds = ANSWER_MS_MAX / 1000;
    throw unavailable(
      `${place} did not respond within ${seconds} s; check the cluster file and whether the cluster is running`,
    );
  }
}

function checkRecords({ layout, copyMark }: StoreRecords, place: string): void {
  if (copyMark !== undefined) {
    throw unavailable(`${place} contains an unfinished copy; repeat "tandem store copy"`);
  }
  checkFormat(layout);
}

function empty(place: string): KeyValueError {
  return unavailable(
    `${place} contains no Tandem store; check the folder, cluster file and prefix`,
  );
}

function unavailable(reason: string): KeyValueError {
  return new KeyValueError("KV_UNAVAILABLE", { reason });
}
