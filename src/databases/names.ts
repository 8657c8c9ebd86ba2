/** Rules for names of databases, documents and attachments. */
import { OperationalError, utf8Encode } from "../base/index.ts";

const DATABASE_NAME = /^[a-z][a-z0-9_$()+/-]*$/;
const SYSTEM_DATABASES = ["_users", "_replicator", "_global_changes"];
/** CouchDB's limit, which derives from the length of file names. */
const DATABASE_NAME_LENGTH_MAX = 238;

/**
 * Maximum length of an id in a key. The longest key contains, besides an id, the database's prefix,
 * a foreign hash and an attachment name, and stays below the store's 10,000 bytes.
 */
const DOCUMENT_ID_BYTES_MAX = 7_000;
export const ATTACHMENT_NAME_BYTES_MAX = 1_500;

export const DESIGN_PREFIX = "_design/";
export const LOCAL_PREFIX = "_local/";

const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Whether CouchDB allows the name: its general rule, and its system databases. Also allows
 * `…/_replicator` and `…/_users`.
 */
export function isDatabaseName(name: string): boolean {
  if (name.length > DATABASE_NAME_LENGTH_MAX) return false;
  return DATABASE_NAME.test(name) || SYSTEM_DATABASES.includes(name);
}

/**
 * Checks a document id. Throws STORE_DOCUMENT_ID_INVALID; its `reason` is CouchDB's message, if
 * CouchDB has one.
 */
export function checkDocumentId(id: string): void {
  const reason = documentIdFault(id);
  if (reason === undefined) return;
  throw new OperationalError("STORE_DOCUMENT_ID_INVALID", "Invalid document id", {
    id: id.slice(0, 100),
    reason,
  });
}

/** Whether a document with this id can exist. If not, a read of the id finds nothing. */
export function isDocumentId(id: string): boolean {
  return documentIdFault(id) === undefined;
}

/**
 * Returns a string that fits into a key and sorts like `text` among all valid ids and names.
 * Truncates a `text` that is too long for a key.
 */
export function rangeBound(text: string): string {
  if (!exceedsKeyBytes(text, DOCUMENT_ID_BYTES_MAX)) return text;
  let bound = "";
  let byteCount = 0;
  for (const character of text) {
    bound += character;
    byteCount += keyByteCount(character);
    // The rest can be cut off: the bound is now longer than every valid id.
    if (byteCount > DOCUMENT_ID_BYTES_MAX) break;
  }
  return bound;
}

function documentIdFault(id: string): string | undefined {
  if (id === "") return "Document id must not be empty";
  if (id === DESIGN_PREFIX) return "Illegal document id `_design/`";
  if (id === LOCAL_PREFIX) return "Illegal document id `_local/`";
  if (id.startsWith("_") && !id.startsWith(DESIGN_PREFIX) && !id.startsWith(LOCAL_PREFIX)) {
    return "Only reserved document ids may start with underscore.";
  }
  if (LONE_SURROGATE.test(id)) return "Document id must be valid UTF-8";
  if (exceedsKeyBytes(id, DOCUMENT_ID_BYTES_MAX)) return "Document id is too long";
  return undefined;
}

/** Checks an attachment name. Throws STORE_ATTACHMENT_NAME_INVALID. */
export function checkAttachmentName(name: string): void {
  const reason = attachmentNameFault(name);
  if (reason === undefined) return;
  throw new OperationalError("STORE_ATTACHMENT_NAME_INVALID", "Invalid attachment name", {
    name: name.slice(0, 100),
    reason,
  });
}

function attachmentNameFault(name: string): string | undefined {
  if (name === "") return "Attachment name must not be empty";
  if (name.startsWith("_")) {
    return `Attachment name '${name.slice(0, 100)}' starts with prohibited character '_'`;
  }
  if (LONE_SURROGATE.test(name)) return "Attachment name is not UTF-8 encoded";
  if (exceedsKeyBytes(name, ATTACHMENT_NAME_BYTES_MAX)) return "Attachment name is too long";
  return undefined;
}

/** Maximum number of bytes of a UTF-16 code unit in a tuple. */
const KEY_BYTES_PER_CHARACTER_MAX = 3;

function exceedsKeyBytes(text: string, max: number): boolean {
  return text.length * KEY_BYTES_PER_CHARACTER_MAX > max && keyByteCount(text) > max;
}

/** Returns the number of bytes of a string in a tuple, where a zero byte takes two bytes. */
function keyByteCount(text: string): number {
  return utf8Encode(text).length + (text.split("\0").length - 1);
}
