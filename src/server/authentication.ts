/**
 * Who asks: Basic authorization and `AuthSession` cookies, for the administrators of the configuration. Without one, whoever
 * reaches the server is an administrator ("admin party"), which is why such a server listens on the loopback address only.
 */
import { createHash, createHmac, pbkdf2, randomBytes, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import type { ApiRequest, User } from "../api/index.ts";
import type { Clock } from "../base/index.ts";
import { ProtocolError } from "../protocol/index.ts";

const derive = promisify(pbkdf2);

/** `[chttpd_auth] timeout` in CouchDB. */
export const SESSION_SEC_MAX = 600;

const ANONYMOUS: User = { name: null, roles: [], isAdmin: false };
const PARTY: User = { name: null, roles: ["_admin"], isAdmin: true };

export class Authentication {
  readonly #admins: ReadonlyMap<string, string>;
  readonly #clock: Clock;
  /** Signs the cookies; a restart ends the sessions, and clients log in again. */
  readonly #secret = randomBytes(32);
  /** Credentials that were found right, so that the slow hash is computed once. */
  readonly #verified = new Set<string>();

  constructor(admins: ReadonlyMap<string, string>, clock: Clock) {
    this.#admins = admins;
    this.#clock = clock;
  }

  /** Throws a ProtocolError 401 for credentials that are wrong. */
  async authenticate({ headers }: ApiRequest): Promise<User> {
    const authorization = /^basic\s+(\S+)\s*$/i.exec(headers.get("authorization") ?? "");
    if (authorization !== null) {
      const pair = Buffer.from(authorization[1] as string, "base64").toString("utf8");
      const colon = pair.indexOf(":");
      const name = pair.slice(0, colon);
      if (colon >= 0 && (await this.isAdmin(name, pair.slice(colon + 1)))) return admin(name);
      if (this.#admins.size > 0) throw wrongCredentials();
    }
    if (this.#admins.size === 0) return PARTY;
    const name = this.#cookieUser(headers.get("cookie"));
    return name === undefined ? ANONYMOUS : admin(name);
  }

  async isAdmin(name: string, password: string): Promise<boolean> {
    const stored = this.#admins.get(name);
    if (stored === undefined) return false;
    const known = createHash("sha256").update(`${name}\0${stored}\0${password}`).digest("hex");
    if (this.#verified.has(known)) return true;
    const right = await matches(password, stored);
    if (right) this.#verified.add(known);
    return right;
  }

  /** The value of an `AuthSession` cookie for a user who logged in. */
  cookie(name: string): string {
    const issued = Math.floor(this.#clock.nowMs() / 1000).toString(16);
    const text = `${name}:${issued.toUpperCase()}`;
    return Buffer.from(`${text}:${this.#sign(text)}`).toString("base64url");
  }

  #cookieUser(header: string | undefined): string | undefined {
    const match = /(?:^|;\s*)AuthSession=([^;]+)/.exec(header ?? "");
    if (match === null) return undefined;
    const text = Buffer.from(match[1] as string, "base64url").toString("utf8");
    const parts = /^(.*):([0-9A-F]+):([0-9a-f]{64})$/s.exec(text);
    if (parts === null) return undefined;
    const [, name = "", issued = "", signature = ""] = parts;
    if (!sameBytes(Buffer.from(signature), Buffer.from(this.#sign(`${name}:${issued}`)))) {
      return undefined;
    }
    const ageSec = this.#clock.nowMs() / 1000 - Number.parseInt(issued, 16);
    return ageSec < SESSION_SEC_MAX && this.#admins.has(name) ? name : undefined;
  }

  #sign(text: string): string {
    return createHmac("sha256", this.#secret).update(text).digest("hex");
  }
}

function wrongCredentials(): ProtocolError {
  return new ProtocolError(401, "unauthorized", "Name or password is incorrect.");
}

function admin(name: string): User {
  return { name, roles: ["_admin"], isAdmin: true };
}

/** `-pbkdf2-key,salt,iterations` and `-pbkdf2:sha256-…` are CouchDB's hashes; anything else is the password itself. */
async function matches(password: string, stored: string): Promise<boolean> {
  const hashed = /^-pbkdf2(?::(sha\d+))?-([0-9a-f]+),([^,]+),(\d+)$/.exec(stored);
  if (hashed === null) return sameBytes(Buffer.from(password), Buffer.from(stored));
  const [, digest = "sha", key = "", salt = "", iterations = ""] = hashed;
  const expected = Buffer.from(key, "hex");
  const name = digest === "sha" ? "sha1" : digest;
  const derived = await derive(password, salt, Number(iterations), expected.length, name);
  return sameBytes(derived, expected);
}

function sameBytes(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}
