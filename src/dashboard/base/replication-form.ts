/** Conversion between the fields of the form and a replication document. */

import { isJsonObject, objectOf, parseJson, printJson } from "../../base/index.ts";
import { DOCUMENT_OPTIONS, type Option } from "../../contract/index.ts";
import { visibleJson } from "./json.ts";
import { MASK, masked } from "./masked.ts";
import { type ScheduleKind, scheduleKindOf } from "./schedules.ts";

export const LOGINS = ["none", "kept", "basic", "bearer", "iam", "oauth2"] as const;
export type Login = (typeof LOGINS)[number];

/** The fields of one endpoint. */
export interface EndpointFields {
  /** A URL, or the name of a local database. */
  readonly address: string;
  readonly login: Login;
  readonly username: string;
  /** A password, token, key or client secret, depending on `login`. */
  readonly secret: string;
  /**
   * Token endpoint for OAuth client credentials. For other kinds of login, `tokenUrl`, `clientId`
   * and `scope` are empty.
   */
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly scope: string;
}

export const SELECTIONS = ["all", "doc_ids", "selector", "filter"] as const;
export type SelectionKind = (typeof SELECTIONS)[number];

export interface FormFields {
  readonly database: string;
  readonly id: string;
  readonly source: EndpointFields;
  readonly target: EndpointFields;
  readonly continuous: boolean;
  readonly createTarget: boolean;
  readonly selection: SelectionKind;
  /** Ids, one per line or as a JSON list; a selector as JSON; or the name of a filter function. */
  readonly selected: string;
  /** Parameters of a filter function, as JSON. */
  readonly queryParameters: string;
  readonly winningRevisionsOnly: boolean;
  readonly skipsDeleted: boolean;
  /** Limits as typed. Empty means no limit. */
  readonly documentBytesMax: string;
  readonly attachmentBytesMax: string;
  readonly sinceSequence: string;
  readonly scheduleKind: ScheduleKind;
  readonly schedule: string;
  /** Tags as typed: `name:value`, separated by commas. */
  readonly tags: string;
  /** Labels that a node must have, separated by commas. */
  readonly runOn: string;
  /** Names of jobs that must complete or catch up first, one per line. */
  readonly after: string;
  readonly pair: boolean;
  /** Options as typed, by name. Empty means the default. */
  readonly options: Readonly<Record<string, string>>;
}

export const NO_ENDPOINT: EndpointFields = {
  address: "",
  login: "none",
  username: "",
  secret: "",
  tokenUrl: "",
  clientId: "",
  scope: "",
};

export const EMPTY_FORM: FormFields = {
  database: "_replicator",
  id: "",
  source: NO_ENDPOINT,
  target: NO_ENDPOINT,
  continuous: true,
  createTarget: false,
  selection: "all",
  selected: "",
  queryParameters: "",
  winningRevisionsOnly: false,
  skipsDeleted: false,
  documentBytesMax: "",
  attachmentBytesMax: "",
  sinceSequence: "",
  scheduleKind: "none",
  schedule: "",
  tags: "",
  runOn: "",
  after: "",
  pair: false,
  options: {},
};

type Document = Readonly<Record<string, unknown>>;

/** Thrown for a field with an invalid value. */
export class FieldError extends Error {
  override readonly name = "FieldError";
  /** Path of the document member, such as `source.auth`, or `id` or `database`. */
  readonly field: string;
  /** Whether the value is missing. Missing values are not reported while the user types. */
  readonly isMissing: boolean;

  constructor(field: string, message: string, isMissing = false) {
    super(message);
    this.field = field;
    this.isMissing = isMissing;
  }
}

/** The valid members of a document, and the errors of the invalid members by field. */
export interface Made {
  readonly document: Document;
  readonly errors: ReadonlyMap<string, FieldError>;
}

type Maker = readonly [name: string, make: () => unknown];

/**
 * Builds a document from the results of the makers, and collects their FieldErrors. A maker returns
 * `undefined` to omit its member.
 */
export function madeOf(makers: readonly Maker[]): Made {
  const errors = new Map<string, FieldError>();
  const members = makers.flatMap(([name, make]) => {
    try {
      const value = make();
      return value === undefined ? [] : [[name, value] as const];
    } catch (fault) {
      if (!(fault instanceof FieldError)) throw fault;
      errors.set(fault.field, fault);
      return [];
    }
  });
  return { document: objectOf(members), errors };
}

/** A member of a document, or of a rule's options, that has fields in a form. */
export interface Member<Fields> {
  readonly name: string;
  /**
   * Returns the fields that determine the member. If they are unchanged, the member stays
   * unchanged.
   */
  readonly shown: (fields: Fields) => unknown;
  /** Makes the member's value from the fields, or `undefined` to omit it. Throws a FieldError. */
  readonly made: (fields: Fields, original: unknown) => unknown;
}

/** Fields of options that replications and rules share. */
export type OptionFields = Pick<
  FormFields,
  | "skipsDeleted"
  | "documentBytesMax"
  | "attachmentBytesMax"
  | "scheduleKind"
  | "schedule"
  | "options"
>;

/** Members of a document that a rule has in its `options`. */
export const OPTION_MEMBERS: readonly Member<OptionFields>[] = [
  {
    name: "deleted",
    shown: ({ skipsDeleted }) => skipsDeleted,
    made: ({ skipsDeleted }) => (skipsDeleted ? "skip" : undefined),
  },
  bytesMaxMember("documents", ({ documentBytesMax }) => documentBytesMax),
  bytesMaxMember("attachments", ({ attachmentBytesMax }) => attachmentBytesMax),
  {
    name: "schedule",
    shown: ({ scheduleKind, schedule }) => [scheduleKind === "none", schedule],
    made: ({ scheduleKind, schedule }) => (scheduleKind === "none" ? undefined : schedule.trim()),
  },
  ...DOCUMENT_OPTIONS.map((option): Member<OptionFields> => {
    const textOf = ({ options }: OptionFields) => options[option.name]?.trim() ?? "";
    return {
      name: option.name,
      shown: textOf,
      made: (fields) => (textOf(fields) === "" ? undefined : optionValue(option, textOf(fields))),
    };
  }),
];

/** Form fields for the members that replications and rules have in common, other than `options`. */
export type JobFields = Pick<FormFields, "tags" | "runOn" | "after" | "pair">;

export const JOB_MEMBERS: readonly Member<JobFields>[] = [
  {
    name: "tags",
    shown: ({ tags }) => tags,
    made: ({ tags }) => tagsOf(tags),
  },
  {
    name: "run_on",
    shown: ({ runOn }) => runOn,
    made: ({ runOn }) => {
      const labels = partsOf(runOn);
      return labels.length === 0 ? undefined : labels;
    },
  },
  {
    name: "pair",
    shown: ({ pair }) => pair,
    made: ({ pair }) => pair || undefined,
  },
  {
    name: "after",
    shown: ({ after }) => after,
    made: ({ after }) => {
      const names = linesOf(after);
      return names.length === 0 ? undefined : names;
    },
  },
];

const MEMBERS: readonly Member<FormFields>[] = [
  {
    name: "continuous",
    shown: ({ continuous }) => continuous,
    made: ({ continuous }) => continuous || undefined,
  },
  {
    name: "create_target",
    shown: ({ createTarget }) => createTarget,
    made: ({ createTarget }) => createTarget || undefined,
  },
  selectionMember("doc_ids", idsOf),
  selectionMember("selector", (text) => parsed("selector", text)),
  selectionMember("filter", filterOf),
  {
    name: "query_params",
    shown: ({ selection, queryParameters }) => [selection === "filter", queryParameters],
    made: ({ selection, queryParameters }) =>
      selection === "filter" && queryParameters.trim() !== ""
        ? parsed("query_params", queryParameters)
        : undefined,
  },
  {
    name: "winning_revs_only",
    shown: ({ winningRevisionsOnly }) => winningRevisionsOnly,
    made: ({ winningRevisionsOnly }) => winningRevisionsOnly || undefined,
  },
  {
    name: "since_seq",
    shown: ({ sinceSequence }) => sinceSequence,
    made: ({ sinceSequence }) =>
      sinceSequence.trim() === "" ? undefined : sequenceOf(sinceSequence),
  },
  ...JOB_MEMBERS,
  ...OPTION_MEMBERS,
];

/** Defines a member that selects documents. */
function selectionMember(
  kind: Exclude<SelectionKind, "all">,
  made: (text: string) => unknown,
): Member<FormFields> {
  return {
    name: kind,
    shown: ({ selection, selected }) => [selection, selection === kind ? selected : ""],
    made: ({ selection, selected }) => (selection === kind ? made(selected) : undefined),
  };
}

/** Defines a member with a size limit. Larger revisions are not copied. */
function bytesMaxMember(
  name: "documents" | "attachments",
  textOf: (fields: OptionFields) => string,
): Member<OptionFields> {
  return {
    name,
    shown: textOf,
    made: (fields, original) => {
      const others = isJsonObject(original) ? original : {};
      const { max_bytes: _before, ...kept } = others;
      const text = textOf(fields).trim();
      if (text !== "") {
        return { ...kept, max_bytes: integer({ name, min: 0 }, text) };
      }
      return Object.keys(kept).length === 0 ? undefined : kept;
    },
  };
}

/**
 * Returns makers of the members that have fields in a form. A member that the user did not change
 * keeps its original value, even if the form cannot represent it.
 */
export function makersOf<Fields>(
  members: readonly Member<Fields>[],
  fields: Fields,
  before: Fields,
  original: Document,
): readonly Maker[] {
  return members.map(({ name, shown, made }) => {
    const isUntouched = original[name] !== undefined && isSame(shown(fields), shown(before));
    return [name, () => (isUntouched ? original[name] : made(fields, original[name]))];
  });
}

/**
 * Builds the document from the fields. `original` is the document that is edited or cloned. Members
 * of `original` that the form does not support, or that the user did not change, are preserved. If
 * the login of a side is `kept`, its credentials are preserved too.
 */
export function replicationOf(fields: FormFields, original: Document = {}): Made {
  const { database, id } = fields;
  const before = fieldsOf(original, database, id);
  return madeOf([
    ["database", () => checkDatabase(database)],
    ["id", () => checkId(id)],
    ...Object.entries(otherMembers(original)).map(([name, value]) => [name, () => value] as const),
    ["source", () => endpointOf("source", fields.source, original.source)],
    ["target", () => endpointOf("target", fields.target, original.target)],
    ...makersOf(MEMBERS, fields, before, original),
  ]);
}

function checkDatabase(database: string): undefined {
  if (/^(.*\/)?_replicator$/s.test(database)) return;
  throw new FieldError("database", "Expected _replicator, or a name that ends in /_replicator");
}

function checkId(id: string): undefined {
  if (id === "") throw new FieldError("id", "Enter an id", true);
  if (id.startsWith("_")) throw new FieldError("id", "An id must not begin with an underscore");
}

function isSame(one: unknown, other: unknown): boolean {
  return printJson(one) === printJson(other);
}

/** Returns the fields with a trimmed database name and id. */
export function withTrimmedName(fields: FormFields): FormFields {
  return { ...fields, database: fields.database.trim(), id: fields.id.trim() };
}

/** Returns the members of a document that a clone keeps. */
export function cloneOf(document: Document): Document {
  const { _id, _rev, _attachments, owner: _owner, ...copied } = document;
  return copied;
}

/** Returns the valid part of a document, for a check; `undefined` if neither endpoint is valid. */
export function draftOf({ document }: Made, id: string): Document | undefined {
  if (document.source === undefined && document.target === undefined) return undefined;
  return id === "" ? document : { ...document, _id: id };
}

/** Returns the fields that represent options. */
export function optionFieldsOf(document: Document): OptionFields {
  const { schedule } = document;
  const option = ({ name }: Option) =>
    document[name] === undefined ? [] : [[name, String(document[name])] as const];
  return {
    skipsDeleted: document.deleted === "skip",
    documentBytesMax: bytesMaxText(document.documents),
    attachmentBytesMax: bytesMaxText(document.attachments),
    scheduleKind: typeof schedule === "string" ? scheduleKindOf(schedule) : "none",
    schedule: typeof schedule === "string" ? schedule : "",
    options: Object.fromEntries(DOCUMENT_OPTIONS.flatMap(option)),
  };
}

/** Returns the form fields for a document's tags, labels, pair, and jobs to wait for. */
export function jobFieldsOf({ tags, run_on: labels, after, pair }: Document): JobFields {
  const pairs = isJsonObject(tags) ? Object.entries(tags) : [];
  return {
    tags: pairs.map(([name, value]) => `${name}:${String(value)}`).join(", "),
    runOn: isTexts(labels) ? labels.join(", ") : "",
    pair: pair === true,
    after: isTexts(after) ? after.join("\n") : typeof after === "string" ? after : "",
  };
}

/** Returns the fields that represent the document. */
export function fieldsOf(document: Document, database: string, id: string): FormFields {
  const selection = SELECTIONS.find((kind) => kind !== "all" && document[kind] !== undefined);
  return {
    database,
    id,
    source: endpointFields(document.source),
    target: endpointFields(document.target),
    continuous: document.continuous === true,
    createTarget: document.create_target === true,
    selection: selection ?? "all",
    selected: selection === undefined ? "" : selectedText(selection, document[selection]),
    queryParameters: document.query_params === undefined ? "" : visibleJson(document.query_params),
    winningRevisionsOnly: document.winning_revs_only === true,
    sinceSequence: sequenceText(document.since_seq),
    ...jobFieldsOf(document),
    ...optionFieldsOf(document),
  };
}

/** Maximum length of each half of a generated id. */
const NAME_LENGTH_MAX = 60;

/**
 * Returns an id made from the addresses: `films-to-copy`, or with a host if both databases have the
 * same name. Returns an empty string if an address is missing or invalid.
 */
export function idFor(source: string, target: string): string {
  const [from, to] = [placeOf(source), placeOf(target)];
  if (from === undefined || to === undefined) return "";
  if (from.name !== to.name) return `${from.name}-to-${to.name}`;
  if (to.host !== "") return `${from.name}-to-${to.host}`;
  return from.host === "" ? `${from.name}-to-${to.name}` : `${from.name}-from-${from.host}`;
}

/** Returns the database and host of an address, with special characters replaced by hyphens. */
function placeOf(address: string): { readonly name: string; readonly host: string } | undefined {
  const typed = address.trim();
  const url = /^https?:/i.test(typed) && URL.canParse(typed) ? new URL(typed) : undefined;
  // Text that might contain a password must not become part of an id.
  if (typed === "" || (url === undefined && /[@:?]/.test(typed))) return undefined;
  const path = url === undefined ? typed : decodedPath(url.pathname);
  const host = plainName(url?.hostname ?? "");
  return { name: plainName(path) || host || "database", host };
}

function decodedPath(path: string): string {
  const [last = ""] = path.split("/").filter(Boolean).slice(-1);
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

function plainName(text: string): string {
  const plain = text.replace(/[^A-Za-z0-9.]+/g, "-").slice(-NAME_LENGTH_MAX);
  return plain.replace(/^[-.]+|[-.]+$/g, "");
}

/** Returns a shell command that sends the document without secrets. */
export function curlCommand(address: string, document: Document): string {
  const body = visibleJson(masked(document));
  return [
    `curl --netrc -X PUT ${quoted(address)}`,
    "  -H 'Content-Type: application/json'",
    `  -d ${quoted(body)}`,
  ].join(" \\\n");
}

/** Quotes text for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const KNOWN_MEMBERS = new Set(["source", "target", ...MEMBERS.map(({ name }) => name)]);

/**
 * Members that record the outcome of an earlier replication. Removed, because otherwise the new
 * replication would count as ended.
 */
const OUTCOME_MEMBERS = new Set([
  "_replication_state",
  "_replication_state_time",
  "_replication_state_reason",
  "_replication_stats",
]);

function otherMembers(original: Document): Document {
  return Object.fromEntries(
    Object.entries(original).filter(
      ([name]) => !KNOWN_MEMBERS.has(name) && !OUTCOME_MEMBERS.has(name),
    ),
  );
}

/** Makes an endpoint. Throws a FieldError. */
export function endpointOf(side: string, fields: EndpointFields, original: unknown): unknown {
  const { login, username, secret } = fields;
  const typed = fields.address.trim();
  if (typed === "") throw new FieldError(side, `Enter the address of the ${side}`, true);
  if (isSame(fields, endpointFields(original))) return original;
  if (login === "kept") return keptEndpoint(side, typed, original);
  // A masked secret must not be sent: the mask would be used as the password.
  const address = withoutMaskedUser(typed);
  if (address.includes(MASK)) {
    throw new FieldError(
      side,
      "The address contains a masked secret (*****); enter the secret again",
    );
  }
  if (login === "none") return address;
  if (secret === "") {
    throw new FieldError(`${side}.auth`, `Enter a password, token or key for the ${side}`, true);
  }
  if (login === "basic") return { url: address, auth: { basic: { username, password: secret } } };
  if (login === "bearer") return { url: address, auth: { bearer: { token: secret } } };
  if (login === "oauth2") return { url: address, auth: { oauth2: clientOf(side, fields) } };
  return { url: address, auth: { iam: { api_key: secret } } };
}

/** Client credentials of OAuth. */
function clientOf(side: string, { secret, tokenUrl, clientId, scope }: EndpointFields): unknown {
  const [url, id, scopes] = [tokenUrl.trim(), clientId.trim(), scope.trim()];
  if (url === "") {
    throw new FieldError(`${side}.auth.oauth2.token_url`, "Enter the token URL", true);
  }
  if (id === "") {
    throw new FieldError(`${side}.auth.oauth2.client_id`, "Enter the client id", true);
  }
  return {
    token_url: url,
    client_id: id,
    client_secret: secret,
    ...(scopes === "" ? {} : { scope: scopes }),
  };
}

/** Removes a user whose password is masked: `https://ann:*****@host/` becomes `https://host/`. */
function withoutMaskedUser(address: string): string {
  const [user, scheme] = /^([a-z0-9+.-]+:\/\/)[^/@]*@/i.exec(address) ?? [];
  if (user === undefined || !user.endsWith(`:${MASK}@`)) return address;
  return scheme + address.slice(user.length);
}

/** Returns the original endpoint, with the new address if the user has edited the address. */
function keptEndpoint(side: string, address: string, original: unknown): unknown {
  if (address === masked(addressOfEndpoint(original))) return original;
  if (address.includes(MASK)) {
    throw new FieldError(side, "Enter the password again after changing the address");
  }
  return isJsonObject(original) ? { ...original, url: address } : address;
}

export function endpointFields(endpoint: unknown): EndpointFields {
  const address = addressOfEndpoint(endpoint);
  const hasMore = isJsonObject(endpoint) && Object.keys(endpoint).length > 1;
  const shown = String(masked(address));
  const hasLogin = hasMore || shown !== address || shown.includes(MASK);
  return { ...NO_ENDPOINT, address: shown, login: hasLogin ? "kept" : "none" };
}

function addressOfEndpoint(endpoint: unknown): string {
  if (typeof endpoint === "string") return endpoint;
  return isJsonObject(endpoint) && typeof endpoint.url === "string" ? endpoint.url : "";
}

/** Parses tags. Throws a FieldError. */
function tagsOf(text: string): Document | undefined {
  const parts = partsOf(text);
  if (parts.length === 0) return undefined;
  const pairs = parts.map((part) => {
    const [, name = "", value = ""] = /^([^:]+):(.+)$/s.exec(part) ?? [];
    if (name === "") throw new FieldError("tags", `Expected tags as name:value, but found ${part}`);
    return [name.trim(), value.trim()] as const;
  });
  const twice = pairs.find(([name], index) => pairs.findIndex(([other]) => other === name) < index);
  if (twice !== undefined) throw new FieldError("tags", `Duplicate tag ${twice[0]}`);
  return objectOf(pairs);
}

function partsOf(text: string): readonly string[] {
  return trimmed(text.split(","));
}

/** Returns the lines of a text that are not empty. */
export function linesOf(text: string): readonly string[] {
  return trimmed(text.split("\n"));
}

function trimmed(parts: readonly string[]): readonly string[] {
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

function selectedText(kind: SelectionKind, value: unknown): string {
  if (kind === "doc_ids" && isTexts(value) && value.every((id) => /^(?!\s*\[)[^\r\n]+$/.test(id))) {
    return value.join("\n");
  }
  return typeof value === "string" ? value : visibleJson(value);
}

/** Parses a list of ids: one id per line, or JSON if an id contains line breaks or is empty. */
function idsOf(text: string): readonly string[] {
  if (text.trimStart().startsWith("[")) {
    try {
      const ids = parseJson(text);
      if (isTexts(ids)) return ids;
    } catch {
      // The text is not JSON but one id per line, and the first id begins with a bracket.
    }
  }
  return text.split("\n").filter((line) => line !== "");
}

function filterOf(text: string): string {
  const name = text.trim();
  if (/^(_|[^/]+\/)./.test(name)) return name;
  throw new FieldError("filter", "Expected the name of a filter function, such as design/filter");
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((element) => typeof element === "string");
}

function parsed(name: string, text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    throw new FieldError(name, "Invalid JSON");
  }
}

function sequenceText(sequence: unknown): string {
  if (sequence === undefined) return "";
  return typeof sequence === "string" ? sequence : printJson(sequence);
}

/**
 * Parses a sequence, which is a number, string or list, depending on the source. Throws a
 * FieldError.
 */
export function sequenceOf(text: string): unknown {
  const typed = text.trim();
  return /^(\[|(0|[1-9]\d*)$)/.test(typed) ? parsed("since_seq", typed) : typed;
}

function optionValue(option: Option, text: string): unknown {
  if (option.kind === "boolean") return text === "true";
  if (option.kind === "choice") return text;
  return integer(option, text);
}

function bytesMaxText(value: unknown): string {
  return isJsonObject(value) && value.max_bytes !== undefined ? String(value.max_bytes) : "";
}

function integer(
  { name, min, max }: { readonly name: string; readonly min: number; readonly max?: number },
  text: string,
): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min && value <= (max ?? value)) return value;
  const range = max === undefined ? `${min} or more` : `${min} to ${max}`;
  throw new FieldError(name, `Expected ${range}`);
}
