/**
 * The one parser of `_replicator` documents and `_replicate` bodies (RFC 016, `couch_replicator_parse`).
 *
 * The texts of the errors are CouchDB's where it has one that names the field. Options that are not there yet are refused:
 * ignoring a proxy or a certificate would copy data over a way that the user ruled out.
 */
import { base64Decode, OperationalError, utf8Decode } from "../base/index.ts";
import type { Selection } from "./endpoint.ts";
import {
  type EndpointAddress,
  REPLICATION_OPTIONS_DEFAULT,
  type Replication,
  type ReplicationOptions,
} from "./replication.ts";

/** A field that is missing or wrong; `reason` names it. */
export class ReplicationInvalidError extends OperationalError {
  override readonly name = "ReplicationInvalidError";
  readonly reason: string;

  constructor(reason: string) {
    super("REPLICATOR_INVALID", "The replication is not valid", { reason });
    this.reason = reason;
  }
}

type Members = Readonly<Record<string, unknown>>;

const DATABASE_NAME =
  /^(_users|_replicator|_global_changes|[a-z][a-z0-9_$()+/-]*(\/_users|\/_replicator)?)$/;

const NOT_SUPPORTED_YET = ["proxy", "source_proxy", "target_proxy"] as const;

/** Parses `members`; throws a ReplicationInvalidError that names the first bad field. */
export function parseReplication(
  members: Members,
  defaults: ReplicationOptions = REPLICATION_OPTIONS_DEFAULT,
): Replication {
  for (const name of NOT_SUPPORTED_YET) {
    if (members[name] !== undefined && members[name] !== null) {
      throw new ReplicationInvalidError(`\`${name}\` is not supported yet`);
    }
  }
  const sinceSequence = members.since_seq;
  return {
    source: parseEndpoint("source", members.source),
    target: parseEndpoint("target", members.target),
    continuous: boolean(members, "continuous", false),
    createTarget: boolean(members, "create_target", false),
    createTargetParameters: createTargetParameters(members.create_target_params),
    selection: parseSelection(members),
    winningRevisionsOnly: boolean(members, "winning_revs_only", false),
    ...(sinceSequence === undefined || sinceSequence === null ? {} : { sinceSequence }),
    options: {
      useCheckpoints: boolean(members, "use_checkpoints", defaults.useCheckpoints),
      checkpointIntervalMs: integer(members, "checkpoint_interval", defaults.checkpointIntervalMs),
      workerProcesses: integer(members, "worker_processes", defaults.workerProcesses),
      workerBatchSize: integer(members, "worker_batch_size", defaults.workerBatchSize),
      httpConnections: integer(members, "http_connections", defaults.httpConnections),
      connectionTimeoutMs: integer(members, "connection_timeout", defaults.connectionTimeoutMs),
      retriesPerRequest: integer(members, "retries_per_request", defaults.retriesPerRequest, 0),
      useBulkGet: boolean(members, "use_bulk_get", defaults.useBulkGet),
    },
  };
}

function parseEndpoint(field: "source" | "target", value: unknown): EndpointAddress {
  if (value === undefined || value === null) {
    throw new ReplicationInvalidError(`Missing \`${field}\` field`);
  }
  if (typeof value === "string") return parseAddress(field, value, {}, undefined);
  if (!isObject(value)) {
    throw new ReplicationInvalidError(`\`${field}\` must be a string or an object`);
  }
  if (typeof value.url !== "string") {
    throw new ReplicationInvalidError(`\`${field}.url\` must be a string`);
  }
  const headers = parseHeaders(field, value.headers);
  return parseAddress(field, value.url, headers, parseBasic(field, value.auth));
}

function parseHeaders(field: string, value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError(`if defined \`${field}.headers\` must be an object`);
  }
  const headers: Record<string, string> = {};
  for (const [name, text] of Object.entries(value)) {
    if (typeof text !== "string") {
      throw new ReplicationInvalidError(`\`${field}.headers.${name}\` must be a string`);
    }
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) || /[\r\n\0]/.test(text)) {
      throw new ReplicationInvalidError(`\`${field}.headers.${name}\` is not a valid HTTP header`);
    }
    headers[name] = text;
  }
  return headers;
}

type Basic = { readonly username: string; readonly password: string };

function parseBasic(field: string, value: unknown): Basic | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) {
    throw new ReplicationInvalidError(`if defined, \`${field}.auth\` must be an object`);
  }
  for (const name of Object.keys(value)) {
    if (name !== "basic") {
      throw new ReplicationInvalidError(`\`${field}.auth.${name}\` is not supported yet`);
    }
  }
  if (value.basic === undefined) return undefined;
  const { username, password } = isObject(value.basic) ? value.basic : {};
  if (typeof username !== "string" || typeof password !== "string") {
    throw new ReplicationInvalidError(
      `\`${field}.auth.basic\` must be an object with the strings \`username\` and \`password\``,
    );
  }
  return { username, password };
}

function parseAddress(
  field: string,
  text: string,
  headers: Record<string, string>,
  auth: Basic | undefined,
): EndpointAddress {
  if (!/^https?:\/\//i.test(text)) {
    if (DATABASE_NAME.test(text)) return { kind: "local", database: text };
    throw new ReplicationInvalidError(
      `\`${field}\` must be an http:// or https:// URL, or the name of a database on this server`,
    );
  }
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new ReplicationInvalidError(`\`${field}\` has an invalid url`);
  }
  const { header, rest } = takeBasicHeader(headers);
  const userinfo =
    url.username !== "" || url.password !== ""
      ? { username: decode(url.username), password: decode(url.password) }
      : undefined;
  const basic = auth ?? userinfo ?? header;
  const bare = text.replace(/^(https?:\/\/)[^/?#]*@/i, "$1").replace(/#.*$/s, "");
  const complete = bare.endsWith("/") || bare.includes("?") ? bare : `${bare}/`;
  return { kind: "http", url: complete, headers: rest, ...(basic === undefined ? {} : { basic }) };
}

/** Takes a Basic authorization out of the headers; other schemes stay. */
function takeBasicHeader(headers: Record<string, string>): {
  header: Basic | undefined;
  rest: Record<string, string>;
} {
  let header: Basic | undefined;
  const rest: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const match = name.toLowerCase() === "authorization" ? /^basic\s+(\S+)\s*$/i.exec(value) : null;
    if (match === null) rest[name] = value;
    else header = decodeBasic(match[1] as string);
  }
  return { header, rest };
}

function decodeBasic(encoded: string): Basic | undefined {
  const bytes = base64Decode(encoded);
  if (bytes === undefined) return undefined;
  try {
    const pair = utf8Decode(bytes);
    const colon = pair.indexOf(":");
    if (colon < 0) return undefined;
    return { username: pair.slice(0, colon), password: pair.slice(colon + 1) };
  } catch {
    return undefined;
  }
}

function parseSelection(members: Members): Selection {
  const given = ["doc_ids", "filter", "selector"].filter(
    (name) => members[name] !== undefined && members[name] !== null,
  );
  if (given.length > 1) {
    throw new ReplicationInvalidError("`doc_ids`,`filter`,`selector` are mutually exclusive");
  }
  const queryParameters = parseQueryParameters(members.query_params);
  if (given[0] === "doc_ids") return { kind: "doc-ids", ids: parseDocumentIds(members.doc_ids) };
  if (given[0] === "filter") return parseFilter(members.filter, queryParameters);
  if (given[0] !== "selector") return { kind: "all" };
  if (!isObject(members.selector)) {
    throw new ReplicationInvalidError("parameter `selector` must be a JSON object");
  }
  return { kind: "selector", selector: members.selector };
}

function parseDocumentIds(value: unknown): string[] {
  if (!Array.isArray(value)) {
    throw new ReplicationInvalidError("parameter `doc_ids` must be an array");
  }
  const ids = value.map((id: unknown) => {
    if (typeof id !== "string" || id === "") {
      throw new ReplicationInvalidError("`doc_ids` array must contain non-empty strings");
    }
    return decode(id);
  });
  return [...new Set(ids)].sort();
}

function parseQueryParameters(value: unknown): Members {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError("parameter `query_params` must be an object");
  }
  return value;
}

function parseFilter(name: unknown, queryParameters: Members): Selection {
  if (typeof name !== "string" || name.length < 2) {
    throw new ReplicationInvalidError("`filter` must be a string");
  }
  if (!name.startsWith("_") && !/^[^/]+\/./.test(name)) {
    throw new ReplicationInvalidError("Invalid filter. Must match `ddocname/filtername`.");
  }
  if (name === "_view" && !/^[^/]+\/[^/]+$/.test(String(queryParameters.view ?? ""))) {
    throw new ReplicationInvalidError("Invalid `view` parameter.");
  }
  return { kind: "filter", name, queryParameters };
}

function createTargetParameters(value: unknown): Record<string, string> {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) {
    throw new ReplicationInvalidError("parameter `create_target_params` must be a JSON object");
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => {
      if (isObject(item) || Array.isArray(item)) {
        throw new ReplicationInvalidError(
          `\`create_target_params.${name}\` must be a string, a number or a boolean`,
        );
      }
      return [name, String(item)];
    }),
  );
}

function boolean(members: Members, name: string, otherwise: boolean): boolean {
  const value = members[name];
  if (value === undefined) return otherwise;
  if (typeof value !== "boolean") {
    throw new ReplicationInvalidError(`parameter \`${name}\` must be a boolean`);
  }
  return value;
}

function integer(members: Members, name: string, otherwise: number, min = 1): number {
  const value = members[name];
  if (value === undefined || value === null) return otherwise;
  const number = typeof value === "string" && /^[0-9]+$/.test(value) ? Number(value) : value;
  if (typeof number !== "number" || !Number.isSafeInteger(number) || number < min) {
    throw new ReplicationInvalidError(`\`${name}\` must be an integer of at least ${min}`);
  }
  return number;
}

function isObject(value: unknown): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
