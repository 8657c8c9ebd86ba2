/**
 * Access to documents of `_replicator` databases (`couch_replicator_docs`).
 *
 * A job reads and writes the databases of this server with the rights of its document's owner. So only a server admin
 * writes a document that belongs, or then would belong, to another user. CouchDB: checks the new body only, and nothing
 * in a replicated one.
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

/** Members beside the endpoints that may hold a password: of a proxy's URL, of a certificate's key. */
const PROXIES = new Set(["proxy", "source_proxy", "target_proxy"]);
const SECRETS = new Set(["password"]);
/** Members of an endpoint that others see. Any other, mistyped names included, may be a secret. */
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

/** Why the writer may not make this edit; undefined when nothing speaks against it. */
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
  // An interactive edit without an owner becomes the writer's.
  const isNamed = owner === writer.userName || (owner === undefined && edit.mode === "interactive");
  return isOthers || !isNamed ? OTHERS : undefined;
}

/**
 * Most conflicting revisions of a replication document, each of which may have megabytes. A replicated edit beyond them is
 * refused, and a document that has more already belongs to its administrators.
 */
export const LEAVES_MAX = 50;

/** Returns why the edit is refused if it would add another conflicting revision to too many. */
export async function leavesRefusal(
  tx: ReadTransaction,
  database: Database,
  edit: DocumentEdit,
): Promise<OwnershipRefusal | undefined> {
  if (edit.mode === "interactive" || edit.deleted) return undefined;
  const leaves = (await database.leaves(tx, edit.id)).filter(({ deleted }) => !deleted);
  if (leaves.length < LEAVES_MAX) return undefined;
  const { start, hashes } = edit.revisions;
  const path = new Set(hashes.map((hash, depth) => `${start - depth}-${hash}`));
  if (leaves.some(({ revision }) => path.has(revision))) return undefined;
  const reason = `A replication document must not have more than ${LEAVES_MAX} conflicting revisions`;
  return { rejected: "forbidden", reason };
}

/**
 * Whether the document is the user's: it names him, and the same handler vouched for its author. A token, a proxy and our own
 * directory may each know another user by one name.
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

/** Whether a leaf belongs to another user. Holds one body at a time, and stops at the first of another user. */
async function hasOtherOwner(
  tx: ReadTransaction,
  database: Database,
  id: string,
  writer: SecuritySubject,
): Promise<boolean> {
  const leaves = (await database.leaves(tx, id)).filter(({ deleted }) => !deleted);
  if (leaves.length > LEAVES_MAX) return true;
  for (const { revision } of leaves) {
    const [leaf] = await database.readRevision(tx, id, revision);
    if (leaf !== undefined && !isOwn(leaf, writer)) return true;
  }
  return false;
}

const OTHERS: OwnershipRefusal = {
  rejected: "forbidden",
  reason: "Can't update replication documents from other users.",
};

/** The owner that a document has once it is written: who wrote it, if it has none. */
export function ownerOnceWritten(owner: unknown, { userName }: SecuritySubject): string | null {
  return typeof owner === "string" ? owner : userName;
}

/** The body with its owner; `named` is the one that it names. */
export function withOwner(body: Utf8Text, named: unknown, writer: SecuritySubject): Utf8Text {
  const owner = ownerOnceWritten(named, writer);
  if (owner === named) return body;
  const members = splitObject(body.text).filter(({ name }) => name !== "owner");
  return Utf8Text.of(joinObject([...members, { name: "owner", value: JSON.stringify(owner) }]));
}

/** The document as users see it who are not admins of the database: documents of others have no credentials. */
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

/** For a member that is a URL, however it is written. One of another type is not shown. */
function withoutUser(value: JsonText): JsonText {
  if (jsonKind(value) !== "string") return "null";
  return JSON.stringify(stripCredentials(JSON.parse(value)));
}

/** A string in valid JSON, in a form that takes no stack for each character. */
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/g;

/**
 * The text of any other member without the users in its URLs: names are mistyped, too, and a URL
 * may be anywhere in it. Everything else stays as written, such as the digits of numbers.
 */
function withoutUrlUsers(value: JsonText): JsonText {
  if (!value.includes("@") && !value.includes("\\u0040")) return value;
  return value.replace(STRING, (text) => {
    const each: string = JSON.parse(text);
    return LOOKS_LIKE_URL.test(each) ? JSON.stringify(stripCredentials(each)) : text;
  });
}

/** Undefined when the document names none, or something that is no user. */
function ownerOf(body: Utf8Text): unknown {
  return (JSON.parse(body.text) as { readonly owner?: unknown }).owner;
}
