/** Passwords and their hashes, in CouchDB's formats (`couch_passwords`). */
import { createHash, pbkdf2, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import { Semaphore } from "../base/index.ts";

/**
 * Maximum number of concurrent hashes: half of the thread pool that Node.js uses for hashing and
 * file access, so that the other threads remain available.
 */
const DERIVATIONS_AT_ONCE = 2;
const derivations = new Semaphore(DERIVATIONS_AT_ONCE);
const deriveInThread = promisify(pbkdf2);

function derive(...args: Parameters<typeof deriveInThread>): Promise<Buffer> {
  return derivations.run(() => deriveInThread(...args));
}

/** `[chttpd_auth] password_scheme`, `pbkdf2_prf`, `iterations`. */
export interface PasswordSettings {
  readonly scheme: "pbkdf2" | "simple";
  readonly pseudoRandomFunction: PseudoRandomFunction;
  readonly iterations: number;
}

export const PSEUDO_RANDOM_FUNCTIONS = ["sha256", "sha", "sha224", "sha384", "sha512"] as const;
export type PseudoRandomFunction = (typeof PSEUDO_RANDOM_FUNCTIONS)[number];

/**
 * `[chttpd_auth] min_iterations`, `max_iterations`: bounds for the cost of a stored hash. Users
 * write their documents themselves, and a hash with two billion iterations would occupy a thread
 * for half an hour.
 */
export interface PasswordLimits {
  readonly iterationsMin: number;
  readonly iterationsMax: number;
}

/**
 * Maximum key length: the number of bytes in one block of PBKDF2. Each additional block would cost
 * all iterations again.
 */
const KEY_BYTES_MAX = 64;

/** The stored form of a password. */
export type PasswordHash =
  | {
      readonly scheme: "pbkdf2";
      readonly pseudoRandomFunction: PseudoRandomFunction;
      readonly iterations: number;
      readonly salt: string;
      /** Derived key in hex. */
      readonly key: string;
    }
  | { readonly scheme: "simple"; readonly salt: string; readonly key: string };

/**
 * Hashes a password. Uses a new salt unless one is given. With CouchDB's 600,000 iterations, this
 * takes a tenth of a second, but does not block the event loop.
 */
export async function hashPassword(
  password: string,
  settings: PasswordSettings,
  salt = randomBytes(16).toString("hex"),
): Promise<PasswordHash> {
  if (settings.scheme === "simple") {
    return { scheme: "simple", salt, key: simpleKey(password, salt) };
  }
  const { pseudoRandomFunction, iterations } = settings;
  const length = createHash(digestName(pseudoRandomFunction)).digest().length;
  const key = await derive(password, salt, iterations, length, digestName(pseudoRandomFunction));
  return { scheme: "pbkdf2", pseudoRandomFunction, iterations, salt, key: key.toString("hex") };
}

/** Whether the hash's scheme or parameters differ from the settings for new hashes. */
export function isOutdated(hash: PasswordHash, settings: PasswordSettings): boolean {
  if (hash.scheme === "simple" || settings.scheme === "simple") {
    return hash.scheme !== settings.scheme;
  }
  const { pseudoRandomFunction, iterations } = settings;
  return hash.pseudoRandomFunction !== pseudoRandomFunction || hash.iterations !== iterations;
}

/**
 * Returns the reason why passwords cannot be checked against this hash, or `undefined` if they can.
 * Uses CouchDB's words if CouchDB has such a message.
 */
export function hashFault(
  hash: PasswordHash,
  { iterationsMin, iterationsMax }: PasswordLimits,
): string | undefined {
  if (hash.scheme === "simple") return undefined;
  if (hash.iterations < iterationsMin) return "Iteration count is too low for this server";
  if (hash.iterations > iterationsMax) return "Iteration count is too high for this server";
  const isHex = /^([0-9a-f]{2})+$/.test(hash.key);
  return isHex && hash.key.length <= 2 * KEY_BYTES_MAX
    ? undefined
    : `derived_key must be at most ${KEY_BYTES_MAX} bytes in hex digits`;
}

/** Whether the password matches a valid hash. Compares in constant time. */
export async function matchesHash(password: string, hash: PasswordHash): Promise<boolean> {
  if (hash.scheme === "simple") return sameText(simpleKey(password, hash.salt), hash.key);
  const { pseudoRandomFunction, iterations, salt, key } = hash;
  const length = key.length / 2;
  const digest = digestName(pseudoRandomFunction);
  return sameText((await derive(password, salt, iterations, length, digest)).toString("hex"), key);
}

/**
 * Formats a hash like an administrator's password in `[admins]`:
 * `-pbkdf2:sha256-key,salt,iterations`.
 */
export function formatAdminHash(hash: PasswordHash): string {
  if (hash.scheme === "simple") return `-hashed-${hash.key},${hash.salt}`;
  const { pseudoRandomFunction, key, salt, iterations } = hash;
  return `-pbkdf2:${pseudoRandomFunction}-${key},${salt},${iterations}`;
}

/**
 * Parses an administrator's password in `[admins]`. Returns `undefined` for a plain-text password.
 */
export function parseAdminHash(text: string): PasswordHash | undefined {
  const simple = /^-hashed-([0-9a-f]+),(.+)$/.exec(text);
  if (simple !== null) return { scheme: "simple", key: simple[1] ?? "", salt: simple[2] ?? "" };
  const match = /^-pbkdf2(?::(sha\d*))?-([0-9a-f]+),([^,]+),([1-9]\d*)$/.exec(text);
  if (match === null) return undefined;
  const [, name = "sha", key = "", salt = "", iterations = ""] = match;
  const pseudoRandomFunction = PSEUDO_RANDOM_FUNCTIONS.find((known) => known === name);
  if (pseudoRandomFunction === undefined) return undefined;
  return { scheme: "pbkdf2", pseudoRandomFunction, iterations: Number(iterations), salt, key };
}

/** Compares strings in constant time. */
export function sameText(left: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}

function simpleKey(password: string, salt: string): string {
  return createHash("sha1").update(password).update(salt).digest("hex");
}

/** Returns the digest's name in Node.js. Erlang's `sha` is SHA-1. */
function digestName(pseudoRandomFunction: PseudoRandomFunction): string {
  return pseudoRandomFunction === "sha" ? "sha1" : pseudoRandomFunction;
}
