/** The body of `_find` and `_explain` (`mango_opts`, `mango_sort`, `mango_fields`), and CouchDB's sentences for bad ones. */
import {
  badRequest,
  compileSelector,
  fieldPath,
  type IdBounds,
  normalizeSelector,
  ProtocolError,
  type SelectorFields,
  selectorFields,
  selectorIdBounds,
} from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { readJsonMembers } from "../http/request-body.ts";

/** CouchDB's `[mango] default_limit`. */
const LIMIT_DEFAULT = 25;

export interface FindQuery {
  readonly matches: (document: unknown) => boolean;
  /** In the form that `_explain` shows. */
  readonly selector: unknown;
  readonly selectorFields: SelectorFields;
  readonly idBounds: IdBounds;
  /** A condition that nothing can fulfil. */
  readonly isEmpty: boolean;
  readonly limit: number;
  readonly skip: number;
  /** By id, backwards; there is no other order than that of ids. */
  readonly descending: boolean;
  /** The names that were given, for `_explain`; empty for the whole document. */
  readonly fields: readonly string[];
  readonly paths: readonly (readonly string[])[];
  /** The id of the last document that an earlier answer looked at. */
  readonly bookmark: string | undefined;
  readonly conflicts: boolean;
  readonly executionStatistics: boolean;
  /** Of the index that was asked for in vain: the design document's name, and the view's. */
  readonly useIndex: readonly string[];
  /** What has no meaning without indexes and shards, as `_explain` shows it. */
  readonly ignored: { readonly [name: string]: unknown };
  readonly sort: Readonly<Record<string, "asc" | "desc">>;
}

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

/** Throws a ProtocolError that names what is wrong. */
export async function findQuery(call: Call): Promise<FindQuery> {
  const texts = await readJsonMembers(call);
  const members = new Map([...texts].map(([name, text]) => [name, JSON.parse(text) as unknown]));
  if (!members.has("selector")) {
    throw invalid("missing_required_key", "Missing required key: selector");
  }
  const { selector, matches } = readSelector(members.get("selector"));
  const useIndex = indexName(members.get("use_index"));
  const bookmark = readBookmark(members.get("bookmark"));
  const limit = count(members.get("limit"), LIMIT_DEFAULT);
  const skip = count(members.get("skip"), 0);
  const sort = readSort(members.get("sort"));
  const fields = readFields(members.get("fields"));
  if ((members.get("partition") ?? "") !== "") {
    throw invalid("query_parse_error", "`partition` parameter is not supported on this db");
  }
  const ignored = {
    r: positive(members.get("r"), 1),
    stale: stale(members.get("stale")),
    update: flag(members.get("update"), true),
    stable: flag(members.get("stable"), false),
    allow_fallback: flag(members.get("allow_fallback"), true),
  };
  const conflicts = flag(members.get("conflicts"), false);
  const executionStatistics = flag(members.get("execution_stats"), false);
  for (const name of members.keys()) {
    if (!KNOWN_KEYS.includes(name)) {
      throw invalid("invalid_key", `Invalid key ${name} for this request.`);
    }
  }
  const known = selectorFields(selector);
  requireOrderById(sort, known);
  if (!ignored.allow_fallback) refuseWithoutIndex(useIndex);
  return {
    matches,
    selector,
    selectorFields: known,
    idBounds: selectorIdBounds(selector),
    isEmpty: isEmptyCombination(selector),
    limit,
    skip,
    descending: sort._id === "desc",
    fields,
    paths: fields.map(fieldPath),
    bookmark,
    conflicts,
    executionStatistics,
    useIndex,
    ignored,
    sort,
  };
}

/** The content of `bookmark`, which says where the next answer begins. */
export function bookmarkOf(id: string | undefined): string {
  return id === undefined ? "nil" : `id:${encodeURIComponent(id)}`;
}

/** CouchDB: refuses "nil", which it gives itself; here it is the begin. */
function readBookmark(value: unknown): string | undefined {
  if (value === undefined || value === null || value === "" || value === "nil") return undefined;
  if (typeof value === "string" && value.startsWith("id:")) {
    try {
      return decodeURIComponent(value.slice(3));
    } catch {
      // It is none of ours.
    }
  }
  throw invalid("invalid_bookmark", `Invalid bookmark value: ${JSON.stringify(value)}`);
}

function readSelector(value: unknown): Pick<FindQuery, "selector" | "matches"> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const reason = `Selector must be a JSON object, not: ${JSON.stringify(value)}`;
    throw invalid("invalid_selector_json", reason);
  }
  const matches = compileSelector({ ...value });
  return { selector: normalizeSelector({ ...value }), matches };
}

/** `{"$and": []}` and its like: no document passes here, while every change passes such a filter; both as CouchDB has it. */
function isEmptyCombination(selector: unknown): boolean {
  const [name, argument] = Object.entries(selector as object)[0] ?? [];
  return ["$and", "$or"].includes(name ?? "") && Array.isArray(argument) && argument.length === 0;
}

function readSort(value: unknown = []): FindQuery["sort"] {
  if (!Array.isArray(value)) {
    const reason = `Sort must be an array of sort specs, not: ${JSON.stringify(value)}`;
    throw invalid("invalid_sort_json", reason);
  }
  const pairs = value.map(sortField);
  if (new Set(pairs.map(([, direction]) => direction)).size > 1) {
    const reason = "Sorts currently only support a single direction for all fields.";
    throw invalid("unsupported_mixed_sort", reason);
  }
  return Object.fromEntries(pairs);
}

function sortField(value: unknown): [string, "asc" | "desc"] {
  if (typeof value === "string" && value !== "") return [value, "asc"];
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const [[name, direction] = [], ...others] = Object.entries(value);
    const isDirection = direction === "asc" || direction === "desc";
    if (name !== undefined && isDirection && others.length === 0) return [name, direction];
  }
  throw invalid("invalid_sort_field", `Invalid sort field: ${JSON.stringify(value)}`);
}

/** The index of all documents serves a sort by `_id`, if the selector says something of ids. */
function requireOrderById(sort: FindQuery["sort"], { indexable }: SelectorFields): void {
  const names = Object.keys(sort);
  if (names.length === 0) return;
  if (names.length === 1 && names[0] === "_id" && indexable.includes("_id")) return;
  const reason = "No index exists for this sort, try indexing by the sort fields.";
  throw invalid("no_usable_index", reason);
}

function refuseWithoutIndex([design]: readonly string[]): never {
  throw invalid(
    "invalid_index",
    design === undefined
      ? "You must specify an index with the `use_index` parameter."
      : `_design/${design} specified by \`use_index\` could not be found or it is not suitable.`,
  );
}

function readFields(value: unknown = []): readonly string[] {
  if (!Array.isArray(value)) {
    const reason = `Fields must be an array of strings, not: ${JSON.stringify(value)}`;
    throw invalid("invalid_fields", reason);
  }
  const wrong = value.find((field) => typeof field !== "string");
  if (wrong === undefined) return value;
  throw invalid("invalid_field", `Invalid JSON for field spec: ${JSON.stringify(wrong)}`);
}

function indexName(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const parts = typeof value === "string" ? value.replace(/^_design\//, "").split("/") : value;
  const isName = Array.isArray(parts) && parts.every((part) => typeof part === "string");
  if (isName && parts.length <= 2) return parts;
  throw invalid("invalid_index_name", `Invalid index name: ${JSON.stringify(value)}`);
}

function count(value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value;
  const reason = `${JSON.stringify(value)} is not an integer greater than or equal to zero`;
  throw invalid("invalid_non_neg_integer", reason);
}

function positive(value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
  const reason = `${JSON.stringify(value)} is not an integer greater than zero`;
  throw invalid("invalid_pos_integer", reason);
}

function flag(value: unknown, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value === "boolean") return value;
  throw invalid("invalid_boolean", `Invalid boolean value: ${JSON.stringify(value)}`);
}

function stale(value: unknown): "ok" | false {
  if (value === "ok") return "ok";
  if (value === undefined || value === false || value === "false") return false;
  throw badRequest(`Invalid value for stale: ${JSON.stringify(value)}`);
}

function invalid(error: string, reason: string): ProtocolError {
  return new ProtocolError(400, error, reason);
}
