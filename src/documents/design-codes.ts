/**
 * Remembers design documents by their revision, so that most writes, and most feeds with a filter, read none of them.
 * Those without a validation function are mostly remembered as such, and their texts are not kept.
 */
import type { JsonValue, LongText, Turns } from "../base/index.ts";
import type { Database, HookedDatabase } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { DesignOutline } from "./design-outline.ts";
import { storedDocumentPieces } from "./stored-document.ts";

/** Design documents that are remembered; the one that was read first is forgotten first. */
const CODE_COUNT_MAX = 1_000;
/** Of their texts. */
const CODE_BYTES_MAX = 64 * 1024 * 1024;

/** A revision of a design document. */
export interface DesignPlace {
  readonly id: string;
  readonly revision: string;
}

/** The text of a design document, and its members. */
export interface DesignCode {
  /** Names the document and its revision. */
  readonly codeId: string;
  readonly text: LongText;
  readonly outline: DesignOutline;
}

/** What is known of a revision. */
interface Known {
  readonly isValidator: boolean;
  /** Undefined: nobody has asked for it. */
  readonly code: DesignCode | undefined;
}

export class DesignCodes {
  readonly #known = new Map<string, Known>();
  /** What is being read; others who need it wait for it, since it may be long. */
  readonly #reading = new Map<string, Promise<Known | undefined>>();
  #byteCount = 0;

  /** Undefined when the document has no validation function, or is not there any more. */
  async validator(
    tx: ReadTransaction,
    database: HookedDatabase,
    place: DesignPlace,
    turns: Turns,
  ): Promise<DesignCode | undefined> {
    const codeId = codeIdOf(database, place);
    const known = this.#known.get(codeId);
    if (known !== undefined && !known.isValidator) return undefined;
    const read = known ?? (await this.#read(tx, database, place, { turns, isKept: false }));
    return read?.isValidator ? read.code : undefined;
  }

  /** Undefined when the document is not there any more, and for who may not see it. */
  async code(
    tx: ReadTransaction,
    database: Database,
    place: DesignPlace,
    turns: Turns,
  ): Promise<DesignCode | undefined> {
    // Not everybody sees what is remembered.
    if (database.hasReadRule) return (await readDesign(tx, database, place, turns))?.code;
    const known = this.#known.get(codeIdOf(database, place));
    const read =
      known?.code === undefined
        ? await this.#read(tx, database, place, { turns, isKept: true })
        : known;
    return read?.code;
  }

  async #read(
    tx: ReadTransaction,
    database: HookedDatabase,
    place: DesignPlace,
    { turns, isKept }: { readonly turns: Turns; readonly isKept: boolean },
  ): Promise<Known | undefined> {
    const codeId = codeIdOf(database, place);
    for (;;) {
      const shared = this.#reading.get(codeId);
      if (shared === undefined) break;
      // What another transaction did not get, this one may.
      const known = await shared.catch(() => undefined);
      if (known?.code !== undefined || (known !== undefined && !isKept)) return known;
    }
    const reading = readDesign(tx, database, place, turns).then((read) => {
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
  turns: Turns,
): Promise<Known | undefined> {
  const document = await database.read(tx, place.id);
  if (document === undefined) return undefined;
  const outline = await DesignOutline.of(await document.body.bytesInTurns(turns), turns);
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

/** As JavaScript takes it. */
function isTrue(value: JsonValue | undefined): boolean {
  if (value === undefined) return false;
  return value.isObject || value.isArray || Boolean(JSON.parse(value.text));
}
