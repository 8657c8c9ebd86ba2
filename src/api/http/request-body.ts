/** Request bodies: text that is checked, but never parsed and printed again. */
import {
  concatBytes,
  type JsonText,
  type JsonValue,
  outlineJson,
  utf8Decode,
} from "../../base/index.ts";
import { badRequest, ProtocolError, parseMediaType } from "../../protocol/index.ts";
import type { Call } from "./call.ts";

/** Of a body that is held whole, and some of it parsed, which may take many times its size. Streams have no limit. */
export const BODY_BYTES_MAX = 64 * 1024 * 1024;

/** "any" for documents that come from elsewhere: what one server has stored, another has to take. */
export type MemberNames = "unique" | "any";

/** The body as JSON. Throws a ProtocolError when it is not JSON, or when an object has two members of one name. */
export async function readJsonBody(
  call: Call,
  memberNames: MemberNames = "unique",
): Promise<JsonText> {
  return checkJson(await readBody(call), memberNames);
}

/** Throws a ProtocolError when an object in `value` has two members of one name. */
export function refuseRepeatedNames(value: JsonValue): void {
  const name = value.repeatedName();
  if (name !== undefined) throw repeatedMember(name);
}

export function repeatedMember(name: string): ProtocolError {
  return badRequest(`The member "${name}" stands twice in one object`);
}

/** The body's bytes, which may come compressed. */
export async function readBody(call: Call): Promise<Uint8Array> {
  const { headers, body } = call.request;
  const { gunzip, byteCountMax } = call.bodies;
  const encoding = (headers.get("content-encoding") ?? "identity").toLowerCase();
  if (encoding === "identity") return readBytes(body, byteCountMax);
  if (encoding !== "gzip") {
    const reason = `${encoding} is not a supported content encoding.`;
    throw new ProtocolError(415, "bad_content_type", reason);
  }
  try {
    // What is unpacked is bounded, so that a small body cannot fill the memory.
    return await readBytes(gunzip(body), byteCountMax);
  } catch (error) {
    if (error instanceof ProtocolError) throw error;
    call.request.signal.throwIfAborted();
    throw new ProtocolError(400, "bad_request", "Request body is not properly gzipped.", {
      cause: error,
    });
  }
}

/** The members of a body that has to be a JSON object, by name. No object in it may have two of one name. */
export async function readJsonMembers(call: Call): Promise<ReadonlyMap<string, JsonText>> {
  const members = await readJsonValues(call, 1);
  for (const value of members.values()) refuseRepeatedNames(value);
  return new Map([...members].map(([name, value]) => [name, value.text]));
}

/** As `readJsonMembers`, to be cut to pieces that `depthMax` brackets enclose. Names inside of them are the caller's to check. */
export async function readJsonValues(
  call: Call,
  depthMax: number,
): Promise<ReadonlyMap<string, JsonValue>> {
  requireJsonType(call);
  const body = outlineBody(await readBody(call), depthMax);
  if (!body.isObject) throw badRequest("Request body must be a JSON object");
  const members = new Map<string, JsonValue>();
  for (const { name, value } of body.values()) {
    if (members.has(name)) throw repeatedMember(name);
    members.set(name, value);
  }
  return members;
}

/** CouchDB's check on most POST requests. */
export function requireJsonType(call: Call): void {
  const header = call.request.headers.get("content-type");
  if (header !== undefined && parseMediaType(header).type === "application/json") return;
  throw new ProtocolError(415, "bad_content_type", "Content-Type must be application/json");
}

/** The text as it came, with the space around it. Throws as `readJsonBody`. */
export function checkJson(bytes: Uint8Array, memberNames: MemberNames = "any"): JsonText {
  const value = outlineBody(bytes, 0);
  if (memberNames === "unique") refuseRepeatedNames(value);
  return utf8Decode(bytes);
}

/** Half of a character is refused: CouchDB takes no such text, nor could it be sent on to one. */
function outlineBody(bytes: Uint8Array, depthMax: number): JsonValue {
  try {
    return outlineJson(bytes, { depthMax, allNames: true, wholeCharacters: true });
  } catch (error) {
    // Memory that cannot be had is not the sender's mistake.
    if (error instanceof RangeError) throw error;
    throw new ProtocolError(400, "bad_request", "invalid UTF-8 JSON", { cause: error });
  }
}

/** All bytes of a stream. Throws a ProtocolError 413 when there are more than `byteCountMax`. */
export async function readBytes(
  chunks: AsyncIterable<Uint8Array>,
  byteCountMax = BODY_BYTES_MAX,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let byteCount = 0;
  for await (const chunk of chunks) {
    byteCount += chunk.length;
    if (byteCount > byteCountMax) {
      throw new ProtocolError(413, "too_large", "the request entity is too large");
    }
    parts.push(chunk);
  }
  return concatBytes(parts);
}
