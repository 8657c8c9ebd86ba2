/**
 * Logs in to a CouchDB session: one `POST /_session` for all jobs of a user, instead of a password
 * in each request, which the server would have to hash each time (`couch_replicator_auth_session`).
 * For servers without sessions, the password is sent with each request.
 */

import type { Runtime } from "../base/index.ts";
import { percentEncode } from "../protocol/index.ts";
import type { Connection } from "./connection.ts";
import { type Fetch, type FetchRequest, type FetchResponse, readText } from "./fetch.ts";
import { type BasicCredentials, basicAuthorization } from "./middleware/with-headers.ts";
import { isWrongPassword } from "./middleware/with-login-gate.ts";
import {
  GRANT_SETTINGS_DEFAULT,
  type Grant,
  type GrantOutcome,
  type GrantSettings,
  type GrantSource,
  loginFailed,
} from "./shared-grant.ts";

/** Fraction of a cookie's lifetime after which it is renewed. */
const RENEW_RATIO = 0.9;
const LOGIN_TIMEOUT_MS = 30_000;

export interface SessionLoginParts {
  readonly clock: Runtime["clock"];
  /** Performs one request, without retries or redirects. */
  readonly fetch: Fetch;
  readonly connection: Connection;
  readonly userAgent: string;
  readonly settings?: GrantSettings;
}

export class SessionLogin implements GrantSource {
  readonly #parts: SessionLoginParts;
  readonly #url: string;
  readonly #credentials: BasicCredentials;

  /** `origin` is the server's origin, such as `https://example.com:6984`. */
  constructor(parts: SessionLoginParts, origin: string, credentials: BasicCredentials) {
    this.#parts = parts;
    this.#url = `${origin}/_session`;
    this.#credentials = credentials;
  }

  async obtain(): Promise<GrantOutcome> {
    const authorization = basicAuthorization(this.#credentials);
    let { response, text } = await this.#ask({});
    // Some servers (`require_valid_user`) respond to the login itself with 401 unless it is
    // authenticated. A password that the server calls wrong is not sent again.
    const wantsPassword = response.status === 401 && response.headers.has("www-authenticate");
    if (wantsPassword && !isWrongPassword(text)) {
      ({ response, text } = await this.#ask({ authorization }));
    }
    const { status } = response;
    if (status === 401 || status === 403) return { kind: "refused", status, text };
    if (status === 408 || status === 429 || status >= 502) {
      throw loginFailed({ url: this.#url, status, text, secret: this.#credentials.password });
    }
    const grant = status === 200 ? this.broughtBy(response) : undefined;
    return { kind: "granted", grant: grant ?? passwordGrant(authorization) };
  }

  broughtBy({ status, headers }: FetchResponse): Grant | undefined {
    if (status < 200 || status > 299) return undefined;
    const cookie = /(?:^|,\s*)AuthSession=([^;,\s]+)(.*)/is.exec(headers.get("set-cookie") ?? "");
    if (cookie === null) return undefined;
    const [, value, rest = ""] = cookie;
    // A cookie's attributes end where the next cookie begins.
    const attributes = rest.split(/,\s*[^;,=\s]+=/)[0] ?? "";
    const maxAgeSec = /;\s*max-age=(\d+)\s*(?:;|$)/i.exec(attributes)?.[1];
    const lifeMs = maxAgeSec === undefined ? undefined : Number(maxAgeSec) * 1000;
    const { clock, settings = GRANT_SETTINGS_DEFAULT } = this.#parts;
    const renewalMs = settings.sessionRenewalSec * 1000;
    const nowMs = clock.monotonicMs();
    return {
      headers: { cookie: `AuthSession=${value}` },
      renewAtMs: nowMs + (lifeMs === undefined ? renewalMs : lifeMs * RENEW_RATIO),
      endsAtMs: nowMs + (lifeMs ?? renewalMs),
    };
  }

  async #ask(
    headers: Readonly<Record<string, string>>,
  ): Promise<{ readonly response: FetchResponse; readonly text: string }> {
    const { fetch, connection, userAgent } = this.#parts;
    const { username, password } = this.#credentials;
    const request: FetchRequest = {
      method: "POST",
      url: this.#url,
      headers: {
        accept: "application/json",
        "content-type": "application/x-www-form-urlencoded",
        "user-agent": userAgent,
        ...headers,
      },
      body: `name=${percentEncode(username)}&password=${percentEncode(password)}`,
      inactivityTimeoutMs: LOGIN_TIMEOUT_MS,
      connection,
      signal: new AbortController().signal,
    };
    const response = await fetch(request);
    return { response, text: await readText(response) };
  }
}

function passwordGrant(authorization: string): Grant {
  const never = Number.POSITIVE_INFINITY;
  return { headers: { authorization }, renewAtMs: never, endsAtMs: never };
}
