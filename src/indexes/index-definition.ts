/**
 * The definition of an index, read from and written to a design document with language `query`, as
 * in CouchDB.
 */
import {
  isJsonObject,
  outlineJsonYielding,
  parseJson,
  printJson,
  type Utf8Text,
  type Yielder,
} from "../base/index.ts";
import { DocumentSelector } from "../documents/index.ts";
import { fieldPath, normalizeSelector, ProtocolError } from "../protocol/index.ts";

export type Direction = "asc" | "desc";

export interface IndexField {
  readonly name: string;
  readonly direction: Direction;
}

/** An index as defined by its design document. */
export interface IndexDefinition {
  /** Id of the design document. */
  readonly design: string;
  readonly name: string;
  readonly fields: readonly IndexField[];
  /** Selector for the documents in the index, in display form. */
  readonly partialFilter: unknown;
}

/** Maximum number of fields of an index, which limits the cost of a write. CouchDB has no limit. */
export const INDEX_FIELDS_MAX = 64;
export const INDEXES_MAX = 64;
/** Maximum length of a definition, which is stored in one row. */
const DEFINITION_LENGTH_MAX = 30_000;

/** Maximum number of views read from a design document. */
const VIEWS_MAX = 1_000;
/** Maximum length of a view that is parsed; the views with valid definitions are shorter. */
const VIEW_BYTES_MAX = 4 * DEFINITION_LENGTH_MAX;

/**
 * Returns the valid index definitions in a design document; empty unless its language is `query`.
 * Parses only the views that are short enough to be valid, because the document can be several
 * megabytes long.
 */
export async function definitionsOf(
  design: string,
  body: Utf8Text,
  yielder: Yielder,
): Promise<IndexDefinition[]> {
  const outline = await outlineJsonYielding(
    await body.bytesYielding(yielder),
    { depthMax: 1 },
    yielder,
  );
  const views = outline.member("views");
  if (!outline.member("language")?.isString("query") || !views?.isObject) return [];
  const definitions = new Map<string, IndexDefinition | undefined>();
  let viewCount = 0;
  const opened = await outlineJsonYielding(views.bytes, { depthMax: 1 }, yielder);
  for (const { name, value } of opened.eachValue()) {
    if (++viewCount > VIEWS_MAX) break;
    const isShort = value.length <= VIEW_BYTES_MAX;
    definitions.set(name, isShort ? definitionOf(design, name, parseJson(value.text)) : undefined);
  }
  return [...definitions.values()].filter((definition) => definition !== undefined);
}

function definitionOf(design: string, name: string, view: unknown): IndexDefinition | undefined {
  if (!isJsonObject(view) || !isJsonObject(view.map) || !isJsonObject(view.options)) {
    return undefined;
  }
  if (!isJsonObject(view.map.fields)) return undefined;
  const fields = Object.entries(view.map.fields).map(([field, direction]) => {
    return { name: field, direction: direction === "desc" ? "desc" : "asc" } as const;
  });
  const { partial_filter_selector: partialFilter } = view.map;
  const definition = {
    design,
    name,
    fields,
    partialFilter: isEmptyFilter(partialFilter) ? undefined : partialFilter,
  };
  return faultOf(definition) === undefined ? definition : undefined;
}

/** Returns the reason why an index cannot be stored, or `undefined` if it can. */
export function faultOf(definition: IndexDefinition): string | undefined {
  const { fields, partialFilter } = definition;
  if (fields.length === 0) return "An index must have at least one field";
  if (fields.length > INDEX_FIELDS_MAX)
    return `An index must not have more than ${INDEX_FIELDS_MAX} fields`;
  if (printJson(definition).length > DEFINITION_LENGTH_MAX) {
    return `The definition of an index must not exceed ${DEFINITION_LENGTH_MAX} characters`;
  }
  try {
    if (partialFilter !== undefined) compileFilter(partialFilter);
    return undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return error.reason;
    throw error;
  }
}

function isEmptyFilter(filter: unknown): boolean {
  return isJsonObject(filter) && Object.keys(filter).length === 0;
}

/** Compiles the filter of an index. Throws a ProtocolError for an invalid selector. */
export function compileFilter(filter: unknown): DocumentSelector {
  return new DocumentSelector(isJsonObject(filter) ? filter : {});
}

export function fieldPaths({ fields }: IndexDefinition): string[][] {
  return fields.map(({ name }) => fieldPath(name));
}

/** Whether two definitions produce the same entries. */
export function areSameEntries(left: IndexDefinition, right: IndexDefinition): boolean {
  return printJson(entryPart(left)) === printJson(entryPart(right));
}

function entryPart({ fields, partialFilter }: IndexDefinition): unknown {
  const filter = isJsonObject(partialFilter) ? normalizeSelector(partialFilter) : null;
  return [fields.map(({ name }) => name), filter];
}
