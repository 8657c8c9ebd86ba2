/** A document as indexes and their filters see it. */
import { type JsonText, type JsonValue, outlineJson } from "../base/index.ts";
import type { Document } from "../databases/index.ts";
import { renderStoredDocument } from "../documents/index.ts";
import { isSelectorObject } from "../protocol/index.ts";

/** Half of a character, which no UTF-8 holds, as JSON writes it. */
const HALF_CHARACTER = /\\ud[89a-f]/i;

export class IndexedDocument {
  readonly json: unknown;
  readonly #document: Document;
  #outline: { readonly depth: number; readonly body: JsonValue } | undefined;

  constructor(document: Document) {
    this.#document = document;
    this.json = jsonOf(document);
  }

  /**
   * Whether the value there, which is that of `json`, is written as `JSON.stringify` would: 1.0 is not, for example, nor is an object with
   * spaces. The spelling of a text does not matter.
   */
  hasPlainly(path: readonly string[], value: unknown): boolean {
    if (value === null || typeof value === "boolean") return true;
    const plain = JSON.stringify(value);
    if (typeof value === "string") return !HALF_CHARACTER.test(plain);
    return !HALF_CHARACTER.test(plain) && this.#textAt(path) === plain;
  }

  /** As it was stored; undefined for what stands beside the body. */
  #textAt(path: readonly string[]): JsonText | undefined {
    let value: JsonValue | undefined = this.#bodyTo(path.length);
    for (const segment of path) {
      value = value?.isArray ? value.elements()[Number(segment)] : value?.member(segment);
    }
    return value?.text;
  }

  #bodyTo(depth: number): JsonValue {
    if (this.#outline === undefined || this.#outline.depth < depth) {
      const body = outlineJson(this.#document.body.bytes, { depthMax: depth });
      this.#outline = { depth, body };
    }
    return this.#outline.body;
  }
}

function jsonOf(document: Document): unknown {
  if (document.attachments.length > 0) return JSON.parse(renderStoredDocument(document));
  const body: unknown = JSON.parse(document.body.text);
  return { _id: document.id, _rev: document.revision, ...(isSelectorObject(body) ? body : {}) };
}
