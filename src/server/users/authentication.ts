/**
 * Authentication (`chttpd_auth`, `couch_httpd_auth`). The handlers in `[chttpd]
 * authentication_handlers` are tried in order until one identifies the user. Without an
 * administrator, every client has administrator rights ("admin party"), and the server listens only
 * on the loopback address.
 */
import { createHmac, randomBytes } from "node:crypto";
import type { ApiRequest, User } from "../../api/index.ts";
import { type Clock, clientNetwork } from "../../base/index.ts";
import { badRequest, ProtocolError } from "../../protocol/index.ts";
import { sameText } from "../passwords.ts";
import type { AuthenticationSettings } from "../settings/authentication-settings.ts";
import type { Configuration } from "../settings/configuration.ts";
import { clientAddress } from "./client-address.ts";
import { signText } from "./derived-keys.ts";
import { tokenUser } from "./json-web-token.ts";
import type { LoginLockout } from "./login-lockout.ts";
import { asksLoopbackHost } from "./loopback-host.ts";
import { PeerTurns } from "./peer-turns.ts";
import type { SessionCookies } from "./session-cookies.ts";
import type { SessionSecrets } from "./session-secrets.ts";
import type { KnownUser, Turn, UserDirectory } from "./user-directory.ts";

/**
 * Handlers that authenticate users of the local directory. The other handlers trust another system.
 */
const OWN_HANDLERS: ReadonlySet<string> = new Set(["cookie", "default"]);

/** Maximum number of verified credentials that are cached. Their passwords are not hashed again. */
const VERIFIED_COUNT_MAX = 1_000;

const ANONYMOUS: User = { name: null, roles: [], isAdmin: false };
const PARTY: User = { name: null, roles: ["_admin"], isAdmin: true };

export interface AuthenticationParts {
  readonly configuration: Configuration;
  readonly settings: AuthenticationSettings;
  readonly users: UserDirectory;
  readonly cookies: SessionCookies;
  readonly secrets: Pick<SessionSecrets, "accepted">;
  readonly lockout: LoginLockout;
  readonly clock: Clock;
  /**
   * Whether every client has administrator rights if no administrator is configured ("admin
   * party").
   */
  readonly allowsParty: boolean;
}

export class Authentication {
  readonly #parts: AuthenticationParts;
  /**
   * HMACs of verified credentials. The key is known only to this process, so the HMACs reveal no
   * passwords.
   */
  readonly #verified = new Set<string>();
  readonly #verifiedKey = randomBytes(32);
  readonly #turns = new PeerTurns();

  constructor(parts: AuthenticationParts) {
    this.#parts = parts;
  }

  /** The names of the handlers, as reported by `_session`. */
  get handlers(): readonly string[] {
    return this.#parts.settings.handlers;
  }

  /**
   * Returns the user who sent the request. Throws a ProtocolError for wrong credentials, and for
   * missing credentials if they are required.
   */
  async authenticate(request: ApiRequest): Promise<User> {
    if (this.#isParty() && !asksLoopbackHost(request)) throw strangeHost();
    for (const handler of this.handlers) {
      const user = await this.#ask(handler, request);
      if (user === undefined) continue;
      return OWN_HANDLERS.has(handler)
        ? { ...user, handler }
        : { ...user, handler, vouchedBy: handler };
    }
    return this.#unknown(request);
  }

  /**
   * Returns the user's roles and a cookie for later requests, or `undefined` for a wrong name or
   * password.
   */
  async logIn(
    name: string,
    password: string,
    request: ApiRequest,
  ): Promise<{ readonly roles: readonly string[]; readonly cookie: string } | undefined> {
    const found = await this.#byPassword(name, password, this.#clientOf(request));
    // The login has replaced an empty salt, so the user is read again.
    const user = found?.salt === "" ? await this.#parts.users.find(name) : found;
    return user && { roles: user.roles, cookie: this.#parts.cookies.issue(user, request) };
  }

  /** Returns the address or network for which wrong passwords are counted. */
  #clientOf(request: ApiRequest): string {
    return clientNetwork(clientAddress(request, this.#parts.settings));
  }

  #ask(handler: string, request: ApiRequest): Promise<User | undefined> {
    const { headers } = request;
    switch (handler) {
      case "cookie":
        return this.#byCookie(request);
      case "default":
        return this.#byBasic(this.#clientOf(request), headers.get("authorization"));
      case "proxy":
        return this.#byProxy(headers);
      default:
        return this.#byToken(headers.get("authorization"));
    }
  }

  /**
   * Returns the user of a request that no handler identified. Throws a ProtocolError 401 if a user
   * is required.
   */
  #unknown({ method, path }: ApiRequest): User {
    const { requireValidUser, requireValidUserExceptForUp } = this.#parts.settings;
    const isLogin = method === "POST" && path === "/_session";
    // The dashboard is served to everyone, because it contains the login page.
    const isDashboard = /^\/_dashboard(\/|$)/.test(path);
    const isUp = path === "/_up" && requireValidUserExceptForUp;
    const isFree = isLogin || isDashboard || isUp;
    if ((requireValidUser || requireValidUserExceptForUp) && !isFree) {
      throw new ProtocolError(401, "unauthorized", "Authentication required.");
    }
    return this.#isParty() ? PARTY : ANONYMOUS;
  }

  #isParty(): boolean {
    const { allowsParty, configuration } = this.#parts;
    return allowsParty && configuration.section("admins").size === 0;
  }

  async #byBasic(peer: string, header = ""): Promise<User | undefined> {
    const authorization = /^basic\s+(\S+)\s*$/i.exec(header);
    if (authorization === null) return undefined;
    const encoded = authorization[1] as string;
    if (!/^[A-Za-z0-9+/]+=*$/.test(encoded)) {
      throw badRequest("Authorization header has invalid base64 value");
    }
    const pair = Buffer.from(encoded, "base64").toString("utf8");
    const colon = pair.indexOf(":");
    if (colon < 0) return undefined;
    const user = await this.#byPassword(pair.slice(0, colon), pair.slice(colon + 1), peer);
    if (user !== undefined) return userOf(user.name, user.roles);
    // Without administrators, all clients have the same rights, whatever name and password they
    // send.
    if (this.#isParty()) return PARTY;
    throw new ProtocolError(401, "unauthorized", "Name or password is incorrect.");
  }

  async #byPassword(name: string, password: string, peer: string): Promise<KnownUser | undefined> {
    const { users, lockout } = this.#parts;
    const user = await users.find(name);
    // Without administrators, no password check is simulated for an unknown user. User names are
    // then not secret, because every client has administrator rights.
    if (user === undefined && this.#isParty()) return undefined;
    const attempt = { name, salt: user?.salt ?? "", peer };
    lockout.check(attempt);
    const turn: Turn = (check) =>
      this.#turns.run(peer, () => {
        // Checks the lockout again, because concurrent guesses might have failed in the meantime.
        lockout.check(attempt);
        return check();
      });
    if (user === undefined) {
      await users.rejectUnknown(name, password, turn);
      lockout.failed(attempt);
      return undefined;
    }
    const credentials = JSON.stringify([name, user.hash, password]);
    const known = createHmac("sha256", this.#verifiedKey).update(credentials).digest("base64");
    if (this.#verified.has(known)) return user;
    if (!(await user.matches(password, turn))) {
      lockout.failed(attempt);
      return undefined;
    }
    const [oldest] = this.#verified;
    if (this.#verified.size >= VERIFIED_COUNT_MAX && oldest) this.#verified.delete(oldest);
    this.#verified.add(known);
    await users.upgradeHash(name, password);
    return user;
  }

  async #byCookie(request: ApiRequest): Promise<User | undefined> {
    const { cookies, users } = this.#parts;
    const session = cookies.read(request.headers.get("cookie") ?? "");
    if (session === undefined) return undefined;
    const user = await users.find(session.name);
    if (user === undefined || !cookies.isValid(session, user)) return undefined;
    const renewed = cookies.isAging(session) ? { renewedCookie: cookies.issue(user, request) } : {};
    return { ...userOf(user.name, user.roles), ...renewed };
  }

  /**
   * Identifies the user by a header of a reverse proxy. With `proxy_use_secret`, a token must prove
   * that the request comes from the proxy.
   */
  async #byProxy(headers: ReadonlyMap<string, string>): Promise<User | undefined> {
    const { settings, secrets } = this.#parts;
    const header = (name: string): string | undefined => headers.get(name.toLowerCase());
    const name = header(settings.proxyUserHeader);
    if (name === undefined) return undefined;
    const token = header(settings.proxyTokenHeader) ?? "";
    if (settings.proxyUsesSecret && !isProxyToken(settings, secrets.accepted, name, token))
      return undefined;
    const roles = (header(settings.proxyRolesHeader) ?? "").split(",").map((role) => role.trim());
    return userOf(
      name,
      roles.filter((role) => role !== ""),
    );
  }

  async #byToken(header = ""): Promise<User | undefined> {
    const token = /^Bearer (.+)$/.exec(header)?.[1];
    if (token === undefined) return undefined;
    const { settings, configuration, clock } = this.#parts;
    const keys = configuration.section("jwt_keys");
    const { name, roles } = await tokenUser(token, keys, settings, new Date(clock.nowMs()));
    return userOf(name, roles);
  }
}

/**
 * Whether the token is a signature of the name with an accepted secret, as in CouchDB. No token is
 * valid if no secret is configured.
 */
function isProxyToken(
  { secret, hashAlgorithms }: AuthenticationSettings,
  accepted: readonly string[],
  name: string,
  token: string,
): boolean {
  if (secret === undefined) return false;
  return accepted.some((key) =>
    hashAlgorithms.some((hash) => sameText(signText(hash, key, name).toString("hex"), token)),
  );
}

function strangeHost(): ProtocolError {
  const reason =
    "This server has no administrator and accepts only requests with localhost, 127.0.0.1 or [::1] in the Host header. Use one of these addresses, or create an administrator.";
  return new ProtocolError(403, "forbidden", reason);
}

function userOf(name: string, roles: readonly string[]): User {
  return { name, roles, isAdmin: roles.includes("_admin") };
}
