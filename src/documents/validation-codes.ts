/**
 * Remembers, by revision, which design documents have a `validate_doc_update` function, so that most writes read none
 * of them.
 */
import type { JsonText, JsonValue, Turns } from "../base/index.ts";
import type { HookedDatabase } from "../databases/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { DesignOutline } from "./design-outline.ts";
import { renderStoredDocument } from "./stored-document.ts";

/** Design documents that are remembered; the one that was read first is forgotten first. */
const CODE_COUNT_MAX = 1_000;
/** Of their texts, in characters. */
const CODE_LENGTH_MAX = 64 * 1024 * 1024;

export class ValidationCodes {
  /** By code id; undefined for a document without such a function. */
  readonly #known = new Map<string, JsonText | undefined>();
  #length = 0;

  /** The design document's text; undefined when it has no validation function. `codeId` names the document and its revision. */
  async read(
    tx: ReadTransaction,
    database: HookedDatabase,
    { id, codeId, turns }: { readonly id: string; readonly codeId: string; readonly turns: Turns },
  ): Promise<JsonText | undefined> {
    if (this.#known.has(codeId)) return this.#known.get(codeId);
    const document = await database.read(tx, id);
    const design = document && (await DesignOutline.of(document.body.bytes, turns));
    const isValidator = isTrue(await design?.member("validate_doc_update"));
    const code = document && isValidator ? renderStoredDocument(document) : undefined;
    this.#remember(codeId, code);
    return code;
  }

  #remember(codeId: string, code: JsonText | undefined): void {
    this.#forget(codeId);
    this.#known.set(codeId, code);
    this.#length += code?.length ?? 0;
    for (const oldest of this.#known.keys()) {
      const isFull = this.#known.size > CODE_COUNT_MAX || this.#length > CODE_LENGTH_MAX;
      if (!isFull || oldest === codeId) return;
      this.#forget(oldest);
    }
  }

  #forget(codeId: string): void {
    this.#length -= this.#known.get(codeId)?.length ?? 0;
    this.#known.delete(codeId);
  }
}

/** As JavaScript takes it. */
function isTrue(value: JsonValue | undefined): boolean {
  if (value === undefined) return false;
  return value.isObject || value.isArray || Boolean(JSON.parse(value.text));
}
