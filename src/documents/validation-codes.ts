/**
 * Remembers, by revision, which design documents have a `validate_doc_update` function, so that most writes read none
 * of them.
 */
import type { JsonText } from "../base/index.ts";
import type { HookedDatabase } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { renderStoredDocument } from "./stored-document.ts";

/** Design documents that are remembered; the one that was read first is forgotten first. */
const CODE_COUNT_MAX = 1_000;

export class ValidationCodes {
  /** By code id; undefined for a document without such a function. */
  readonly #known = new Map<string, JsonText | undefined>();

  /** The design document's text; undefined when it has no validation function. `codeId` names the document and its revision. */
  async read(
    tx: ReadTransaction,
    database: HookedDatabase,
    { id, codeId }: { readonly id: string; readonly codeId: string },
  ): Promise<JsonText | undefined> {
    if (this.#known.has(codeId)) return this.#known.get(codeId);
    const document = await database.read(tx, id);
    const text = document === undefined ? "{}" : renderStoredDocument(document);
    const code = JSON.parse(text).validate_doc_update ? text : undefined;
    const [oldest] = this.#known.keys();
    if (this.#known.size >= CODE_COUNT_MAX && oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(codeId, code);
    return code;
  }
}
