/** From the fields of the form to the document of a replication, and back. Pure. */
import { MASK, masked } from "./masked.ts";
import { REPLICATION_OPTIONS, type ReplicationOption } from "./replication-options.ts";
import { type ScheduleKind, scheduleKindOf } from "./schedules.ts";

export const LOGINS = ["none", "kept", "basic", "bearer", "iam"] as const;
export type Login = (typeof LOGINS)[number];

/** The fields of one side. */
export interface EndpointFields {
  /** An address, or the name of a database of the server. */
  readonly address: string;
  readonly login: Login;
  readonly username: string;
  /** A password, a token or a key, by `login`. */
  readonly secret: string;
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
  /** Ids on lines; JSON of a selector; or the name of a filter function. */
  readonly selected: string;
  /** JSON; of a filter function. */
  readonly queryParameters: string;
  readonly winningRevisionsOnly: boolean;
  readonly skipsDeleted: boolean;
  /** As they were typed; an empty text is no limit. */
  readonly documentBytesMax: string;
  readonly attachmentBytesMax: string;
  readonly sinceSequence: string;
  readonly scheduleKind: ScheduleKind;
  readonly schedule: string;
  /** As they were typed, by name; an empty text is the default. */
  readonly options: Readonly<Record<string, string>>;
}

const NO_ENDPOINT: EndpointFields = { address: "", login: "none", username: "", secret: "" };

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
  options: {},
};

type Document = Readonly<Record<string, unknown>>;

/** A field that cannot be what was typed. */
export class FieldError extends Error {
  override readonly name = "FieldError";
}

/**
 * The document that the fields say. `original` is the one that is edited or cloned: its members that the form does not know stay, and
 * so do its credentials where the login is `kept`. Throws a FieldError.
 */
export function documentOf(fields: FormFields, original: Document = {}): Document {
  const { selection, selected } = fields;
  const options = REPLICATION_OPTIONS.flatMap((option) => {
    const text = fields.options[option.name]?.trim() ?? "";
    return text === "" ? [] : [[option.name, optionValue(option, text)] as const];
  });
  return {
    ...otherMembers(original),
    source: endpointOf("source", fields.source, original.source),
    target: endpointOf("target", fields.target, original.target),
    ...(fields.continuous ? { continuous: true } : {}),
    ...(fields.createTarget ? { create_target: true } : {}),
    ...(selection === "doc_ids" ? { doc_ids: lines(selected) } : {}),
    ...(selection === "selector" ? { selector: parsed("Selector", selected) } : {}),
    ...(selection === "filter" ? { filter: selected.trim() } : {}),
    ...(selection === "filter" && fields.queryParameters.trim() !== ""
      ? { query_params: parsed("Parameters of the filter", fields.queryParameters) }
      : {}),
    ...(fields.winningRevisionsOnly ? { winning_revs_only: true } : {}),
    ...(fields.skipsDeleted ? { deleted: "skip" } : {}),
    ...bytesMaxMember("documents", fields.documentBytesMax),
    ...bytesMaxMember("attachments", fields.attachmentBytesMax),
    ...(fields.sinceSequence.trim() === "" ? {} : { since_seq: sequenceOf(fields.sinceSequence) }),
    ...(fields.scheduleKind === "none" ? {} : { schedule: fields.schedule.trim() }),
    ...Object.fromEntries(options),
  };
}

/**
 * The document as far as it can be checked: as `documentOf`, and otherwise the sides that have all they need. Undefined while neither
 * has.
 */
export function draftOf(fields: FormFields, original: Document = {}): Document | undefined {
  const named = fields.id.trim() === "" ? {} : { _id: fields.id.trim() };
  try {
    return { ...documentOf(fields, original), ...named };
  } catch (fault) {
    if (!(fault instanceof FieldError)) throw fault;
  }
  const sides = (["source", "target"] as const).flatMap((side) => {
    try {
      return [[side, endpointOf(side, fields[side], original[side])] as const];
    } catch (fault) {
      if (fault instanceof FieldError) return [];
      throw fault;
    }
  });
  if (sides.length === 0) return undefined;
  const target = fields.createTarget ? { create_target: true } : {};
  return { ...otherMembers(original), ...Object.fromEntries(sides), ...target, ...named };
}

/** The fields that make the document. */
export function fieldsOf(document: Document, database: string, id: string): FormFields {
  const { schedule } = document;
  const selection = SELECTIONS.find((kind) => kind !== "all" && document[kind] !== undefined);
  const option = ({ name }: ReplicationOption) =>
    document[name] === undefined ? [] : [[name, String(document[name])] as const];
  return {
    database,
    id,
    source: endpointFields(document.source),
    target: endpointFields(document.target),
    continuous: document.continuous === true,
    createTarget: document.create_target === true,
    selection: selection ?? "all",
    selected: selection === undefined ? "" : selectedText(selection, document[selection]),
    queryParameters:
      document.query_params === undefined ? "" : JSON.stringify(document.query_params, null, 2),
    winningRevisionsOnly: document.winning_revs_only === true,
    skipsDeleted: document.deleted === "skip",
    documentBytesMax: bytesMaxText(document.documents),
    attachmentBytesMax: bytesMaxText(document.attachments),
    sinceSequence: document.since_seq === undefined ? "" : String(document.since_seq),
    scheduleKind: typeof schedule === "string" ? scheduleKindOf(schedule) : "none",
    schedule: typeof schedule === "string" ? schedule : "",
    options: Object.fromEntries(REPLICATION_OPTIONS.flatMap(option)),
  };
}

/** The command that sends the document, without its secrets. */
export function curlCommand(address: string, document: Document): string {
  const body = JSON.stringify(masked(document), null, 2);
  return [
    `curl -X PUT ${quoted(address)}`,
    "  -H 'Content-Type: application/json'",
    `  -d ${quoted(body)}`,
  ].join(" \\\n");
}

/** For a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const KNOWN_MEMBERS = new Set([
  "source",
  "target",
  "continuous",
  "create_target",
  "doc_ids",
  "selector",
  "filter",
  "query_params",
  "winning_revs_only",
  "deleted",
  "documents",
  "attachments",
  "since_seq",
  "schedule",
  ...REPLICATION_OPTIONS.map(({ name }) => name),
]);

function otherMembers(original: Document): Document {
  return Object.fromEntries(Object.entries(original).filter(([name]) => !KNOWN_MEMBERS.has(name)));
}

function endpointOf(side: string, fields: EndpointFields, original: unknown): unknown {
  const { login, username, secret } = fields;
  const address = fields.address.trim();
  if (address === "") throw new FieldError(`The ${side} has no address`);
  if (login === "kept") return keptEndpoint(address, original);
  if (login === "none") return address;
  if (secret === "") throw new FieldError(`The ${side} has no password, token or key`);
  if (login === "basic") return { url: address, auth: { basic: { username, password: secret } } };
  if (login === "bearer") return { url: address, auth: { bearer: { token: secret } } };
  return { url: address, auth: { iam: { api_key: secret } } };
}

/** The endpoint as it was, with another address if that was changed. */
function keptEndpoint(address: string, original: unknown): unknown {
  const isUnchanged = address === masked(addressOfEndpoint(original));
  if (isUnchanged) return original;
  if (address.includes(MASK)) {
    throw new FieldError("An address that is changed needs its password again");
  }
  return isObject(original) ? { ...original, url: address } : address;
}

function endpointFields(endpoint: unknown): EndpointFields {
  const address = addressOfEndpoint(endpoint);
  const hasMore = isObject(endpoint) && Object.keys(endpoint).length > 1;
  const shown = String(masked(address));
  return { ...NO_ENDPOINT, address: shown, login: hasMore || shown !== address ? "kept" : "none" };
}

function addressOfEndpoint(endpoint: unknown): string {
  if (typeof endpoint === "string") return endpoint;
  return isObject(endpoint) && typeof endpoint.url === "string" ? endpoint.url : "";
}

function isObject(value: unknown): value is Document {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function selectedText(kind: SelectionKind, value: unknown): string {
  if (kind === "doc_ids" && Array.isArray(value)) return value.join("\n");
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function lines(text: string): string[] {
  return text.split("\n").filter((line) => line !== "");
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new FieldError(`${name}: this is no JSON`);
  }
}

/** Sequences are numbers or texts, by their source. */
export function sequenceOf(text: string): unknown {
  return /^\d+$/.test(text.trim()) ? Number(text) : text.trim();
}

function optionValue(option: ReplicationOption, text: string): unknown {
  if (option.kind === "boolean") return text === "true";
  if (option.kind === "choice") return text;
  return integer(option, text);
}

/** Revisions with more bytes stay behind. */
function bytesMaxMember(name: "documents" | "attachments", text: string): Document {
  if (text.trim() === "") return {};
  return { [name]: { max_bytes: integer({ name: `${name}.max_bytes`, min: 0 }, text) } };
}

function bytesMaxText(value: unknown): string {
  return isObject(value) && value.max_bytes !== undefined ? String(value.max_bytes) : "";
}

function integer(
  { name, min, max }: { readonly name: string; readonly min: number; readonly max?: number },
  text: string,
): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= min && value <= (max ?? value)) return value;
  const range = max === undefined ? `${min} or more` : `${min} to ${max}`;
  throw new FieldError(`${name}: expected ${range}`);
}
