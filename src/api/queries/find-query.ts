/**
 * The body of `_find` and `_explain` (`mango_opts`, `mango_sort`, `mango_fields`), with CouchDB's
 * messages for invalid ones.
 */
import { hexDecode, hexEncode, isJsonObject, objectOf, printJson } from "../../base/index.ts";
import { DocumentSelector } from "../../documents/index.ts";
import {
  badRequest,
  fieldPath,
  type IdBounds,
  normalizeSelector,
  ProtocolError,
  percentDecode,
  percentEncode,
  type SelectorFields,
  selectorFields,
  selectorIdBounds,
} from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { readExactMembers } from "../http/request-body.ts";

/** CouchDB's `[mango] default_limit`. */
const LIMIT_DEFAULT = 25;

export interface FindQuery {
  readonly documentSelector: DocumentSelector;
  /** The selector in the form that `_explain` returns. */
  readonly selector: unknown;
  readonly selectorFields: SelectorFields;
  readonly idBounds: IdBounds;
  /** Whether no document can match. */
  readonly isEmpty: boolean;
  readonly limit: number;
  readonly skip: number;
  /** Whether the index is read in reverse order. */
  readonly descending: boolean;
  /** Requested field names, for `_explain`; empty for the whole document. */
  readonly fields: readonly string[];
  readonly paths: readonly (readonly string[])[];
  /** Position at the end of an earlier response. */
  readonly bookmark: Bookmark | undefined;
  readonly conflicts: boolean;
  readonly executionStatistics: boolean;
  /** The requested index: name of the design document and, optionally, of the view. */
  readonly useIndex: readonly string[];
  /** Whether the query is allowed to use another index, or to read all documents. */
  readonly allowFallback: boolean;
  /** Parameters that have no effect without shards. `_explain` returns them. */
  readonly ignored: {
    readonly r: number;
    readonly stale: "ok" | false;
    readonly update: boolean;
    readonly stable: boolean;
  };
  readonly sort: Readonly<Record<string, "asc" | "desc">>;
  /** The names in `sort`, in order. */
  readonly sortFields: readonly string[];
}

/** Position of the last document read for a response: its id, or its entry in an index. */
export type Bookmark =
  | { readonly id: string }
  | { readonly index: number; readonly place: Uint8Array };

const KNOWN_KEYS = [
  "selector",
  "use_index",
  "bookmark",
  "limit",
  "skip",
  "sort",
  "fields",
  "partition",
  "r",
  "conflicts",
  "stale",
  "update",
  "stable",
  "execution_stats",
  "allow_fallback",
];

/** Parses the body of a query. Throws a ProtocolError that names the error. */
export async function findQuery(call: Call): Promise<FindQuery> {
  const members = await readExactMembers(call);
  if (!members.has("selector")) {
    throw invalid("missing_required_key", "Missing required key: selector");
  }
  const { selector, documentSelector } = readSelector(members.get("selector"));
  const useIndex = indexName(members.get("use_index"));
  const bookmark = readBookmark(members.get("bookmark"));
  const limit = count(members.get("limit"), LIMIT_DEFAULT);
  const skip = count(members.get("skip"), 0);
  const sortFields = readSort(members.get("sort"));
  const sort = objectOf(sortFields) as FindQuery["sort"];
  const fields = readFields(members.get("fields"));
  if ((members.get("partition") ?? "") !== "") {
    throw invalid("query_parse_error", "`partition` parameter is not supported on this db");
  }
  const ignored = {
    r: positive(members.get("r"), 1),
    stale: stale(members.get("stale")),
    update: flag(members.get("update"), true),
    stable: flag(members.get("stable"), false),
  };
  const allowFallback = flag(members.get("allow_fallback"), true);
  const conflicts = flag(members.get("conflicts"), false);
  const executionStatistics = flag(members.get("execution_stats"), false);
  for (const name of members.keys()) {
    if (!KNOWN_KEYS.includes(name)) {
      throw invalid("invalid_key", `Invalid key ${name} for this request.`);
    }
  }
  return {
    documentSelector,
    selector,
    selectorFields: selectorFields(selector),
    idBounds: selectorIdBounds(selector),
    isEmpty: isEmptyCombination(selector),
    limit,
    skip,
    descending: sortFields[0]?.[1] === "desc",
    fields,
    paths: fields.map(fieldPath),
    bookmark,
    conflicts,
    executionStatistics,
    useIndex,
    allowFallback,
    ignored,
    sort,
    sortFields: [...new Set(sortFields.map(([name]) => name))],
  };
}

/** The value of `bookmark`, from which the next response continues. */
export function bookmarkText(bookmark: Bookmark | undefined): string {
  if (bookmark === undefined) return "nil";
  if ("id" in bookmark) return `id:${percentEncode(bookmark.id)}`;
  return `index:${bookmark.index}:${hexEncode(bookmark.place)}`;
}

/**
 * Reads a bookmark. "nil" denotes the start: CouchDB returns this bookmark, although it rejects it.
 */
function readBookmark(value: unknown): Bookmark | undefined {
  if (value === undefined || value === null || value === "" || value === "nil") return undefined;
  const id =
    typeof value === "string" && value.startsWith("id:")
      ? percentDecode(value.slice("id:".length))
      : undefined;
  if (id !== undefined) return { id };
  const match = typeof value === "string" && /^index:(\d{1,15}):([0-9a-f]*)$/.exec(value);
  const place = match ? hexDecode(match[2] as string) : undefined;
  if (match && place !== undefined) return { index: Number(match[1]), place };
  throw invalidBookmark(value);
}

/** Error for a bookmark that this server did not issue, or that belongs to a different query. */
export function invalidBookmark(value: unknown): ProtocolError {
  return invalid("invalid_bookmark", `Invalid bookmark value: ${printJson(value)}`);
}

export function readSelector(value: unknown): Pick<FindQuery, "selector" | "documentSelector"> {
  if (!isJsonObject(value)) {
    const reason = `Selector must be a JSON object, not: ${printJson(value)}`;
    throw invalid("invalid_selector_json", reason);
  }
  const documentSelector = new DocumentSelector(value);
  return { selector: normalizeSelector(value), documentSelector };
}

/**
 * Whether the selector is `{"$and": []}` or similar. As in CouchDB, it matches no document in
 * `_find` but every change in a filter.
 */
function isEmptyCombination(selector: unknown): boolean {
  const [name, argument] = Object.entries(selector as object)[0] ?? [];
  return ["$and", "$or"].includes(name ?? "") && Array.isArray(argument) && argument.length === 0;
}

export function readSort(value: unknown = []): [string, "asc" | "desc"][] {
  if (!Array.isArray(value)) {
    const reason = `Sort must be an array of sort specs, not: ${printJson(value)}`;
    throw invalid("invalid_sort_json", reason);
  }
  const pairs = value.map(sortField);
  if (new Set(pairs.map(([, direction]) => direction)).size > 1) {
    const reason = "Sorts currently only support a single direction for all fields.";
    throw invalid("unsupported_mixed_sort", reason);
  }
  return pairs;
}

function sortField(value: unknown): [string, "asc" | "desc"] {
  if (typeof value === "string" && value !== "") return [value, "asc"];
  if (isJsonObject(value)) {
    const [[name, direction] = [], ...others] = Object.entries(value);
    const isDirection = direction === "asc" || direction === "desc";
    if (name !== undefined && isDirection && others.length === 0) return [name, direction];
  }
  throw invalid("invalid_sort_field", `Invalid sort field: ${printJson(value)}`);
}

function readFields(value: unknown = []): readonly string[] {
  if (!Array.isArray(value)) {
    const reason = `Fields must be an array of strings, not: ${printJson(value)}`;
    throw invalid("invalid_fields", reason);
  }
  const wrong = value.find((field) => typeof field !== "string");
  if (wrong === undefined) return value;
  throw invalid("invalid_field", `Invalid JSON for field spec: ${printJson(wrong)}`);
}

export function indexName(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const parts = typeof value === "string" ? value.replace(/^_design\//, "").split("/") : value;
  const isName = Array.isArray(parts) && parts.every((part) => typeof part === "string");
  if (isName && parts.length <= 2) return parts;
  throw invalid("invalid_index_name", `Invalid index name: ${printJson(value)}`);
}

function count(value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  const reason = `${printJson(value)} is not an integer greater than or equal to zero`;
  throw invalid("invalid_non_neg_integer", reason);
}

export function positive(value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
  const reason = `${printJson(value)} is not an integer greater than zero`;
  throw invalid("invalid_pos_integer", reason);
}

function flag(value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value === "boolean") return value;
  throw invalid("invalid_boolean", `Invalid boolean value: ${printJson(value)}`);
}

function stale(value: unknown): "ok" | false {
  if (value === "ok") return "ok";
  if (value === undefined || value === false || value === "false") return false;
  throw badRequest(`Invalid value for stale: ${printJson(value)}`);
}

export function invalid(error: string, reason: string): ProtocolError {
  return new ProtocolError(400, error, reason);
}
