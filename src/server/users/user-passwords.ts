/**
 * Replaces passwords in documents of `_users` by hashes before they are written (`couch_users_db`).
 */
import { joinObject, splitObject, Utf8Text } from "../../base/index.ts";
import type { DocumentEdit } from "../../databases/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { hashPassword, type PasswordSettings } from "../passwords.ts";
import { passwordFault } from "../settings/password-requirements.ts";
import type { PasswordRules } from "../settings/password-settings.ts";

/** Members that contain a password or describe its hash. */
const PASSWORD_MEMBERS = new Set([
  "derived_key",
  "iterations",
  "password",
  "password_scheme",
  "password_sha",
  "pbkdf2_prf",
  "preserve_salt",
  "salt",
]);

type Members = Readonly<Record<string, unknown>>;

/**
 * Replaces passwords by hashes. Computes one hash at a time, so that a request never occupies more
 * than one place in the queue for hashing. Throws a ProtocolError: 400 for a password that is not
 * permitted, 403 for one that is not a string.
 */
export async function hashPasswords(
  edits: readonly DocumentEdit[],
  rules: PasswordRules,
): Promise<DocumentEdit[]> {
  const hashed: DocumentEdit[] = [];
  for (const edit of edits) hashed.push(await withHashedPassword(edit, rules));
  return hashed;
}

async function withHashedPassword(edit: DocumentEdit, rules: PasswordRules): Promise<DocumentEdit> {
  const { password, salt, preserve_salt: keepsSalt }: Members = JSON.parse(edit.body.text);
  if (password === undefined || password === null) return edit;
  if (typeof password !== "string") {
    throw new ProtocolError(403, "forbidden", invalidPassword(password));
  }
  const fault = passwordFault(password, rules.requirements);
  if (fault !== undefined) throw badRequest(fault);
  const kept = keepsSalt === true && typeof salt === "string" && salt !== "" ? salt : undefined;
  return { ...edit, body: await withHash(edit.body, password, rules, kept) };
}

/**
 * CouchDB's message for a password that is not a string. Such a password would otherwise be stored
 * unhashed.
 */
function invalidPassword(value: unknown): string {
  return `Password value of '${JSON.stringify(value).slice(0, 100)}' is invalid.`;
}

/**
 * Returns the document with the hash of the password. Uses a new salt unless one is given. A new
 * salt ends the user's sessions.
 */
export async function withHash(
  body: Utf8Text,
  password: string,
  settings: PasswordSettings,
  salt?: string,
): Promise<Utf8Text> {
  const hash = await hashPassword(password, settings, salt);
  const kept = splitObject(body.text).filter(({ name }) => !PASSWORD_MEMBERS.has(name));
  const members: Members =
    hash.scheme === "simple"
      ? { password_scheme: "simple", salt: hash.salt, password_sha: hash.key }
      : {
          password_scheme: "pbkdf2",
          pbkdf2_prf: hash.pseudoRandomFunction,
          salt: hash.salt,
          iterations: hash.iterations,
          derived_key: hash.key,
        };
  const added = Object.entries(members).map(([name, value]) => ({
    name,
    value: JSON.stringify(value),
  }));
  return Utf8Text.of(joinObject([...added, ...kept]));
}
