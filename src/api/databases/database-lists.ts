/** `_all_dbs` and `_dbs_info`: databases in name order. */
import { base64Encode, parseYielding, utf8Encode } from "../../base/index.ts";
import type { DatabaseInfo, NamesOptions } from "../../databases/index.ts";
import { badRequest } from "../../protocol/index.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import { errorAnswer } from "../http/error-responses.ts";
import type { ApiResponse } from "../http/exchange.ts";
import {
  booleanParameter,
  integerParameter,
  isTextList,
  jsonParameter,
  queryError,
  textListParameter,
} from "../http/query.ts";
import { readJsonMembers, requireJsonType } from "../http/request-body.ts";
import {
  inPieces,
  jsonText,
  matchesEntityTag,
  notModified,
  streamedJson,
} from "../http/responses.ts";
import { DATABASE_LIST } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { infoView } from "./database-info.ts";

export function databaseListRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("GET", "/_all_dbs", DATABASE_LIST, (call) => listNames(parts, call)),
    defineRoute("GET", "/_dbs_info", DATABASE_LIST, (call) => describeAll(parts, call)),
    defineRoute("POST", "/_dbs_info", DATABASE_LIST, (call) => describeNamed(parts, call)),
  ];
}

async function listNames(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const text = JSON.stringify(await namesOf(parts, call));
  const tag = `"${base64Encode(parts.runtime.digests.md5(utf8Encode(text)))}"`;
  if (matchesEntityTag(call.request.headers.get("if-none-match"), tag)) {
    return notModified({ ETag: tag });
  }
  return jsonText(200, text, { ETag: tag });
}

/** Descriptions in name order. Databases deleted during the request are omitted. */
async function describeAll(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const names = await namesOf(parts, call);
  return streamedJson(inPieces(descriptions(parts, call, names, () => undefined)));
}

async function describeNamed(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  requireJsonType(call);
  const text = (await readJsonMembers(call)).get("keys") ?? "null";
  const keys = await parseYielding(text, call.yielder);
  if (keys === null) throw badRequest("`keys` member must exist.");
  if (!isTextList(keys)) throw badRequest("`keys` member must be an array.");
  if (keys.length > parts.settings.infoCountMax) throw badRequest("too_many_keys");
  const pieces = descriptions(parts, call, keys, (key) => ({ key, error: "not_found" }));
  return streamedJson(inPieces(pieces));
}

/**
 * `missing` is sent in place of a database that does not exist. If `missing` is undefined, the
 * database is omitted.
 */
async function* descriptions(
  parts: DatabaseParts,
  call: Call,
  names: readonly string[],
  missing: (name: string) => object | undefined,
): AsyncGenerator<string, void, undefined> {
  let separator = "[";
  for (const name of names) {
    const info = await infoOf(parts, call, name);
    const row = info === undefined ? missing(name) : { key: name, info: infoView(parts, info) };
    if (row === undefined) continue;
    yield separator + JSON.stringify(row);
    separator = ",";
  }
  yield separator === "[" ? "[]\n" : "]\n";
}

/** Returns the description of a database, or `undefined` if it does not exist. */
async function infoOf(
  { kv, databases }: DatabaseParts,
  { request: { signal } }: Call,
  name: string,
): Promise<DatabaseInfo | undefined> {
  try {
    return await kv.read(async (tx) => (await databases.open(tx, name)).info(tx), { signal });
  } catch (error) {
    if (errorAnswer(error).status === 404) return undefined;
    throw error;
  }
}

async function namesOf({ kv, databases }: DatabaseParts, call: Call): Promise<readonly string[]> {
  const { signal } = call.request;
  const { skip, options, isWithoutEnd } = namesQuery(call);
  const keys = textListParameter(call, "keys");
  if (keys !== undefined) {
    const only = (name: string): NamesOptions => ({ startName: name, endName: name });
    const asked = options.descending ? keys.toReversed() : keys;
    const found = await kv.read(
      (tx) => Promise.all(asked.map((name) => databases.names(tx, only(name)))),
      {
        signal,
      },
    );
    return found.flat().slice(skip, options.limit);
  }
  const names = await kv.read((tx) => databases.names(tx, options), { signal });
  return names.filter((name) => !(isWithoutEnd && name === options.endName)).slice(skip);
}

function namesQuery(call: Call): {
  readonly options: NamesOptions;
  readonly skip: number;
  /** Whether the list ends before the end key. */
  readonly isWithoutEnd: boolean;
} {
  const key = nameParameter(call, "key");
  const startName = key ?? nameParameter(call, "startkey") ?? nameParameter(call, "start_key");
  const endName = key ?? nameParameter(call, "endkey") ?? nameParameter(call, "end_key");
  const limit = integerParameter(call, "limit");
  const skip = integerParameter(call, "skip") ?? 0;
  const options = {
    descending: booleanParameter(call, "descending"),
    ...(startName === undefined ? {} : { startName }),
    ...(endName === undefined ? {} : { endName }),
    ...(limit === undefined ? {} : { limit: limit + skip }),
  };
  return { options, skip, isWithoutEnd: !booleanParameter(call, "inclusive_end", true) };
}

function nameParameter(call: Call, name: string): string | undefined {
  const value = jsonParameter(call, name);
  if (value === undefined || typeof value === "string") return value;
  throw queryError(`${name} must be a JSON string`);
}
