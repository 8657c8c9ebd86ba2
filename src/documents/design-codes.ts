/**
 * Cache of design documents by revision, so that most writes and most filtered feeds need not read
 * design documents. For a document without a validation function, the cache usually contains only
 * this fact, not the text.
 */
import type { JsonValue, LongText, Yielder } from "../base/index.ts";
import type { Database, HookedDatabase } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { DesignOutline } from "./design-outline.ts";
import { storedDocumentPieces } from "./stored-document.ts";

/** Maximum number of cached design documents. The oldest entry is evicted first. */
const CODE_COUNT_MAX = 1_000;
/** Maximum total size of the cached texts. */
const CODE_BYTES_MAX = 64 * 1024 * 1024;

/** A revision of a design document. */
export interface DesignPlace {
  readonly id: string;
  readonly revision: string;
}

/** Text and top-level members of a design document. */
export interface DesignCode {
  /** Identifies the document and its revision. */
  readonly codeId: string;
  readonly text: LongText;
  readonly outline: DesignOutline;
}

/** Cached information about a revision. */
interface Known {
  readonly isValidator: boolean;
  /** Code of the document; absent if it has not been requested yet. */
  readonly code: DesignCode | undefined;
}

export class DesignCodes {
  readonly #known = new Map<string, Known>();
  /** Reads in progress, shared among callers because a document can be long. */
  readonly #reading = new Map<string, Promise<Known | undefined>>();
  #byteCount = 0;

  /** Returns the code if the document has a validation function, and `undefined` otherwise. */
  async validator(
    tx: ReadTransaction,
    database: HookedDatabase,
    place: DesignPlace,
    yielder: Yielder,
  ): Promise<DesignCode | undefined> {
    const codeId = codeIdOf(database, place);
    const known = this.#known.get(codeId);
    if (known !== undefined && !known.isValidator) return undefined;
    const read = known ?? (await this.#read(tx, database, place, { yielder, isKept: false }));
    return read?.isValidator ? read.code : undefined;
  }

  /**
   * Returns the code; `undefined` if the document does not exist or the caller has no permission to
   * read it.
   */
  async code(
    tx: ReadTransaction,
    database: Database,
    place: DesignPlace,
    yielder: Yielder,
  ): Promise<DesignCode | undefined> {
    // Bypasses the cache, which ignores read permissions.
    if (database.hasReadRule) return (await readDesign(tx, database, place, yielder))?.code;
    const known = this.#known.get(codeIdOf(database, place));
    const read =
      known?.code === undefined
        ? await this.#read(tx, database, place, { yielder, isKept: true })
        : known;
    return read?.code;
  }

  async #read(
    tx: ReadTransaction,
    database: HookedDatabase,
    place: DesignPlace,
    { yielder, isKept }: { readonly yielder: Yielder; readonly isKept: boolean },
  ): Promise<Known | undefined> {
    const codeId = codeIdOf(database, place);
    for (;;) {
      const shared = this.#reading.get(codeId);
      if (shared === undefined) break;
      // The shared read might have failed in another transaction; this transaction might still
      // succeed.
      const known = await shared.catch(() => undefined);
      if (known?.code !== undefined || (known !== undefined && !isKept)) return known;
    }
    const reading = readDesign(tx, database, place, yielder).then((read) => {
      return read && (isKept || read.isValidator ? read : NO_VALIDATOR);
    });
    this.#reading.set(codeId, reading);
    try {
      const known = await reading;
      if (known !== undefined) this.#remember(codeId, known);
      return known;
    } finally {
      if (this.#reading.get(codeId) === reading) this.#reading.delete(codeId);
    }
  }

  #remember(codeId: string, known: Known): void {
    this.#forget(codeId);
    this.#known.set(codeId, known);
    this.#byteCount += byteCountOf(known);
    for (const oldest of this.#known.keys()) {
      const isFull = this.#known.size > CODE_COUNT_MAX || this.#byteCount > CODE_BYTES_MAX;
      if (!isFull || oldest === codeId) return;
      this.#forget(oldest);
    }
  }

  #forget(codeId: string): void {
    this.#byteCount -= byteCountOf(this.#known.get(codeId));
    this.#known.delete(codeId);
  }
}

const NO_VALIDATOR: Known = { isValidator: false, code: undefined };

async function readDesign(
  tx: ReadTransaction,
  database: HookedDatabase,
  place: DesignPlace,
  yielder: Yielder,
): Promise<Known | undefined> {
  const document = await database.documents.read(tx, place.id);
  if (document === undefined) return undefined;
  const outline = await DesignOutline.of(await document.body.bytesYielding(yielder), yielder);
  const codeId = codeIdOf(database, place);
  return {
    isValidator: isTrue(await outline.member("validate_doc_update")),
    code: { codeId, text: storedDocumentPieces(document), outline },
  };
}

function codeIdOf({ uuid }: HookedDatabase, { id, revision }: DesignPlace): string {
  return `${uuid}/${id}/${revision}`;
}

function byteCountOf(known: Known | undefined): number {
  let byteCount = 0;
  for (const { length } of known?.code?.text ?? []) byteCount += length;
  return byteCount;
}

/** Truthiness as in JavaScript. */
function isTrue(value: JsonValue | undefined): boolean {
  if (value === undefined) return false;
  return value.isObject || value.isArray || Boolean(JSON.parse(value.text));
}
