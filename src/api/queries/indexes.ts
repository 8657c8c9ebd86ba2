/**
 * `_index` (`mango_httpd`, `mango_idx`): lists, creates and removes indexes. An index is a view of
 * a design document with language `query`.
 */
import {
  isJsonObject,
  md5HexOf,
  objectOf,
  parseJson,
  printJson,
  Utf8Text,
  utf8Encode,
} from "../../base/index.ts";
import type { Document } from "../../databases/index.ts";
import { faultOf, INDEXES_MAX } from "../../indexes/index.ts";
import {
  atom,
  badRequest,
  binary,
  encodeTerm,
  jsonTerm,
  list,
  ProtocolError,
  tuple,
} from "../../protocol/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import { writeOne } from "../documents/document-writes.ts";
import { type Call, parameter } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { ALL_METHODS } from "../http/not-implemented.ts";
import { integerParameter } from "../http/query.ts";
import { readExactMembers } from "../http/request-body.ts";
import { json, jsonText } from "../http/responses.ts";
import { DOCUMENT, MEMBER } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { indexView } from "./explanation.ts";
import { indexName, invalid, positive, readSelector, readSort } from "./find-query.ts";
import { indexState, listIndexes } from "./plan.ts";

/** Maximum number of attempts to write the design document, which other requests can change. */
const CONFLICTS_MAX = 10;
/** Known members of a request's body. */
const KNOWN_KEYS = ["index", "type", "name", "ddoc", "w", "partitioned"];
const AUTO_NAME = "auto_name";

export function indexRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("GET", "/{database}/_index", MEMBER, (call) => listAll(parts, call)),
    defineRoute("POST", "/{database}/_index", MEMBER, (call) => create(parts, call)),
    defineRoute("GET", "/{database}/_design/{name}/_info", DOCUMENT, (call) =>
      describeDesign(parts, call),
    ),
    defineRoute("POST", "/{database}/_index/_bulk_delete", MEMBER, (call) =>
      removeMany(parts, call),
    ),
    ...["{design}", "_design/{design}"].map((design) =>
      defineRoute("DELETE", `/{database}/_index/${design}/{type}/{name}`, MEMBER, (call) =>
        removeOne(parts, call),
      ),
    ),
    defineRoute(ALL_METHODS, "/{database}/_index/{rest...}", MEMBER, async () => {
      throw new ProtocolError(404, "not_found", "missing");
    }),
  ];
}

async function listAll(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const indexes = await listIndexes(parts, call);
  const limit = integerParameter(call, "limit");
  const skip = integerParameter(call, "skip") ?? 0;
  // CouchDB responds with 500 to a limit of 0.
  if (limit === 0) throw badRequest("Index parameter ranges: limit > 1, skip > 0");
  const shown = indexes.slice(skip, limit === undefined ? undefined : skip + limit);
  return jsonText(200, printJson({ total_rows: indexes.length, indexes: shown.map(indexView) }));
}

/**
 * The indexes of one design document. Sizes are unknown, because index entries are ordinary rows of
 * the store.
 */
async function describeDesign(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const name = parameter(call, "name");
  const design = await readDesign(parts, call, designId(name));
  if (design === undefined) throw new ProtocolError(404, "not_found", "missing");
  if (bodyOf(design).language !== "query") {
    throw new ProtocolError(501, "not_implemented", "Views are not part of Tandem.");
  }
  const sources = (await listIndexes(parts, call)).flatMap(({ source }) =>
    source?.stored.design === design.id ? source : [],
  );
  const states = await Promise.all(
    sources.map(async ({ number }) => (await indexState(parts, call, number)).state),
  );
  const definitions = sources.map(({ stored: { name: view, fields, partialFilter } }) => {
    return [view, fields, partialFilter ?? null];
  });
  const view_index = {
    language: "query",
    signature: md5HexOf(parts.runtime.digests, [utf8Encode(printJson(definitions))]),
    updater_running: states.some((state) => state?.isReady === false),
  };
  return json(200, { name, view_index });
}

/** Index to be created, as requested by a client. */
interface NewIndex {
  readonly design: string;
  readonly name: string;
  /** The view that is written to the design document. */
  readonly view: { readonly map: object; readonly reduce: "_count"; readonly options: object };
}

async function create(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const wanted = await newIndex(parts, call);
  if (await readDatabase(parts, call, async (_, { isSealed }) => isSealed)) {
    throw invalid(
      "invalid_index",
      "Indexes are not supported: the documents of this database are sealed in the store",
    );
  }
  const answer = (result: "created" | "exists"): ApiResponse =>
    json(200, { result, id: wanted.design, name: wanted.name });
  for (let conflictCount = 0; ; conflictCount++) {
    const [design, indexes] = [
      await readDesign(parts, call, wanted.design),
      await listIndexes(parts, call),
    ];
    const body = design === undefined ? { language: "query" } : bodyOf(design);
    if (body.language !== "query") {
      const language = printJson(body.language);
      const reason = `Existing design doc has an invalid language: ${language}`;
      throw invalid("invalid_ddoc_lang", reason);
    }
    const views: { readonly [name: string]: unknown } = isJsonObject(body.views) ? body.views : {};
    const existing = Object.hasOwn(views, wanted.name) ? views[wanted.name] : undefined;
    if (printJson(existing) === printJson(wanted.view)) return answer("exists");
    // Not `>=`, because `indexes` includes the index of all documents.
    if (existing === undefined && indexes.length > INDEXES_MAX) {
      throw invalid("invalid_index", `A database has at most ${INDEXES_MAX} indexes`);
    }
    const newBody = { ...body, views: withMember(views, wanted.name, wanted.view) };
    try {
      await writeDesign(parts, call, { id: wanted.design, before: design, body: newBody });
      return answer("created");
    } catch (error) {
      if (!isConflict(error) || conflictCount === CONFLICTS_MAX) throw error;
    }
  }
}

async function newIndex(parts: DatabaseParts, call: Call): Promise<NewIndex> {
  const members = await readExactMembers(call);
  const definition = members.get("index");
  if (!members.has("index")) throw invalid("missing_required_key", "Missing required key: index");
  const type = members.has("type") ? members.get("type") : "json";
  if (typeof type !== "string") {
    throw invalid("invalid_string", `Invalid string: ${printJson(type)}`);
  }
  const name = givenName(members.get("name"));
  const ddoc = givenName(members.get("ddoc"));
  const w = positive(members.get("w"), 2);
  const partitioned = members.get("partitioned") ?? "db_default";
  if (typeof partitioned !== "boolean" && partitioned !== "db_default") {
    const reason = `Invalid value for partitioned: ${printJson(partitioned)}`;
    throw invalid("invalid_partitioned_value", reason);
  }
  const unknown = [...members.keys()].find((key) => !KNOWN_KEYS.includes(key));
  if (unknown !== undefined) {
    throw invalid("invalid_key", `Invalid key ${unknown} for this request.`);
  }
  if (type === "text" || type === "nouveau") {
    throw new ProtocolError(503, "required index service unavailable", type);
  }
  if (type !== "json") throw invalid("invalid_index", `Invalid type for index: ${type}`);
  if (partitioned === true) {
    const reason = "`partitioned` option cannot be `true` in a non-partitioned database.";
    throw badRequest(reason);
  }
  const options = list([
    tuple(atom("ddoc"), ddoc === undefined ? atom(AUTO_NAME) : binary(ddoc)),
    tuple(atom("def"), jsonTerm(definition)),
    tuple(atom("name"), name === undefined ? atom(AUTO_NAME) : binary(name)),
    tuple(atom("partitioned"), atom(String(partitioned))),
    tuple(atom("type"), binary(type)),
    tuple(atom("w"), { number: w }),
  ]);
  // CouchDB's default name of an index.
  const hash = parts.runtime.digests.sha1Hex(encodeTerm(tuple(jsonTerm(definition), options)));
  const design = (ddoc ?? hash).replace(/^(?!_design\/)/, "_design/");
  return { design, name: name ?? hash, view: viewOfDefinition(definition, design, name ?? hash) };
}

function givenName(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (value === "") {
    throw invalid("invalid_empty_string", "Index name or ddoc cannot be empty string");
  }
  if (typeof value === "string") return value;
  throw invalid("invalid_string", `Invalid string: ${printJson(value)}`);
}

function viewOfDefinition(definition: unknown, design: string, name: string): NewIndex["view"] {
  if (!isJsonObject(definition)) {
    const reason = `JSON indexes must be an object, not: ${printJson(definition)}`;
    throw invalid("invalid_index", reason);
  }
  const { fields, partial_filter_selector: filter, ...others } = definition;
  if (fields === undefined) throw invalid("missing_required_key", "Missing required key: fields");
  const sort = readSort(fields);
  const partialFilter = filter === undefined ? {} : readSelector(filter).selector;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw invalid("invalid_key", `Invalid key ${unknown} for this request.`);
  }
  const fault = faultOf({
    design,
    name,
    fields: sort.map(([field, direction]) => ({ name: field, direction })),
    partialFilter,
  });
  if (fault !== undefined) throw invalid("invalid_index", fault);
  return {
    map: { fields: objectOf(sort), partial_filter_selector: partialFilter },
    reduce: "_count",
    options: { def: definition },
  };
}

/** Handles `DELETE _index/{design}/json/{name}`, with or without `_design/`. */
async function removeOne(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const [design, type, name] = ["design", "type", "name"].map((part) => parameter(call, part));
  const isRemoved =
    type === "json" && (await removeViews(parts, call, designId(design as string), name));
  if (!isRemoved) throw new ProtocolError(404, "not_found", "missing");
  return json(200, { ok: true });
}

async function removeMany(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const members = await readExactMembers(call);
  const ids = members.get("docids");
  if (ids === undefined) throw invalid("missing_required_key", "Missing required key: docids");
  if (!Array.isArray(ids)) {
    const reason = `Bulk Delete requires an array of non-null docids. Docids: ${printJson(ids)}`;
    throw invalid("invalid_bulk_docs", reason);
  }
  for (const id of ids) indexName(id);
  positive(members.get("w"), 2);
  const unknown = [...members.keys()].find((key) => key !== "docids" && key !== "w");
  if (unknown !== undefined) {
    throw invalid("invalid_key", `Invalid key ${unknown} for this request.`);
  }
  await readDatabase(parts, call, async () => undefined);
  const success: object[] = [];
  const fail: object[] = [];
  for (const given of ids) {
    const id = designId(String(given));
    if (await removeViews(parts, call, id)) success.unshift({ id, ok: true });
    else fail.unshift({ id, error: "not_found" });
  }
  return json(200, { success, fail });
}

/**
 * Removes the named index, or all indexes, from a design document, and deletes the document if no
 * index is left. Returns whether any index was removed.
 */
async function removeViews(
  parts: DatabaseParts,
  call: Call,
  id: string,
  name?: string,
): Promise<boolean> {
  for (let conflictCount = 0; ; conflictCount++) {
    const indexes = await listIndexes(parts, call);
    const names = indexes
      .filter((index) => index.design === id && (name === undefined || index.name === name))
      .map((index) => index.name);
    const design = names.length === 0 ? undefined : await readDesign(parts, call, id);
    if (design === undefined) return false;
    const { views, ...others } = bodyOf(design);
    const left = Object.entries(views as object).filter(([each]) => !names.includes(each));
    const body = left.length === 0 ? others : { ...others, views: objectOf(left) };
    const isLast = Object.keys(body).length === 1;
    try {
      const written = isLast ? {} : body;
      await writeDesign(parts, call, { id, before: design, body: written, deleted: isLast });
      return true;
    } catch (error) {
      if (!isConflict(error) || conflictCount === CONFLICTS_MAX) throw error;
    }
  }
}

function designId(name: string): string {
  return name.startsWith("_design/") ? name : `_design/${name}`;
}

/** Returns the design document, or `undefined` if it is deleted or does not exist. */
function readDesign(parts: DatabaseParts, call: Call, id: string): Promise<Document | undefined> {
  return readDatabase(parts, call, async (tx, database) => {
    const document = await database.documents.read(tx, id);
    return document?.deleted ? undefined : document;
  });
}

async function writeDesign(
  parts: DatabaseParts,
  call: Call,
  {
    id,
    before,
    body,
    deleted = false,
  }: {
    readonly id: string;
    readonly before: Document | undefined;
    readonly body: object;
    readonly deleted?: boolean;
  },
): Promise<void> {
  const attachments = deleted ? [] : (before?.attachments ?? []);
  await writeOne(parts, call, {
    id,
    deleted,
    mode: "interactive",
    parent: before?.revision,
    body: Utf8Text.encoded(utf8Encode(printJson(body))),
    attachments: attachments.map(({ name }) => ({ kind: "stub", name })),
  });
}

function bodyOf(document: Document): Readonly<Record<string, unknown>> {
  const body = parseJson(document.body.text);
  return isJsonObject(body) ? body : {};
}

/** Sets an own property of any name, including `__proto__`. */
function withMember(object: object, name: string, value: unknown): object {
  return objectOf([...Object.entries(object), [name, value]]);
}

function isConflict(error: unknown): boolean {
  return error instanceof ProtocolError && error.status === 409;
}
