/** Parameters of a changes feed. */
import { isJsonObject, parseJson, parseYielding, type Yielder } from "../../base/index.ts";
import { LOOKED_UP_MAX } from "../../databases/index.ts";
import {
  DocumentSelector,
  type FilterName,
  type FilterRequest,
  parseFilterName,
} from "../../documents/index.ts";
import { badRequest, fieldPath, ProtocolError, percentEncode } from "../../protocol/index.ts";
import { PLAIN_VIEW, type ViewOptions } from "../documents/document-options.ts";
import type { Call } from "../http/call.ts";
import { flagParameter, isTextList, jsonParameter } from "../http/query.ts";
import {
  membersByName,
  outlineObject,
  parsedMembers,
  readBody,
  requireJsonType,
} from "../http/request-body.ts";
import { splitPath } from "../http/router.ts";
import { type FeedQuery, feedQuery } from "./feed-query.ts";

/** Selects the changes that a feed contains. */
export type ChangesFilter =
  | { readonly kind: "all" }
  | {
      readonly kind: "ids";
      readonly matches: (id: string) => boolean;
      /** All matching ids, if there are few enough to look each of them up. */
      readonly few?: readonly string[];
    }
  | {
      readonly kind: "selector";
      readonly selector: DocumentSelector;
      /** Fields of the documents returned by `include_docs`, split into segments. Default: all. */
      readonly fields: readonly (readonly string[])[] | undefined;
    }
  /** A function of a design document, identified by its name and not loaded yet. */
  | { readonly kind: "function"; readonly name: FilterName; readonly request: FilterRequest };

/** Number of ids processed between two checks of the clock. */
const TURN_IDS = 1_000;

export interface ChangesQuery extends FeedQuery {
  /** `style=all_docs`: all leaves; otherwise only the winner. */
  readonly allLeaves: boolean;
  readonly includeDocuments: boolean;
  readonly view: ViewOptions;
  /**
   * `seq_interval`: only every n-th row contains its sequence, as in CouchDB, where sequences are
   * expensive.
   */
  readonly sequenceInterval: number;
  readonly filter: ChangesFilter;
}

/** Parses the query, and the body of a POST. Throws a ProtocolError that names the error. */
export async function changesQuery(call: Call, timeoutMsMax: number): Promise<ChangesQuery> {
  const { query } = call.request;
  return {
    ...feedQuery(call, timeoutMsMax),
    allLeaves: isAllLeaves(query.get("style")),
    includeDocuments: flagParameter(call, "include_docs"),
    view: {
      ...PLAIN_VIEW,
      conflicts: flagParameter(call, "conflicts"),
      attachments: flagParameter(call, "attachments"),
      encodingInfo: flagParameter(call, "att_encoding_info"),
    },
    sequenceInterval: sequenceInterval(query.get("seq_interval")),
    filter: await filterOf(call),
  };
}

function sequenceInterval(text = "1"): number {
  if (/^[0-9]+$/.test(text) && Number(text) > 0) return Number(text);
  throw badRequest("invalid_seq_interval");
}

function isAllLeaves(style = "main_only"): boolean {
  if (style === "all_docs" || style === "main_only") return style === "all_docs";
  throw badRequest("style must be main_only or all_docs");
}

async function filterOf(call: Call): Promise<ChangesFilter> {
  const name = call.request.query.get("filter");
  const members = await bodyMembers(call);
  const member = async (key: string): Promise<unknown> => {
    const text = members.get(key);
    return text === undefined
      ? jsonParameter(call, key)
      : parseYielding(text, call.yielder, parseJson);
  };
  if (name === undefined || name === "") return { kind: "all" };
  if (name === "_doc_ids") return byIds(await member("doc_ids"), call.yielder);
  if (name === "_selector") return bySelector(await member("selector"), await member("fields"));
  if (name === "_design") {
    return { kind: "ids", matches: (id) => id.startsWith("_design/") };
  }
  const request = await filterRequest(call, members);
  if (name === "_view") {
    const view = call.request.query.get("view");
    if (view === undefined) throw badRequest("`view` filter parameter is not provided.");
    return { kind: "function", name: parseFilterName("view", view), request };
  }
  if (name.startsWith("_")) throw badRequest("unknown builtin filter name");
  return { kind: "function", name: parseFilterName("filter", name), request };
}

/**
 * Headers visible to functions. All other headers are hidden, because they can contain credentials
 * for this server or a proxy in front of it.
 */
const SHOWN_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "accept-charset",
  "accept-encoding",
  "accept-language",
  "content-length",
  "content-type",
  "host",
  "if-none-match",
  "last-event-id",
  "origin",
  "user-agent",
  "x-requested-with",
]);

/** The request object that is passed to the filter function. */
async function filterRequest(
  call: Call,
  members: ReadonlyMap<string, string>,
): Promise<FilterRequest> {
  const { request, user } = call;
  const { method, path, query, headers, peer } = request;
  const shown = [...headers].filter(([name]) => SHOWN_HEADERS.has(name));
  const body = await parsedMembers(call, members);
  const queryText = [...query]
    .map(([name, value]) => `${percentEncode(name)}=${percentEncode(value)}`)
    .join("&");
  return {
    method,
    path: splitPath(path),
    rawPath: `${path}?${queryText}`,
    query: Object.fromEntries(query),
    headers: Object.fromEntries(shown.map(([name, value]) => [headerName(name), value])),
    body: method === "POST" ? Object.fromEntries(body) : "undefined",
    peer,
    userName: user.name,
    roles: user.roles,
    signal: request.signal,
  };
}

/** Converts `content-type` to `Content-Type`, which filters expect. */
function headerName(name: string): string {
  return name.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase());
}

async function bodyMembers(call: Call): Promise<ReadonlyMap<string, string>> {
  if (call.request.method !== "POST") return new Map();
  requireJsonType(call);
  const bytes = await readBody(call, "question");
  if (bytes.length === 0) return new Map();
  const members = membersByName(await outlineObject(call, bytes, 1, "question"));
  if (call.yielder.isDue) await call.yielder.yield();
  return new Map([...members].map(([name, { text }]) => [name, text]));
}

/** Filter for a list of ids. Yields to the event loop, because a list can have 100,000 entries. */
async function byIds(value: unknown, yielder: Yielder): Promise<ChangesFilter> {
  if (!isTextList(value)) throw badRequest("`doc_ids` filter parameter is not a list of doc ids.");
  const ids = new Set<string>();
  for (let index = 0; index < value.length; index++) {
    if (index % TURN_IDS === 0 && yielder.isDue) await yielder.yield();
    ids.add(value[index] as string);
  }
  const matches = (id: string): boolean => ids.has(id);
  return ids.size > LOOKED_UP_MAX
    ? { kind: "ids", matches }
    : { kind: "ids", matches, few: [...ids] };
}

function bySelector(value: unknown, fields: unknown): ChangesFilter {
  if (!isJsonObject(value)) {
    throw badRequest("Selector error: expected a JSON object");
  }
  try {
    const selector = new DocumentSelector(value);
    return { kind: "selector", selector, fields: fieldPaths(fields) };
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    // `_find` reports invalid selectors with other error words; in a feed, the error is
    // `bad_request`.
    throw badRequest(error.reason);
  }
}

function fieldPaths(fields: unknown): readonly (readonly string[])[] | undefined {
  if (fields === undefined) return undefined;
  // As in `_find`, an empty list means all fields.
  if (isTextList(fields)) return fields.length === 0 ? undefined : fields.map(fieldPath);
  throw badRequest("Selector error: fields must be JSON array");
}
