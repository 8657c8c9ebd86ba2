/**
 * Who asks: Basic authorization and `AuthSession` cookies, for the administrators of the configuration. Without one, whoever
 * reaches the server is an administrator ("admin party"), which is why such a server listens on the loopback address only.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { ApiRequest, User } from "../api/index.ts";
import type { Clock } from "../base/index.ts";
import { ProtocolError } from "../protocol/index.ts";
import type { Configuration } from "./configuration.ts";
import { matchesHash, parseAdminHash, sameText } from "./passwords.ts";

/** `[chttpd_auth] timeout` in CouchDB. */
export const SESSION_SEC_MAX = 600;

const ANONYMOUS: User = { name: null, roles: [], isAdmin: false };
const PARTY: User = { name: null, roles: ["_admin"], isAdmin: true };

export class Authentication {
  readonly #configuration: Configuration;
  readonly #allowsParty: boolean;
  readonly #clock: Clock;
  /** Signs the cookies; a restart ends the sessions, and clients log in again. */
  readonly #secret = randomBytes(32);
  /** Credentials that were found right, so that the slow hash is computed once. */
  readonly #verified = new Set<string>();

  /** `allowsParty`: whether a server without administrators takes everybody for one. */
  constructor(configuration: Configuration, allowsParty: boolean, clock: Clock) {
    this.#configuration = configuration;
    this.#allowsParty = allowsParty;
    this.#clock = clock;
  }

  get #admins(): ReadonlyMap<string, string> {
    return this.#configuration.section("admins");
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
    if (this.#admins.size === 0 && this.#allowsParty) return PARTY;
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

async function matches(password: string, stored: string): Promise<boolean> {
  const hash = parseAdminHash(stored);
  return hash === undefined ? sameText(password, stored) : matchesHash(password, hash);
}

function sameBytes(left: Buffer, right: Buffer): boolean {
  return left.length === right.length && timingSafeEqual(left, right);
}
