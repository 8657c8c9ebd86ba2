/** A document as indexes and their filters see it. */
import {
  hasJsonNumber,
  isJsonObject,
  type JsonText,
  type JsonValue,
  outlineJson,
  parseBeginning,
  parseJson,
  type Turns,
} from "../base/index.ts";
import type { Document } from "../databases/index.ts";
import {
  type DocumentSelector,
  documentArgument,
  fieldsOfDocument,
  renderStoredDocument,
  type SelectorLimits,
} from "../documents/index.ts";
import { valueAt } from "../protocol/index.ts";
import { ENTRY_VALUES_MAX } from "./index-key.ts";

/** A longer body is looked through in turns, and only what indexes look at becomes values. */
const LONG_BYTES = 65_536;

/** What an index looks at. */
export interface Indexing {
  readonly paths: readonly (readonly string[])[];
  readonly filter: DocumentSelector | undefined;
}

export interface IndexedDocument {
  /** Undefined where the document has no such field. Of a long array or object an entry has the beginning only, and so has this. */
  valueAt(path: readonly string[]): unknown;
  /**
   * Whether the value there, which is `value`, is written as `JSON.stringify` would: 1.0 is not, for example, nor is an object with
   * spaces. The spelling of a text does not matter.
   */
  hasPlainly(path: readonly string[], value: unknown): boolean;
  /** Of an index whose fields it has all. */
  passes(filter: DocumentSelector): boolean;
}

/** For these indexes. Throws a SandboxError when a filter takes longer than a function may. */
export function indexedDocument(
  document: Document,
  indexes: readonly Indexing[],
  limits: SelectorLimits,
  turns: Turns,
): IndexedDocument | Promise<IndexedDocument> {
  const { length } = document.body;
  const isShort =
    length <= LONG_BYTES && indexes.every(({ filter }) => filter?.isBrief(length) !== false);
  return isShort ? new ShortDocument(document) : longDocument(document, indexes, limits, turns);
}

class ShortDocument implements IndexedDocument {
  readonly #document: Document;
  readonly #json: unknown;
  #outline: { readonly depth: number; readonly body: JsonValue } | undefined;

  constructor(document: Document) {
    this.#document = document;
    this.#json = jsonOf(document);
  }

  valueAt(path: readonly string[]): unknown {
    return valueAt(this.#json, path);
  }

  hasPlainly(path: readonly string[], value: unknown): boolean {
    return isPlain(value, () => this.#textAt(path));
  }

  passes(filter: DocumentSelector): boolean {
    return filter.matchesJson(this.#json);
  }

  /** As it was stored; undefined for what stands beside the body. */
  #textAt(path: readonly string[]): JsonText | undefined {
    let value: JsonValue | undefined = this.#bodyTo(path.length);
    for (const segment of path) {
      value = value?.isArray ? value.element(Number(segment)) : value?.member(segment);
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

interface Field {
  readonly value: unknown;
  /** Where it is whole, as it was stored. */
  readonly text: () => JsonText | undefined;
}

class LongDocument implements IndexedDocument {
  /** By path. */
  readonly fields = new Map<string, Field>();
  readonly passed = new Set<DocumentSelector>();

  valueAt(path: readonly string[]): unknown {
    return this.fields.get(keyOf(path))?.value;
  }

  hasPlainly(path: readonly string[], value: unknown): boolean {
    return isPlain(value, () => this.fields.get(keyOf(path))?.text());
  }

  passes(filter: DocumentSelector): boolean {
    return this.passed.has(filter);
  }
}

async function longDocument(
  document: Document,
  indexes: readonly Indexing[],
  limits: SelectorLimits,
  turns: Turns,
): Promise<IndexedDocument> {
  const result = new LongDocument();
  const stored = await fieldsOfDocument(document, {}, turns);
  for (const { paths, filter } of indexes) {
    for (const path of paths) {
      if (result.fields.has(keyOf(path))) continue;
      const field = fieldOf(await stored.at(path));
      if (field !== undefined) result.fields.set(keyOf(path), field);
      if (turns.areDue) await turns.give();
    }
    if (filter === undefined || !paths.every((path) => result.fields.has(keyOf(path)))) continue;
    if (await filter.matches(documentArgument(document), limits)) result.passed.add(filter);
  }
  return result;
}

function fieldOf(found: JsonValue | undefined): Field | undefined {
  if (found === undefined) return undefined;
  if (found.length > LONG_BYTES) {
    return { value: parseBeginning(found.bytes, ENTRY_VALUES_MAX), text: () => found.text };
  }
  return { value: parseJson(found.text), text: () => found.text };
}

function keyOf(path: readonly string[]): string {
  return JSON.stringify(path);
}

/** Half of a character, which no UTF-8 holds, as JSON writes it. */
const HALF_CHARACTER = /\\ud[89a-f]/i;

function isPlain(value: unknown, text: () => JsonText | undefined): boolean {
  if (value === null || typeof value === "boolean") return true;
  if (hasJsonNumber(value)) return false;
  const plain = JSON.stringify(value);
  if (typeof value === "string") return !HALF_CHARACTER.test(plain);
  return !HALF_CHARACTER.test(plain) && text() === plain;
}

function jsonOf(document: Document): unknown {
  if (document.attachments.length > 0) return parseJson(renderStoredDocument(document));
  const body = parseJson(document.body.text);
  return { _id: document.id, _rev: document.revision, ...(isJsonObject(body) ? body : {}) };
}
