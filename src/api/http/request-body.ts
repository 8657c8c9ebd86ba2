/**
 * Request bodies: the text of documents is validated and stored unchanged, never parsed and
 * re-serialized.
 */
import {
  JsonLimitError,
  type JsonText,
  type JsonValue,
  outlineJson,
  outlineJsonYielding,
  parseJson,
  parseYielding,
  Utf8Writer,
  utf8Decode,
} from "../../base/index.ts";
import { BODY_BYTES_MAX as DOCUMENT_BYTES_MAX } from "../../databases/index.ts";
import {
  badRequest,
  DOCUMENT_NESTING_MAX,
  ProtocolError,
  parseMediaType,
  type WireDocument,
  wireDocumentOf,
} from "../../protocol/index.ts";
import { OverloadedError } from "./admission.ts";
import type { Call } from "./call.ts";

/**
 * Maximum size of a buffered body. Parsing its parts can take many times as much memory. Streams
 * have no limit.
 */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Limits for query bodies, such as selectors, keys and revisions, which are parsed as a whole.
 * Documents are not subject to these limits. `docs/api/README.md` lists the values.
 */
const QUESTION_BYTES_MAX = 8 * 1024 * 1024;
const QUESTION_VALUES_MAX = 100_000;
const LONG_BYTES = 65_536;
/** Maximum nesting of bodies that are not documents. */
const QUESTION_NESTING_MAX = 1_000;
/**
 * Maximum number of JSON values in a document. A value and its comma take at least two bytes, so a
 * document with more values exceeds the store's limit and need not be scanned to its end. Includes
 * a margin for attachment metadata.
 */
const DOCUMENT_VALUES_MAX = DOCUMENT_BYTES_MAX / 2 + 1_000_000;

/**
 * Maximum number of values (documents in a list, and their members) that a scan accepts. The scan
 * keeps 20 bytes per value. Without a limit, 64 MiB of `{},{},…` (22 million values) would take
 * gigabytes before the number of documents is known.
 */
const ROWS_MAX = 2_000_000;

/** Kind of content of a body: documents in a list, one document, or a query. */
export type BodyContent = "documents" | "document" | "question";

/**
 * Whether duplicate member names in an object are rejected (`unique`). They are accepted (`any`) in
 * replicated documents, because a document stored by one server must be accepted by every other.
 */
export type MemberNames = "unique" | "any";

/**
 * The body of a request that contains no documents, as JSON. Throws a ProtocolError if the body is
 * not JSON, or if an object has duplicate member names.
 */
export async function readJsonBody(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<JsonText> {
  return checkQuestion(call, await readBody(call, "question", byteCountMax), "unique");
}

/**
 * Returns the document in the body. Throws a ProtocolError if the body is not JSON, or not a valid
 * document.
 */
export async function readDocumentBody(
  call: Call,
  memberNames: MemberNames,
): Promise<WireDocument> {
  return readLongDocument(call, await readBody(call, "document"), memberNames);
}

/**
 * Parses a document, which can be long, from the bytes of a body. Yields to the event loop. Throws
 * like `readDocumentBody`.
 */
export async function readLongDocument(
  call: Call,
  bytes: Uint8Array,
  memberNames: MemberNames,
): Promise<WireDocument> {
  return wireDocumentOf(
    await checkedOutline(call, bytes, { depthMax: 1, content: "document", memberNames }),
  );
}

/** Throws a ProtocolError if an object in a body has duplicate member names. */
export function refuseRepeatedNames({ repeatedName }: JsonValue): void {
  if (repeatedName !== undefined) throw repeatedMember(repeatedName);
}

function repeatedMember(name: string): ProtocolError {
  return badRequest(`Duplicate member "${name}" in one object`);
}

/** The bytes of the body, decompressed if necessary. */
export async function readBody(
  call: Call,
  content: BodyContent,
  questionBytesMax = QUESTION_BYTES_MAX,
): Promise<Uint8Array> {
  const { headers, body } = call.request;
  const { gunzip } = call.bodies;
  const byteCountMax =
    content === "question"
      ? Math.min(call.bodies.byteCountMax, questionBytesMax)
      : call.bodies.byteCountMax;
  const encoding = (headers.get("content-encoding") ?? "identity").toLowerCase();
  if (encoding === "identity") {
    const announced = Number(headers.get("content-length") ?? 0);
    const believed = announced <= byteCountMax ? announced : 0;
    return readBytes(call, body, byteCountMax, believed);
  }
  if (encoding !== "gzip") {
    const reason = `${encoding} is not a supported content encoding.`;
    throw new ProtocolError(415, "bad_content_type", reason);
  }
  try {
    // Decompression is bounded, so that a small body cannot exhaust the memory.
    return await readBytes(call, gunzip(body), byteCountMax);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof OverloadedError) throw error;
    call.request.signal.throwIfAborted();
    throw new ProtocolError(400, "bad_request", "Request body is not properly gzipped.", {
      cause: error,
    });
  }
}

/**
 * The members of a body that must be a JSON object, by name. Objects in it must not have duplicate
 * member names.
 */
export async function readJsonMembers(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<ReadonlyMap<string, JsonText>> {
  const body = await readJsonRows(call, byteCountMax);
  return new Map(body.members().map(({ name, value }) => [name, value]));
}

/**
 * Like `readJsonMembers`, but parses the values. Long values are parsed in pieces, yielding to the
 * event loop in between.
 */
export async function readMembers(call: Call): Promise<ReadonlyMap<string, unknown>> {
  return parsedMembers(call, await readJsonMembers(call));
}

/** Like `readMembers`, but keeps numbers in their original form. */
export async function readExactMembers(call: Call): Promise<ReadonlyMap<string, unknown>> {
  return parsedMembers(call, await readJsonMembers(call), parseJson);
}

export async function parsedMembers(
  { yielder }: Call,
  texts: ReadonlyMap<string, JsonText>,
  parse: (text: JsonText) => unknown = JSON.parse,
): Promise<ReadonlyMap<string, unknown>> {
  const members = new Map<string, unknown>();
  for (const [name, text] of texts) members.set(name, await parseYielding(text, yielder, parse));
  return members;
}

/**
 * The value of the only member that the body of a command is allowed to have; undefined if the
 * member or the body is missing. Throws a ProtocolError 400.
 */
export async function readOnlyMember(call: Call, name: string): Promise<unknown> {
  const bytes = await readBody(call, "question");
  if (bytes.length === 0) return undefined;
  const body: unknown = JSON.parse(await checkQuestion(call, bytes, "unique"));
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw badRequest("Request body must be a JSON object");
  }
  refuseUnknownNames(Object.keys(body), [name]);
  return (body as Readonly<Record<string, unknown>>)[name];
}

/** Throws a ProtocolError 400 for the first name that is not known. */
export function refuseUnknownNames(names: Iterable<string>, known: readonly string[]): void {
  for (const name of names) {
    if (!known.includes(name)) throw badRequest(`\`${name}\` is not known`);
  }
}

/**
 * A body that is a JSON object, scanned to nesting level `depthMax`. The caller must reject
 * duplicate names.
 */
export async function readJsonObject(
  call: Call,
  depthMax: number,
  content: BodyContent,
  questionBytesMax = QUESTION_BYTES_MAX,
): Promise<JsonValue> {
  requireJsonType(call);
  return outlineObject(call, await readBody(call, content, questionBytesMax), depthMax, content);
}

/** The members of an object by name. Throws a ProtocolError for duplicate names. */
export function membersByName(object: JsonValue): ReadonlyMap<string, JsonValue> {
  const members = new Map<string, JsonValue>();
  for (const { name, value } of object.eachValue()) {
    if (members.has(name)) throw repeatedMember(name);
    members.set(name, value);
  }
  return members;
}

/**
 * Returns a request body that is a JSON object with many members, which the caller parses one by
 * one. Throws a ProtocolError for duplicate member names.
 */
export async function readJsonRows(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<JsonValue> {
  const body = await readJsonObject(call, 1, "question", byteCountMax);
  refuseRepeatedNames(body);
  return body;
}

/** Like `readJsonRows`, for bytes already read. */
export async function outlineObject(
  call: Call,
  bytes: Uint8Array,
  depthMax: number,
  content: BodyContent,
): Promise<JsonValue> {
  const body = await outlineBody(call, bytes, { depthMax, content, findsRepeats: true });
  if (!body.isObject) throw badRequest("Request body must be a JSON object");
  return body;
}

/** Checks the content type, as CouchDB does for most POST requests. */
export function requireJsonType(call: Call): void {
  const header = call.request.headers.get("content-type");
  if (header !== undefined && parseMediaType(header).type === "application/json") return;
  throw new ProtocolError(415, "bad_content_type", "Content-Type must be application/json");
}

/**
 * Checks `bytes`, a short section of the body, and returns them as JSON text, including surrounding
 * white space. Throws like `readJsonBody`.
 */
export function checkJson(bytes: Uint8Array, memberNames: MemberNames = "any"): JsonText {
  const look = {
    depthMax: 0,
    content: "documents",
    findsRepeats: memberNames === "unique",
  } as const;
  refuseRepeatedNames(asJson(() => outlineJson(bytes, scanOptions(look))));
  return utf8Decode(bytes);
}

/** Like `checkJson`, but for a body that contains no documents. Yields to the event loop. */
export async function checkQuestion(
  call: Call,
  bytes: Uint8Array,
  memberNames: MemberNames = "any",
): Promise<JsonText> {
  await checkedOutline(call, bytes, { depthMax: 0, content: "question", memberNames });
  // Yields to the event loop first, because the caller then parses the text in one step. The length
  // of the text is limited.
  if (bytes.length > LONG_BYTES && call.yielder.isDue) await call.yielder.yield();
  return utf8Decode(bytes);
}

async function checkedOutline(
  call: Call,
  bytes: Uint8Array,
  { memberNames, ...look }: Omit<Look, "findsRepeats"> & { readonly memberNames: MemberNames },
): Promise<JsonValue> {
  const value = await outlineBody(call, bytes, { ...look, findsRepeats: memberNames === "unique" });
  refuseRepeatedNames(value);
  return value;
}

/** Options for scanning a body. */
interface Look {
  /** Nesting level down to which the caller extracts values. */
  readonly depthMax: number;
  readonly content: BodyContent;
  readonly findsRepeats: boolean;
}

async function outlineBody({ yielder }: Call, bytes: Uint8Array, look: Look): Promise<JsonValue> {
  try {
    return await outlineJsonYielding(bytes, scanOptions(look), yielder);
  } catch (error) {
    throw jsonFault(error);
  }
}

function asJson(outline: () => JsonValue): JsonValue {
  try {
    return outline();
  } catch (error) {
    throw jsonFault(error);
  }
}

/**
 * Returns the options for a scan. Unpaired surrogates are rejected: CouchDB does not accept them,
 * so the document could not be replicated to CouchDB.
 */
function scanOptions({ depthMax, content, findsRepeats }: Look) {
  const options = { depthMax, findsRepeats, isPortable: true };
  if (content === "question") {
    return { ...options, nestingMax: QUESTION_NESTING_MAX, valueCountMax: QUESTION_VALUES_MAX };
  }
  const nested = { ...options, nestingMax: DOCUMENT_NESTING_MAX, rowCountMax: ROWS_MAX };
  return content === "documents" ? nested : { ...nested, valueCountMax: DOCUMENT_VALUES_MAX };
}

function jsonFault(error: unknown): unknown {
  // Failure to allocate memory is not an error of the client.
  if (error instanceof RangeError) return error;
  if (error instanceof JsonLimitError) {
    return error.limit === "nesting"
      ? badRequest("The JSON is nested too deeply")
      : new ProtocolError(413, "too_large", error.message);
  }
  return new ProtocolError(400, "bad_request", "invalid UTF-8 JSON", { cause: error });
}

/** Number of bytes that must arrive before a buffer of the announced length is allocated. */
const BELIEVED_BYTES = 1_048_576;

/**
 * Reads a stream completely. Throws a ProtocolError 413 if it is longer than `byteCountMax`, and an
 * OverloadedError if the memory budget for bodies is exhausted.
 */
export async function readBytes(
  { bodies: { allowance }, request: { signal } }: Pick<Call, "bodies" | "request">,
  chunks: AsyncIterable<Uint8Array>,
  byteCountMax = BODY_BYTES_MAX,
  byteCountAnnounced = 0,
): Promise<Uint8Array> {
  const bytes = new Utf8Writer(0);
  let isBelieved = false;
  for await (const chunk of chunks) {
    if (bytes.length + chunk.length > byteCountMax) {
      throw new ProtocolError(413, "too_large", "the request entity is too large");
    }
    await allowance.hold(bytes.length + chunk.length, signal);
    if (!isBelieved && bytes.length > BELIEVED_BYTES) {
      isBelieved = true;
      bytes.expect(byteCountAnnounced);
    }
    // Copied incrementally, because joining tens of megabytes at the end would block the event
    // loop.
    bytes.bytes(chunk);
  }
  return bytes.finish();
}
