/** A document as seen by indexes and their filters. */
import {
  hasJsonNumber,
  isJsonObject,
  type JsonText,
  type JsonValue,
  outlineJson,
  parseJson,
  parseYielding,
  type Yielder,
} from "../base/index.ts";
import type { Document, Revision } from "../databases/index.ts";
import {
  type DocumentSelector,
  documentArgument,
  fieldsOfDocument,
  type RenderOptions,
  renderStoredDocument,
  type SelectorLimits,
} from "../documents/index.ts";
import { valueAt } from "../protocol/index.ts";

/**
 * Length above which a body is scanned incrementally, and only indexed fields are converted to
 * values.
 */
const LONG_BYTES = 65_536;

/** Pseudo-member of documents with conflicting revisions, as in queries with `conflicts`. */
export const CONFLICTS = "_conflicts";

/** Fields and filter of an index. */
export interface Indexing {
  readonly paths: readonly (readonly string[])[];
  readonly filter: DocumentSelector | undefined;
}

export interface IndexedDocument {
  /** Returns the value at a path, or `undefined` if the field does not exist. */
  valueAt(path: readonly string[]): unknown;
  /**
   * Whether the stored JSON of `value`, which is the value at `path`, is the text that
   * `JSON.stringify` would write. False for 1.0 or for an object with spaces. Escapes in strings
   * are ignored.
   */
  hasPlainly(path: readonly string[], value: unknown): boolean;
  /**
   * Whether the document passes the filter of an index. Called only if all fields of the index
   * exist.
   */
  passes(filter: DocumentSelector): boolean;
}

/** A document, and its conflicting revisions if indexes contain them. */
export interface IndexedContent {
  readonly document: Document;
  readonly conflicts: readonly Revision[];
}

/**
 * Prepares a document for these indexes. Throws a SandboxError if a filter exceeds its time limit.
 */
export function indexedDocument(
  content: IndexedContent,
  indexes: readonly Indexing[],
  limits: SelectorLimits,
  yielder: Yielder,
): IndexedDocument | Promise<IndexedDocument> {
  const { length } = content.document.body;
  const isShort =
    length <= LONG_BYTES && indexes.every(({ filter }) => filter?.isBrief(length) !== false);
  return isShort ? new ShortDocument(content) : longDocument(content, indexes, limits, yielder);
}

function renderOptions({ conflicts }: IndexedContent): RenderOptions {
  if (conflicts.length === 0) return {};
  return { extras: [{ name: CONFLICTS, value: JSON.stringify(conflicts) }] };
}

class ShortDocument implements IndexedDocument {
  readonly #document: Document;
  readonly #json: unknown;
  #outline: { readonly depth: number; readonly body: JsonValue } | undefined;

  constructor(content: IndexedContent) {
    this.#document = content.document;
    this.#json = jsonOf(content);
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

  /** Returns the stored JSON text, or `undefined` for members outside the body. */
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
  /** Returns the stored JSON text. */
  readonly text: () => JsonText;
}

class LongDocument implements IndexedDocument {
  /** Fields by their path, which is joined to one string. */
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
  content: IndexedContent,
  indexes: readonly Indexing[],
  limits: SelectorLimits,
  yielder: Yielder,
): Promise<IndexedDocument> {
  const result = new LongDocument();
  const { document } = content;
  const rendering = renderOptions(content);
  const stored = await fieldsOfDocument(document, rendering, yielder);
  for (const { paths, filter } of indexes) {
    for (const path of paths) {
      if (result.fields.has(keyOf(path))) continue;
      const found = await stored.at(path);
      if (found === undefined) continue;
      const value = await parseYielding(found.text, yielder, parseJson);
      result.fields.set(keyOf(path), { value, text: () => found.text });
      if (yielder.isDue) await yielder.yield();
    }
    if (filter === undefined || !paths.every((path) => result.fields.has(keyOf(path)))) continue;
    if (await filter.matches(documentArgument(document, rendering), limits))
      result.passed.add(filter);
  }
  return result;
}

function keyOf(path: readonly string[]): string {
  return JSON.stringify(path);
}

/** Unpaired surrogate, as escaped in JSON; UTF-8 cannot encode it. */
const HALF_CHARACTER = /\\ud[89a-f]/i;

function isPlain(value: unknown, text: () => JsonText | undefined): boolean {
  if (value === null || typeof value === "boolean") return true;
  if (hasJsonNumber(value)) return false;
  const plain = JSON.stringify(value);
  if (typeof value === "string") return !HALF_CHARACTER.test(plain);
  return !HALF_CHARACTER.test(plain) && text() === plain;
}

function jsonOf(content: IndexedContent): unknown {
  const { document, conflicts } = content;
  if (document.attachments.length > 0 || conflicts.length > 0) {
    return parseJson(renderStoredDocument(document, renderOptions(content)));
  }
  const body = parseJson(document.body.text);
  return { _id: document.id, _rev: document.revision, ...(isJsonObject(body) ? body : {}) };
}
