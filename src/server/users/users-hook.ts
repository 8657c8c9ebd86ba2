/** The rules of `_users` (`couch_users_db`, and the validation function of its design document). */
import { METRICS_ROLE, READER_ROLE } from "../../api/index.ts";
import { joinObject, splitObject, Utf8Text } from "../../base/index.ts";
import {
  type DatabaseHook,
  type Document,
  type DocumentEdit,
  type HookedDatabase,
  isDatabaseAdmin,
  type Leaf,
  type SecuritySubject,
  type WriteContext,
} from "../../databases/index.ts";
import type { Transaction } from "../../kv/index.ts";
import { formatRevision } from "../../protocol/index.ts";
import { hashFault, type PasswordLimits } from "../passwords.ts";
import { hashOf, USER_ID_PREFIX } from "./user-directory.ts";

type Members = Readonly<Record<string, unknown>>;

/** System roles that a document may assign. */
const SYSTEM_ROLES: ReadonlySet<string> = new Set([METRICS_ROLE, READER_ROLE]);

export interface UsersRules {
  /**
   * Names of public members of user documents. Everyone with access to the database may read these
   * members. The setting can change at any time.
   */
  readonly settings: { readonly publicMembers: readonly string[] };
  /** Bounds for password hashes, which can change at any time. */
  readonly limits: PasswordLimits;
}

export function usersHook({ settings, limits }: UsersRules): DatabaseHook {
  return {
    appliesTo: (databaseName) => databaseName === "_users",
    async beforeWrite(tx, database, edit, context) {
      if (edit.id.startsWith("_design/")) return { edit };
      const isAdmin = isDatabaseAdmin(await database.security(tx), context);
      const live = (await database.documents.leaves(tx, edit.id)).filter(({ deleted }) => !deleted);
      // Named users may write only their own documents, and the error must not reveal which other
      // documents exist. Anonymous users may sign up.
      if (!isAdmin && context.userName !== null && !mayWriteOwn(edit, context, live)) {
        return { rejected: "not_found", reason: "missing" };
      }
      const refusal =
        conflictFault(edit, context, isAdmin, live) ??
        (await judge(tx, database, { edit, context, isAdmin, limits }));
      return refusal === undefined ? { edit } : { rejected: "forbidden", reason: refusal };
    },
    afterRead: (document, reader) =>
      isOwn(document, reader) ? document : publicPart(document, settings.publicMembers),
  };
}

/**
 * Whether the document belongs to the user. The directory must have authenticated the user, because
 * a token or a proxy vouches only for the name.
 */
function isOwn({ id }: { readonly id: string }, subject: SecuritySubject): boolean {
  return subject.vouchedBy === undefined && hasName(id, subject);
}

/**
 * Whether the writer may write this document as their own. A user whom a token or a proxy
 * identifies may create the document, as in a sign-up, but not change an existing one.
 */
function mayWriteOwn({ id }: DocumentEdit, writer: WriteContext, live: readonly Leaf[]): boolean {
  return hasName(id, writer) && (writer.vouchedBy === undefined || live.length === 0);
}

function hasName(id: string, { userName }: SecuritySubject): boolean {
  return userName !== null && id === `${USER_ID_PREFIX}${userName}`;
}

/**
 * Returns the reason why an edit is forbidden because of a conflict, or `undefined` if the edit is
 * allowed. Only administrators are allowed to cause or change a conflict. Only server
 * administrators are allowed to delete a leaf of a conflict, because the roles and password of the
 * next winner then take effect.
 */
function conflictFault(
  edit: DocumentEdit,
  { isAdmin: isServerAdmin }: WriteContext,
  isAdmin: boolean,
  live: readonly Leaf[],
): string | undefined {
  if (isServerAdmin || live.length === 0) return undefined;
  if (live.length > 1) {
    if (isAdmin && !edit.deleted) return undefined;
    return "Only admins may change a user document in conflict.";
  }
  const [{ revision }] = live as readonly [Leaf];
  if (isAdmin || edit.deleted || follows(edit, revision)) return undefined;
  return "Only admins may create a conflict in a user document.";
}

function follows(edit: DocumentEdit, revision: string): boolean {
  if (edit.mode === "interactive") return edit.parent === revision;
  const { start, hashes } = edit.revisions;
  return hashes.some((hash, distance) => formatRevision(start - distance, hash) === revision);
}

/**
 * Returns the public members of a document, or `undefined` if it has no public members. Only
 * administrators may read design documents.
 */
function publicPart(document: Document, names: readonly string[]): Document | undefined {
  if (document.id.startsWith("_design/")) return undefined;
  const members = splitObject(document.body.text).filter(({ name }) => names.includes(name));
  if (members.length === 0) return undefined;
  return { ...document, body: Utf8Text.of(joinObject(members)), attachments: [] };
}

/**
 * Returns the reason why the edit is forbidden, in CouchDB's words, or `undefined` if it is
 * allowed.
 */
async function judge(
  tx: Transaction,
  database: HookedDatabase,
  {
    edit,
    context,
    isAdmin,
    limits,
  }: {
    readonly edit: DocumentEdit;
    readonly context: WriteContext;
    readonly isAdmin: boolean;
    readonly limits: PasswordLimits;
  },
): Promise<string | undefined> {
  const winner = await database.documents.read(tx, edit.id);
  const old: Members | undefined =
    winner === undefined || winner.deleted ? undefined : JSON.parse(winner.body.text);
  if (edit.deleted) {
    const isAllowed = context.isAdmin || (old !== undefined && isOwn(edit, context));
    return isAllowed ? undefined : "Only admins may delete other user docs.";
  }
  const members: Members = JSON.parse(edit.body.text);
  return (
    shapeFault(edit.id, members, old) ??
    passwordHashFault(members, limits) ??
    readerFault(members, old, context) ??
    (isAdmin ? undefined : roleFault(members, old, context))
  );
}

function shapeFault(id: string, members: Members, old: Members | undefined): string | undefined {
  const { type, name, roles, password, password_scheme: scheme, salt } = members;
  if (type !== "user") return "doc.type must be user";
  if (typeof name !== "string" || name === "") return "doc.name is required";
  if (roles === undefined) return "doc.roles must exist";
  if (!Array.isArray(roles)) return "doc.roles must be an array";
  if (!roles.every((role) => typeof role === "string")) {
    return "doc.roles can only contain strings";
  }
  if (id !== `${USER_ID_PREFIX}${name}`) {
    return "Doc ID must be of the form org.couchdb.user:name";
  }
  if (old !== undefined && old.name !== name) return "Usernames can not be changed.";
  // The message omits the value, because operators see it in the list of a replication's failed
  // writes.
  if (password !== undefined && password !== null) {
    return "Passwords must be strings; they are hashed before they are stored.";
  }
  if (salt === "") return "salt must not be empty.";
  if (members.password_sha !== undefined && salt === undefined) {
    return "Users with password_sha must have a salt.";
  }
  if (scheme !== undefined && scheme !== "simple" && scheme !== "pbkdf2") {
    return `Password scheme \`${String(scheme)}\` not supported.`;
  }
  if (scheme === "pbkdf2") {
    if (typeof members.iterations !== "number") return "iterations must be a number.";
    if (typeof members.derived_key !== "string") return "derived_key must be a string.";
  }
  if (roles.some((role: string) => role.startsWith("_") && !SYSTEM_ROLES.has(role))) {
    return "No system roles (starting with underscore) in users db.";
  }
  if (name.startsWith("_")) return "Username may not start with underscore.";
  return name.includes(":") ? "Character `:` is not allowed in usernames." : undefined;
}

function passwordHashFault(members: Members, limits: PasswordLimits): string | undefined {
  const hash = hashOf(members);
  return hash && hashFault(hash, limits);
}

/**
 * Returns the reason for rejecting an edit that grants access to all jobs of the server. Only
 * server administrators may grant this access.
 */
function readerFault(
  { roles }: Members,
  old: Members | undefined,
  { isAdmin }: WriteContext,
): string | undefined {
  const isReader = (list: unknown): boolean => Array.isArray(list) && list.includes(READER_ROLE);
  if (isAdmin || !isReader(roles) || isReader(old?.roles)) return undefined;
  return `Only server admins may give the role ${READER_ROLE}`;
}

function roleFault(
  { name, roles }: Members,
  old: Members | undefined,
  { userName, vouchedBy }: WriteContext,
): string | undefined {
  const added = roles as readonly string[];
  if (old === undefined) return added.length > 0 ? "Only _admin may set roles" : undefined;
  // Anonymous users have no user document. A user identified by a token or a proxy does not own the
  // user document of the same name.
  if (vouchedBy !== undefined || userName !== name) {
    return "You may only update your own user document.";
  }
  const before = Array.isArray(old.roles) ? old.roles : [];
  const isSame = JSON.stringify(before.toSorted()) === JSON.stringify(added.toSorted());
  return isSame ? undefined : "Only _admin may edit roles";
}
