/**
 * The response to `GET /db/doc?open_revs=[…]`, in every form that servers use: a JSON array, or
 * multipart/mixed. Each part of multipart/mixed is a document, or is multipart/related and contains
 * a document followed by its attachments.
 */
import {
  type Compression,
  type JsonValue,
  joinObject,
  type OperationalError,
  parseJson,
  printJson,
  type ScanOptions,
  splitObject,
  utf8Encode,
} from "../../../base/index.ts";
import { CONTENT_TYPE_DEFAULT } from "../../../documents/index.ts";
import {
  decodedBody,
  EncodingDamagedError,
  EncodingUnsupportedError,
  type FetchResponse,
  readBytes,
} from "../../../http-client/index.ts";
import {
  DOCUMENT_NESTING_MAX,
  type MultipartParser,
  type MultipartPart,
  ProtocolError,
  parseMediaType,
  type WireAttachment,
  type WireDocument,
  wireDocumentOf,
} from "../../../protocol/index.ts";
import { type AttachmentStream, InvalidDocumentError, type StreamedDocument } from "../endpoint.ts";
import { DOCUMENT_ANSWER } from "./answer-budget.ts";
import { isTooMuch } from "./json-answer.ts";
import { historyFault } from "./received-history.ts";

/**
 * Maximum number of a document's members. Each member takes memory while the document is parsed.
 */
const MEMBERS_MAX = 1_000_000;
/** Nesting level of the members of a document that is sent alone. */
const DOCUMENT_DEPTH = 1;
/** Nesting level of the members of a document in an array of results. */
const RESULTS_DEPTH = 3;

export interface OpenRevisionsAnswer {
  readonly response: FetchResponse;
  readonly parseMultipart: MultipartParser;
  readonly compression: Compression;
  readonly outline: OutlineDocument;
  /** Requests the stored bytes of an attachment that the response does not include. */
  readAttachment(revision: string, attachment: WireAttachment): AsyncIterable<Uint8Array>;
}

/** Scans a document. Throws like `outlineJson`. */
export type OutlineDocument = (
  bytes: Uint8Array,
  limits: Partial<ScanOptions>,
) => Promise<JsonValue>;

/**
 * Passes each document of the response to `consume`. Returns false if the response has no
 * documents.
 */
export async function readOpenRevisions(
  answer: OpenRevisionsAnswer,
  consume: (document: StreamedDocument) => Promise<void>,
): Promise<boolean> {
  const { response, parseMultipart, outline } = answer;
  const { type, parameters } = parseMediaType(response.headers.get("content-type") ?? "");
  if (type !== "multipart/mixed") {
    return readArray(answer, await readJson(response, RESULTS_DEPTH, outline), consume);
  }
  let found = false;
  for await (const part of parseMultipart(response.body, boundaryOf(parameters))) {
    const partType = parseMediaType(part.headers.get("content-type") ?? "application/json");
    if (partType.type === "multipart/related") {
      const body = plainBody(answer, part);
      await consumeRelated(answer, parseMultipart(body, boundaryOf(partType.parameters)), consume);
      found = true;
      continue;
    }
    if (partType.parameters.has("error")) {
      await drain(part.body);
      continue;
    }
    const document = await readDocument({ body: plainBody(answer, part) }, outline);
    // The response contains all attachments that the target lacks, so the stubs in this document
    // stand for attachments that the target has.
    await consume(withoutAttachments(document));
    found = true;
  }
  return found;
}

async function readArray(
  answer: OpenRevisionsAnswer,
  results: JsonValue,
  consume: (document: StreamedDocument) => Promise<void>,
): Promise<boolean> {
  if (!results.isArray) throw new ProtocolError(400, "bad_request", "Not an array");
  let found = false;
  for (const item of results.elements()) {
    const document = item.member("ok");
    if (document === undefined) continue;
    await consume(streamed(answer, await withoutVersionVector(document, answer.outline)));
    found = true;
  }
  return found;
}

/** Reads the document first, then the attachments that follow, in the order of `_attachments`. */
async function consumeRelated(
  answer: OpenRevisionsAnswer,
  parts: AsyncIterable<MultipartPart>,
  consume: (document: StreamedDocument) => Promise<void>,
): Promise<void> {
  const iterator = parts[Symbol.asyncIterator]();
  const first = await iterator.next();
  if (first.done === true) throw new ProtocolError(400, "bad_request", "The document is missing");
  const body = plainBody(answer, first.value);
  const document = await readDocument({ body }, answer.outline);
  const { id, attachments } = parseDocument(document);
  const following = attachments.filter(({ content }) => content.kind === "follows");
  const described = following.map(describe);
  await consume({
    id: idOf(id),
    text: document.text,
    hasStubs: following.length < attachments.length,
    outline: described,
    attachments: followingParts(answer, iterator, following),
  });
  for (let rest = await iterator.next(); rest.done !== true; rest = await iterator.next()) {
    await drain(rest.value.body);
  }
}

/** Yields the bytes of a part, decoding its Content-Encoding. */
async function* plainBody(
  { compression }: OpenRevisionsAnswer,
  { headers, body }: MultipartPart,
): AsyncIterable<Uint8Array> {
  try {
    yield* decodedBody(compression, headers.get("content-encoding"), body);
  } catch (error) {
    const { reason } = (error as Partial<OperationalError>).details ?? {};
    if (error instanceof EncodingUnsupportedError) {
      throw new InvalidDocumentError("encoding_unsupported", String(reason), { cause: error });
    }
    if (!(error instanceof EncodingDamagedError)) throw error;
    throw new ProtocolError(400, "bad_request", String(reason), { cause: error });
  }
}

async function* followingParts(
  answer: OpenRevisionsAnswer,
  parts: AsyncIterator<MultipartPart>,
  following: readonly WireAttachment[],
): AsyncIterable<AttachmentStream> {
  const byName = new Map(following.map((item) => [item.name, item]));
  for (const [index] of following.entries()) {
    const next = await parts.next();
    if (next.done === true) {
      throw new ProtocolError(400, "bad_request", "An attachment that should follow is missing");
    }
    // A part can name its attachment (RFC 2183). Otherwise, the order of the parts identifies it.
    const disposition = next.value.headers.get("content-disposition");
    const name = disposition && parseMediaType(disposition).parameters.get("filename");
    const item = (name && byName.get(name)) || following[index];
    if (item === undefined) throw new ProtocolError(400, "bad_request", "Unknown attachment part");
    const body = item.encoding === undefined ? plainBody(answer, next.value) : next.value.body;
    yield { ...describe(item), body: bounded(item, body) };
  }
}

function withoutAttachments(document: JsonValue): StreamedDocument {
  const { id, attachments } = parseDocument(document);
  const hasStubs = attachments.length > 0;
  return { id: idOf(id), text: document.text, hasStubs, outline: [], attachments: none() };
}

/**
 * Converts a document from a server that does not send multipart responses. The attachments of its
 * stubs are requested one by one.
 */
function streamed(answer: OpenRevisionsAnswer, document: JsonValue): StreamedDocument {
  const { id, revision, attachments } = parseDocument(document);
  const stubs = attachments.filter(({ content }) => content.kind === "stub");
  if (stubs.length === 0) return withoutAttachments(document);
  return {
    id: idOf(id),
    // Stubs become `follows`, because the bytes are sent with the document.
    text: withFollowing(document.text),
    hasStubs: false,
    outline: stubs.map(describe),
    attachments: (async function* () {
      for (const stub of stubs) {
        yield {
          ...describe(stub),
          body: bounded(stub, answer.readAttachment(revision ?? "", stub)),
        };
      }
    })(),
  };
}

function withFollowing(text: string): string {
  const members = splitObject(text).map(({ name, value }) => {
    if (name !== "_attachments") return `${JSON.stringify(name)}:${value}`;
    const attachments = splitObject(value).map((attachment) => {
      const { stub, ...rest } = parseJson(attachment.value) as Record<string, unknown>;
      const followed = stub === true ? { ...rest, follows: true } : rest;
      return `${JSON.stringify(attachment.name)}:${printJson(followed)}`;
    });
    return `"_attachments":{${attachments.join(",")}}`;
  });
  return `{${members.join(",")}}`;
}

function describe(attachment: WireAttachment): Omit<AttachmentStream, "body"> {
  return {
    name: attachment.name,
    length: attachment.encodedLength ?? attachment.length ?? 0,
    contentType: attachment.contentType ?? CONTENT_TYPE_DEFAULT,
    encoding: attachment.encoding,
  };
}

/**
 * Yields the attachment's bytes. Throws if there are more bytes than the document states, since a
 * stream that exceeds this length might never end.
 */
async function* bounded(
  { encoding, length, encodedLength }: WireAttachment,
  body: AsyncIterable<Uint8Array>,
): AsyncIterable<Uint8Array> {
  const byteCountMax = encoding === undefined ? length : encodedLength;
  let byteCount = 0;
  for await (const chunk of body) {
    byteCount += chunk.length;
    if (byteCount > (byteCountMax ?? Number.POSITIVE_INFINITY)) {
      throw new ProtocolError(
        400,
        "bad_request",
        "An attachment is longer than its document states",
      );
    }
    yield chunk;
  }
}

function parseDocument(document: JsonValue): WireDocument {
  let parsed: WireDocument;
  try {
    parsed = wireDocumentOf(document);
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    throw new InvalidDocumentError(error.error, error.reason, { cause: error });
  }
  const fault = historyFault(document);
  if (fault !== undefined) throw new InvalidDocumentError("revision_history_missing", fault);
  return parsed;
}

function boundaryOf(parameters: ReadonlyMap<string, string>): string {
  const boundary = parameters.get("boundary");
  if (boundary === undefined) {
    throw new ProtocolError(400, "bad_request", "The multipart type has no boundary");
  }
  return boundary;
}

function idOf(id: string | undefined): string {
  if (id === undefined) throw new ProtocolError(400, "bad_request", "The document has no _id");
  return id;
}

/** Version vector that Sync Gateway 4 adds to documents, and that CouchDB rejects. */
const VERSION_VECTOR = "_cv";

async function readDocument(
  json: Pick<MultipartPart, "body">,
  outline: OutlineDocument,
): Promise<JsonValue> {
  return withoutVersionVector(await readJson(json, DOCUMENT_DEPTH, outline), outline);
}

async function withoutVersionVector(
  document: JsonValue,
  outline: OutlineDocument,
): Promise<JsonValue> {
  if (document.member(VERSION_VECTOR) === undefined) return document;
  const members = splitObject(document.text).filter(({ name }) => name !== VERSION_VECTOR);
  const limits = { depthMax: DOCUMENT_DEPTH, nestingMax: DOCUMENT_NESTING_MAX };
  return outline(utf8Encode(joinObject(members)), limits);
}

/** Reads the JSON of a response, or of a part of it, scanned to nesting level `depthMax`. */
async function readJson(
  json: Pick<FetchResponse | MultipartPart, "body">,
  depthMax: number,
  outline: OutlineDocument,
): Promise<JsonValue> {
  const { bytesMax, valuesMax } = DOCUMENT_ANSWER;
  const bytes = await readBytes(json, bytesMax);
  if (bytes === undefined) throw tooLarge(`more than ${bytesMax} bytes`);
  const nestingMax = depthMax - 1 + DOCUMENT_NESTING_MAX;
  const limits = { depthMax, nestingMax, valueCountMax: valuesMax, rowCountMax: MEMBERS_MAX };
  try {
    return await outline(bytes, limits);
  } catch (error) {
    if (isTooMuch(error)) {
      const isDeep = error.limit === "nesting";
      throw tooLarge(
        `more than ${isDeep ? `${DOCUMENT_NESTING_MAX} levels` : `${MEMBERS_MAX} members`}`,
      );
    }
    // Report invalid JSON like a lost response, so that it is not attributed to the document.
    throw new ProtocolError(400, "bad_request", "The response is not JSON", { cause: error });
  }
}

function tooLarge(what: string): InvalidDocumentError {
  return new InvalidDocumentError("document_too_large", `The document has ${what}`);
}

async function drain(body: AsyncIterable<Uint8Array>): Promise<void> {
  for await (const _ of body) {
    // Discard the rest of the part, so that the next one can be read.
  }
}

async function* none(): AsyncIterable<AttachmentStream> {}
