/**
 * Access control of documents in `_replicator` databases (`couch_replicator_docs`).
 *
 * A job accesses local databases with the permissions of its document's owner. Therefore, only a
 * server admin is allowed to write a document that belongs to another user before or after the
 * write. CouchDB checks only the new body, and does not check replicated edits.
 */
import { type JsonText, joinObject, jsonKind, splitObject, Utf8Text } from "../../base/index.ts";
import {
  type Database,
  type Document,
  type DocumentEdit,
  isDatabaseAdmin,
  type SecuritySubject,
} from "../../databases/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { stripCredentials } from "../../protocol/index.ts";

/** Members that can contain a password, besides the endpoints. */
const PROXIES = new Set(["proxy", "source_proxy", "target_proxy"]);
const SECRETS = new Set(["password"]);
/**
 * Endpoint members that other users can see. All other members, including misspelt ones, might be
 * secret.
 */
const ENDPOINT_MEMBERS = new Set([
  "url",
  "verify_ssl_certificates",
  "ssl_certificate_max_depth",
  "ssl_trusted_certificates_file",
  "cacert_file",
  "cert_file",
  "key_file",
]);
const LOOKS_LIKE_URL = /\/\/|^\s*https?:/i;

export interface OwnershipRefusal {
  readonly rejected: "forbidden" | "unauthorized";
  readonly reason: string;
}

/** Returns why the writer must not make this edit; undefined if the edit is allowed. */
export async function ownershipRefusal(
  tx: ReadTransaction,
  database: Database,
  edit: DocumentEdit,
  writer: SecuritySubject,
): Promise<OwnershipRefusal | undefined> {
  if (writer.isAdmin) return undefined;
  if (writer.userName === null) {
    return { rejected: "unauthorized", reason: "You are not an authenticated user" };
  }
  const isOthers = await hasOtherOwner(tx, database, edit.id, writer);
  if (edit.deleted) {
    if (!isOthers || isDatabaseAdmin(await database.security(tx), writer)) return undefined;
    return OTHERS;
  }
  const owner = ownerOf(edit.body);
  // If an interactive edit names no owner, the writer becomes the owner.
  const isNamed = owner === writer.userName || (owner === undefined && edit.mode === "interactive");
  return isOthers || !isNamed ? OTHERS : undefined;
}

/**
 * Maximum number of conflicting revisions, each of which can be megabytes long. Replicated edits
 * that would exceed it are rejected. If a document exceeds it nevertheless, only admins can write
 * the document.
 */
export const LEAVES_MAX = 50;

/**
 * Returns why the edit is refused if it would exceed the maximum number of conflicting revisions;
 * otherwise undefined.
 */
export async function leavesRefusal(
  tx: ReadTransaction,
  database: Database,
  edit: DocumentEdit,
): Promise<OwnershipRefusal | undefined> {
  if (edit.mode === "interactive" || edit.deleted) return undefined;
  const leaves = (await database.documents.leaves(tx, edit.id)).filter(({ deleted }) => !deleted);
  if (leaves.length < LEAVES_MAX) return undefined;
  const { start, hashes } = edit.revisions;
  const path = new Set(hashes.map((hash, depth) => `${start - depth}-${hash}`));
  if (leaves.some(({ revision }) => path.has(revision))) return undefined;
  const reason = `A replication document must not have more than ${LEAVES_MAX} conflicting revisions`;
  return { rejected: "forbidden", reason };
}

/**
 * Whether the document belongs to the user: same name, authenticated by the same handler. Tokens, a
 * proxy and the local user directory can use one name for different users.
 */
function isOwn(
  { body, authority }: Pick<Document, "body" | "authority">,
  { userName, vouchedBy }: SecuritySubject,
): boolean {
  if (userName === null || ownerOf(body) !== userName) return false;
  if (authority === undefined) return true;
  const author = authority.userName === userName ? authority.vouched?.by : undefined;
  return author === vouchedBy;
}

/**
 * Whether a leaf belongs to another user. Reads leaves one at a time, because each can be large.
 */
async function hasOtherOwner(
  tx: ReadTransaction,
  database: Database,
  id: string,
  writer: SecuritySubject,
): Promise<boolean> {
  const leaves = (await database.documents.leaves(tx, id)).filter(({ deleted }) => !deleted);
  if (leaves.length > LEAVES_MAX) return true;
  for (const { revision } of leaves) {
    const [leaf] = await database.documents.readRevision(tx, id, revision);
    if (leaf !== undefined && !isOwn(leaf, writer)) return true;
  }
  return false;
}

const OTHERS: OwnershipRefusal = {
  rejected: "forbidden",
  reason: "Can't update replication documents from other users.",
};

/** Returns the owner after a write: the one named in the body, or else the writer. */
export function ownerOnceWritten(owner: unknown, { userName }: SecuritySubject): string | null {
  return typeof owner === "string" ? owner : userName;
}

/** Returns the body with its owner set; `named` is the owner given in the body, if any. */
export function withOwner(body: Utf8Text, named: unknown, writer: SecuritySubject): Utf8Text {
  const owner = ownerOnceWritten(named, writer);
  if (owner === named) return body;
  const members = splitObject(body.text).filter(({ name }) => name !== "owner");
  return Utf8Text.of(joinObject([...members, { name: "owner", value: JSON.stringify(owner) }]));
}

/** Returns the document as shown to non-admins: documents of other users lack credentials. */
export function visibleReplication(document: Document, reader: SecuritySubject): Document {
  if (isOwn(document, reader) || document.id.startsWith("_design/")) return document;
  return { ...document, body: withoutCredentials(document.body) };
}

function withoutCredentials(body: Utf8Text): Utf8Text {
  const members = splitObject(body.text).filter(({ name }) => !SECRETS.has(name));
  const shown = members.map(({ name, value }) => {
    if (name === "source" || name === "target") return { name, value: shownEndpoint(value) };
    return { name, value: PROXIES.has(name) ? withoutUser(value) : withoutUrlUsers(value) };
  });
  return Utf8Text.of(joinObject(shown));
}

function shownEndpoint(value: JsonText): JsonText {
  if (jsonKind(value) !== "object") return withoutUser(value);
  const members = splitObject(value).filter(({ name }) => ENDPOINT_MEMBERS.has(name));
  return joinObject(
    members.map((each) =>
      each.name === "url" ? { ...each, value: withoutUser(each.value) } : each,
    ),
  );
}

/**
 * Removes credentials from the value of a member that should be a URL, even from a string that is
 * no URL. Any other value is replaced by null.
 */
function withoutUser(value: JsonText): JsonText {
  if (jsonKind(value) !== "string") return "null";
  return JSON.stringify(stripCredentials(JSON.parse(value)));
}

/**
 * Matches a JSON string. Does not use an alternation of single characters, because each match of an
 * alternation takes stack space.
 */
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/g;

/**
 * Removes credentials from all URLs in the text of a member. The name of the member does not
 * matter: names are sometimes misspelt, and a URL can occur anywhere in a value. Everything else
 * stays as written, including the digits of numbers.
 */
function withoutUrlUsers(value: JsonText): JsonText {
  if (!value.includes("@") && !value.includes("\\u0040")) return value;
  return value.replace(STRING, (text) => {
    const each: string = JSON.parse(text);
    return LOOKS_LIKE_URL.test(each) ? JSON.stringify(stripCredentials(each)) : text;
  });
}

/**
 * Returns the owner named in a body, as a value of any type; undefined if the body names no owner.
 */
function ownerOf(body: Utf8Text): unknown {
  return (JSON.parse(body.text) as { readonly owner?: unknown }).owner;
}
