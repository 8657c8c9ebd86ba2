/** What an index is: read from a design document of the language `query`, as CouchDB writes it, and written into one. */
import {
  isJsonObject,
  outlineJsonInTurns,
  parseJson,
  printJson,
  type Turns,
  type Utf8Text,
} from "../base/index.ts";
import { DocumentSelector } from "../documents/index.ts";
import { fieldPath, normalizeSelector, ProtocolError } from "../protocol/index.ts";

export type Direction = "asc" | "desc";

export interface IndexField {
  readonly name: string;
  readonly direction: Direction;
}

/** An index as its design document defines it. */
export interface IndexDefinition {
  /** The id of the design document. */
  readonly design: string;
  readonly name: string;
  readonly fields: readonly IndexField[];
  /** Only documents that it lets pass are in the index; in the form that is shown. */
  readonly partialFilter: unknown;
}

/** What an entry costs in each write. CouchDB has neither bound. */
export const INDEX_FIELDS_MAX = 64;
export const INDEXES_MAX = 64;
/** A definition is one row of the store. */
const DEFINITION_LENGTH_MAX = 30_000;

/** Views of a design document that are looked at. */
const VIEWS_MAX = 1_000;
/** Of the text of a view; what a definition may have is less. */
const VIEW_BYTES_MAX = 4 * DEFINITION_LENGTH_MAX;

/**
 * The indexes of a design document, without those that are none; none for one of another language. It may have megabytes: only what may be
 * a definition is parsed.
 */
export async function definitionsOf(
  design: string,
  body: Utf8Text,
  turns: Turns,
): Promise<IndexDefinition[]> {
  const outline = await outlineJsonInTurns(await body.bytesInTurns(turns), { depthMax: 1 }, turns);
  const views = outline.member("views");
  if (!outline.member("language")?.isString("query") || !views?.isObject) return [];
  const definitions = new Map<string, IndexDefinition | undefined>();
  let viewCount = 0;
  const opened = await outlineJsonInTurns(views.bytes, { depthMax: 1 }, turns);
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

/** Why an index cannot be kept; undefined for one that can. */
export function faultOf(definition: IndexDefinition): string | undefined {
  const { fields, partialFilter } = definition;
  if (fields.length === 0) return "An index has at least one field";
  if (fields.length > INDEX_FIELDS_MAX) return `An index has at most ${INDEX_FIELDS_MAX} fields`;
  if (printJson(definition).length > DEFINITION_LENGTH_MAX) {
    return `The definition of an index has at most ${DEFINITION_LENGTH_MAX} characters`;
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

/** Throws a ProtocolError for one that is no selector. */
export function compileFilter(filter: unknown): DocumentSelector {
  return new DocumentSelector(isJsonObject(filter) ? filter : {});
}

export function fieldPaths({ fields }: IndexDefinition): string[][] {
  return fields.map(({ name }) => fieldPath(name));
}

/** Whether two definitions make the same entries. */
export function areSameEntries(left: IndexDefinition, right: IndexDefinition): boolean {
  return printJson(entryPart(left)) === printJson(entryPart(right));
}

function entryPart({ fields, partialFilter }: IndexDefinition): unknown {
  const filter = isJsonObject(partialFilter) ? normalizeSelector(partialFilter) : null;
  return [fields.map(({ name }) => name), filter];
}
