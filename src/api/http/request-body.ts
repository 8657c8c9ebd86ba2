/** Request bodies: text that is checked, but never parsed and printed again. */
import {
  JsonLimitError,
  type JsonText,
  type JsonValue,
  outlineJson,
  outlineJsonInTurns,
  parseInTurns,
  parseJson,
  Utf8Writer,
  utf8Decode,
} from "../../base/index.ts";
import { BODY_BYTES_MAX as DOCUMENT_BYTES_MAX } from "../../databases/index.ts";
import {
  badRequest,
  ProtocolError,
  parseMediaType,
  type WireDocument,
  wireDocumentOf,
} from "../../protocol/index.ts";
import { OverloadedError } from "./admission.ts";
import type { Call } from "./call.ts";

/** Of a body that is held whole, and some of it parsed, which may take many times its size. Streams have no limit. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Of a body that says what is asked for: a selector, keys, revisions. It is taken apart as a whole. Documents are not bound by them.
 * `docs/api/README.md` has these numbers.
 */
const QUESTION_BYTES_MAX = 8 * 1024 * 1024;
const QUESTION_VALUES_MAX = 100_000;
const LONG_BYTES = 65_536;
/** Brackets around one value. Much of what reads JSON, here and elsewhere, goes one call deeper for each of them. */
const QUESTION_NESTING_MAX = 1_000;
const DOCUMENT_NESTING_MAX = 10_000;
/**
 * A value and the comma behind it have two bytes: the body of a document that has more is too large for the store, and need not be looked
 * through to its end. What a document says of its attachments has some, too.
 */
const DOCUMENT_VALUES_MAX = DOCUMENT_BYTES_MAX / 2 + 1_000_000;

/**
 * Values of a body that are kept as rows of 20 bytes: documents of a list and their members. 64 MiB of `{},{},…` would have 22 million,
 * and take gigabytes before the number of documents is known.
 */
const ROWS_MAX = 2_000_000;

/** What a body holds: documents in a list, one document, or what is asked for. */
export type BodyContent = "documents" | "document" | "question";

/** "any" for documents that come from elsewhere: what one server has stored, another has to take. */
export type MemberNames = "unique" | "any";

/**
 * The body of a question, as JSON. Throws a ProtocolError when it is not JSON, or when an object has two members of one name.
 */
export async function readJsonBody(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<JsonText> {
  return checkQuestion(call, await readBody(call, "question", byteCountMax), "unique");
}

/** A document in the body. Throws a ProtocolError when it is none, or as `readJsonBody`. */
export async function readDocumentBody(
  call: Call,
  memberNames: MemberNames,
): Promise<WireDocument> {
  return readLongDocument(call, await readBody(call, "document"), memberNames);
}

/** The same, of bytes that may be many, with turns for other requests. */
export async function readLongDocument(
  call: Call,
  bytes: Uint8Array,
  memberNames: MemberNames,
): Promise<WireDocument> {
  return wireDocumentOf(
    await checkedOutline(call, bytes, { depthMax: 1, content: "document", memberNames }),
  );
}

/** Throws a ProtocolError when an object of a body has two members of one name. */
export function refuseRepeatedNames({ repeatedName }: JsonValue): void {
  if (repeatedName !== undefined) throw repeatedMember(repeatedName);
}

function repeatedMember(name: string): ProtocolError {
  return badRequest(`The member "${name}" stands twice in one object`);
}

/** The body's bytes, which may come compressed. */
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
    // What is unpacked is bounded, so that a small body cannot fill the memory.
    return await readBytes(call, gunzip(body), byteCountMax);
  } catch (error) {
    if (error instanceof ProtocolError || error instanceof OverloadedError) throw error;
    call.request.signal.throwIfAborted();
    throw new ProtocolError(400, "bad_request", "Request body is not properly gzipped.", {
      cause: error,
    });
  }
}

/** The members of a body that has to be a JSON object, by name. No object in it may have two of one name. */
export async function readJsonMembers(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<ReadonlyMap<string, JsonText>> {
  const body = await readJsonRows(call, byteCountMax);
  return new Map(body.members().map(({ name, value }) => [name, value]));
}

/** The same, parsed. Long values take several turns. */
export async function readMembers(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<ReadonlyMap<string, unknown>> {
  return parsedMembers(call, await readJsonMembers(call, byteCountMax));
}

/** The same, with every number in its form. */
export async function readExactMembers(call: Call): Promise<ReadonlyMap<string, unknown>> {
  return parsedMembers(call, await readJsonMembers(call), parseJson);
}

export async function parsedMembers(
  { turns }: Call,
  texts: ReadonlyMap<string, JsonText>,
  parse: (text: JsonText) => unknown = JSON.parse,
): Promise<ReadonlyMap<string, unknown>> {
  const members = new Map<string, unknown>();
  for (const [name, text] of texts) members.set(name, await parseInTurns(text, turns, parse));
  return members;
}

/** The one member that the body of a command may have; undefined without it, and without a body. Throws a ProtocolError 400. */
export async function readOnlyMember(call: Call, name: string): Promise<unknown> {
  const bytes = await readBody(call, "question");
  if (bytes.length === 0) return undefined;
  const body: unknown = JSON.parse(await checkQuestion(call, bytes, "unique"));
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw badRequest("Request body must be a JSON object");
  }
  const unknown = Object.keys(body).find((member) => member !== name);
  if (unknown !== undefined) throw badRequest(`\`${unknown}\` is not known`);
  return (body as Readonly<Record<string, unknown>>)[name];
}

/** A body that is a JSON object, to be cut to pieces that `depthMax` brackets enclose. Names that it has twice are the caller's to refuse. */
export async function readJsonObject(
  call: Call,
  depthMax: number,
  content: BodyContent,
  questionBytesMax = QUESTION_BYTES_MAX,
): Promise<JsonValue> {
  requireJsonType(call);
  return outlineObject(call, await readBody(call, content, questionBytesMax), depthMax, content);
}

/** The members of an object by name. Throws a ProtocolError when it has two of one name. */
export function membersByName(object: JsonValue): ReadonlyMap<string, JsonValue> {
  const members = new Map<string, JsonValue>();
  for (const { name, value } of object.eachValue()) {
    if (members.has(name)) throw repeatedMember(name);
    members.set(name, value);
  }
  return members;
}

/** A question that is a JSON object of many members, to be taken one by one. No object in it has two of one name. */
export async function readJsonRows(
  call: Call,
  byteCountMax = QUESTION_BYTES_MAX,
): Promise<JsonValue> {
  const body = await readJsonObject(call, 1, "question", byteCountMax);
  refuseRepeatedNames(body);
  return body;
}

/** The same, of bytes that were read. */
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

/** CouchDB's check on most POST requests. */
export function requireJsonType(call: Call): void {
  const header = call.request.headers.get("content-type");
  if (header !== undefined && parseMediaType(header).type === "application/json") return;
  throw new ProtocolError(415, "bad_content_type", "Content-Type must be application/json");
}

/** The text of a short part as it came, with the space around it. Throws as `readJsonBody`. */
export function checkJson(bytes: Uint8Array, memberNames: MemberNames = "any"): JsonText {
  const look = {
    depthMax: 0,
    content: "documents",
    findsRepeats: memberNames === "unique",
  } as const;
  refuseRepeatedNames(asJson(() => outlineJson(bytes, scanOptions(look))));
  return utf8Decode(bytes);
}

/** As `checkJson`, of the body of a question, with turns for other requests. */
export async function checkQuestion(
  call: Call,
  bytes: Uint8Array,
  memberNames: MemberNames = "any",
): Promise<JsonText> {
  await checkedOutline(call, bytes, { depthMax: 0, content: "question", memberNames });
  // Whoever parses a long one does it at once.
  if (bytes.length > LONG_BYTES && call.turns.areDue) await call.turns.give();
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

/** What a body is looked through for. */
interface Look {
  /** It is to be cut to pieces that so many brackets enclose. */
  readonly depthMax: number;
  readonly content: BodyContent;
  readonly findsRepeats: boolean;
}

async function outlineBody({ turns }: Call, bytes: Uint8Array, look: Look): Promise<JsonValue> {
  try {
    return await outlineJsonInTurns(bytes, scanOptions(look), turns);
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

/** Half of a character is refused: CouchDB takes no such text, nor could it be sent on to one. */
function scanOptions({ depthMax, content, findsRepeats }: Look) {
  const options = { depthMax, findsRepeats, isPortable: true };
  if (content === "question") {
    return { ...options, nestingMax: QUESTION_NESTING_MAX, valueCountMax: QUESTION_VALUES_MAX };
  }
  const nested = { ...options, nestingMax: DOCUMENT_NESTING_MAX, rowCountMax: ROWS_MAX };
  return content === "documents" ? nested : { ...nested, valueCountMax: DOCUMENT_VALUES_MAX };
}

function jsonFault(error: unknown): unknown {
  // Memory that cannot be had is not the sender's mistake.
  if (error instanceof RangeError) return error;
  if (error instanceof JsonLimitError) {
    return error.limit === "nesting"
      ? badRequest("The JSON is nested too deeply")
      : new ProtocolError(413, "too_large", error.message);
  }
  return new ProtocolError(400, "bad_request", "invalid UTF-8 JSON", { cause: error });
}

/** Who has sent so much is believed that the rest will come. */
const BELIEVED_BYTES = 1_048_576;

/**
 * Reads all bytes of a stream, which announced as many. Throws a ProtocolError 413 when there are more than `byteCountMax`, and an
 * OverloadedError when all requests together hold too many.
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
    // Copied as it comes: to join tens of megabytes at the end would hold all others up.
    bytes.bytes(chunk);
  }
  return bytes.finish();
}
