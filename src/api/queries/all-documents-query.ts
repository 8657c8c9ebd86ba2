/** The query of `_all_docs`, from the URL and the body of a POST. The URL takes precedence. */
import {
  compareBytes,
  type JsonText,
  parseJson,
  parseYielding,
  printJson,
  utf8Encode,
} from "../../base/index.ts";
import { badRequest } from "../../protocol/index.ts";
import { PLAIN_VIEW, type ViewOptions } from "../documents/document-options.ts";
import type { Call } from "../http/call.ts";
import { booleanOf, queryError, queryValue } from "../http/query.ts";

/**
 * Document ids of a resource: ids that begin with `prefix` and are between `low` (inclusive) and
 * `high` (exclusive) in byte order.
 */
export interface IdRange {
  readonly prefix: string;
  readonly low?: string;
  readonly high?: string;
}

export interface AllDocumentsQuery {
  /** Requested keys. Values that are not ids match no document. */
  readonly keys: readonly unknown[] | undefined;
  /**
   * First id in reading order: the lower end of the range, or its upper end if `descending`.
   * Undefined if that end is open.
   */
  readonly startId: string | undefined;
  readonly endId: string | undefined;
  readonly inclusiveEnd: boolean;
  /** Whether no id can be in the range. */
  readonly isEmpty: boolean;
  readonly limit: number;
  readonly skip: number;
  readonly descending: boolean;
  readonly includeDocuments: boolean;
  readonly updateSequence: boolean;
  readonly view: ViewOptions;
}

type Source = (name: string) => unknown;

/** Reads one of several queries in a body. The query's members take precedence over the URL. */
export async function oneOfSeveral(
  call: Call,
  body: JsonText,
  scope: IdRange,
): Promise<AllDocumentsQuery> {
  const members = (await parseYielding(body, call.yielder, parseJson)) as Members;
  const query = new Map([...call.request.query].filter(([name]) => !Object.hasOwn(members, name)));
  return parseQuery(query, members, scope);
}

/** Parses the query of a request. Its `body` must be a JSON object. */
export async function allDocumentsQuery(
  call: Call,
  body: JsonText,
  scope: IdRange,
): Promise<AllDocumentsQuery> {
  const members = (await parseYielding(body, call.yielder, parseJson)) as Members;
  return parseQuery(call.request.query, members, scope);
}

type Members = Readonly<Record<string, unknown>>;

function parseQuery(
  query: ReadonlyMap<string, string>,
  members: Members,
  scope: IdRange,
): AllDocumentsQuery {
  /** Parameters whose values are JSON in the URL as well as in the body. */
  const value: Source = (name) => {
    const text = query.get(name);
    if (text === undefined) return Object.hasOwn(members, name) ? members[name] : undefined;
    const parsed = queryValue(text);
    if (parsed === undefined) throw queryError("invalid UTF-8 JSON");
    return parsed;
  };
  /** Parameters that are plain words in the URL. */
  const word: Source = (name) => query.get(name) ?? members[name];
  const flag = (name: string, fallback = false): boolean => {
    const given = word(name);
    return given === undefined ? fallback : booleanOf(given);
  };
  const count = (name: string): number | undefined => parseCount(name, word(name));

  const key = value("key");
  const keys = value("keys");
  if (keys !== undefined && !Array.isArray(keys)) {
    throw badRequest("`keys` body member must be an array.");
  }
  if (flag("reduce")) throw queryError("Reduce is invalid for map-only views.");
  if (flag("group") || (count("group_level") ?? 0) > 0) {
    throw queryError("Invalid use of grouping on a map view.");
  }
  const descending = flag("descending");
  const inclusiveEnd = flag("inclusive_end", true);
  // Not `??`, because null is a valid key.
  const given = (...values: readonly unknown[]): unknown => values.find((it) => it !== undefined);
  const startKey = given(key, value("startkey"), value("start_key"));
  const endKey = given(key, value("endkey"), value("end_key"));
  const isBesideKeys = (end: unknown): boolean =>
    end !== undefined && (keys ?? []).length > 0 && !isOnly(end, keys as readonly unknown[]);
  if (isBesideKeys(startKey) || isBesideKeys(endKey)) {
    throw queryError("`keys` is incompatible with `key`, `start_key` and `end_key`");
  }
  const id = (...names: readonly string[]): unknown =>
    given(...names.map((it) => textOf(word(it))));
  const start = given(startKey, id("startkey_docid", "start_key_doc_id"));
  const end = given(endKey, id("endkey_docid", "end_key_doc_id"));
  return {
    keys: keys?.filter((id) => typeof id !== "string" || id.startsWith(scope.prefix)),
    ...range({ start, end, descending, inclusiveEnd: inclusiveEnd || key !== undefined }, scope),
    limit: count("limit") ?? Number.MAX_SAFE_INTEGER,
    skip: count("skip") ?? 0,
    descending,
    includeDocuments: flag("include_docs"),
    updateSequence: flag("update_seq"),
    view: {
      ...PLAIN_VIEW,
      conflicts: flag("conflicts"),
      attachments: flag("attachments"),
      encodingInfo: flag("att_encoding_info"),
    },
  };
}

/**
 * Whether `key` is the only one of `keys`. As in CouchDB, the parameters `key` and `keys` can be
 * combined in this case.
 */
function isOnly(key: unknown, keys: readonly unknown[]): boolean {
  return keys.length === 1 && printJson(key) === printJson(keys[0]);
}

interface AskedRange {
  readonly start: unknown;
  readonly end: unknown;
  readonly descending: boolean;
  readonly inclusiveEnd: boolean;
}

/**
 * The requested range, restricted to the scope. Ids are strings; other JSON values sort before or
 * after all ids.
 */
function range(
  { start, end, descending, inclusiveEnd }: AskedRange,
  scope: IdRange,
): Pick<AllDocumentsQuery, "startId" | "endId" | "inclusiveEnd" | "isEmpty"> {
  const [low, high] = descending ? [end, start] : [start, end];
  const lowId = largest(idOf(low), scope.low);
  const highAsked = idOf(high);
  const isCut =
    scope.high !== undefined && (highAsked === undefined || order(highAsked, scope.high) >= 0);
  const highId = isCut ? scope.high : highAsked;
  const isEmpty =
    isBehindIds(low) ||
    isBeforeIds(high) ||
    (lowId !== undefined && highId !== undefined && order(lowId, highId) > 0);
  // The bounds of a scope are not ids, so it does not matter whether they are included.
  return {
    startId: descending ? highId : lowId,
    endId: descending ? lowId : highId,
    inclusiveEnd,
    isEmpty,
  };
}

function idOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function isBeforeIds(value: unknown): boolean {
  return value === null || typeof value === "number" || typeof value === "boolean";
}

function isBehindIds(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function largest(left: string | undefined, right: string | undefined): string | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return order(left, right) >= 0 ? left : right;
}

function order(left: string, right: string): number {
  return compareBytes(utf8Encode(left), utf8Encode(right));
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function parseCount(name: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const number = typeof value === "string" && /^[+-]?[0-9]+$/.test(value) ? Number(value) : value;
  if (typeof number !== "number" || !Number.isInteger(number)) {
    throw queryError(`Invalid value for integer: ${printJson(value)}`);
  }
  if (number >= 0) return Math.min(number, Number.MAX_SAFE_INTEGER);
  throw queryError(`\`${name}\` must be a non-negative integer, not ${number}`);
}
