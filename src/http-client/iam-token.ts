/** IBM Cloud IAM: exchanges an API key for a bearer token that is valid for an hour. */

import type { Runtime } from "../base/index.ts";
import { percentEncode } from "../protocol/index.ts";
import { type Connection, withoutIdentity } from "./connection.ts";
import { type Fetch, readText } from "./fetch.ts";
import { type GrantOutcome, type GrantSource, loginFailed } from "./shared-grant.ts";

export const IAM_TOKEN_URL = "https://iam.cloud.ibm.com/identity/token";

/** Fraction of a token's lifetime after which it is renewed. */
const RENEW_RATIO = 0.8;
/** Assumed lifetime of a token that does not state one. */
const LIFE_SEC = 3600;
const TIMEOUT_MS = 30_000;

export interface IamCredentials {
  readonly apiKey: string;
  /** URL of the token endpoint. */
  readonly tokenUrl: string;
}

export interface IamTokenParts {
  readonly clock: Runtime["clock"];
  /** Performs one request, without retries or redirects. */
  readonly fetch: Fetch;
  readonly connection: Connection;
  readonly userAgent: string;
}

export class IamToken implements GrantSource {
  readonly #parts: IamTokenParts;
  readonly #credentials: IamCredentials;

  constructor(parts: IamTokenParts, credentials: IamCredentials) {
    this.#parts = parts;
    this.#credentials = credentials;
  }

  async obtain(): Promise<GrantOutcome> {
    const { clock, fetch, connection, userAgent } = this.#parts;
    const { apiKey, tokenUrl } = this.#credentials;
    const grantType = percentEncode("urn:ibm:params:oauth:grant-type:apikey");
    const response = await fetch({
      method: "POST",
      url: tokenUrl,
      headers: {
        accept: "application/json",
        "content-type": "application/x-www-form-urlencoded",
        "user-agent": userAgent,
      },
      body: `grant_type=${grantType}&apikey=${percentEncode(apiKey)}`,
      inactivityTimeoutMs: TIMEOUT_MS,
      connection: withoutIdentity(connection),
      signal: new AbortController().signal,
    });
    const text = await readText(response);
    const { status } = response;
    // IAM responds with 400 to an unknown key.
    if (status === 400 || status === 401 || status === 403) return { kind: "refused", status: 401 };
    const token = status === 200 ? parseToken(text) : undefined;
    if (token === undefined) {
      throw loginFailed({
        url: tokenUrl,
        status,
        text: status === 200 ? "" : text,
        secret: apiKey,
      });
    }
    const lifeMs = token.lifeSec * 1000;
    const nowMs = clock.monotonicMs();
    const grant = {
      headers: { authorization: `Bearer ${token.text}` },
      renewAtMs: nowMs + lifeMs * RENEW_RATIO,
      endsAtMs: nowMs + lifeMs,
    };
    return { kind: "granted", grant };
  }
}

function parseToken(body: string): { text: string; lifeSec: number } | undefined {
  try {
    const { access_token: text, expires_in: lifeSec } = JSON.parse(body);
    if (typeof text !== "string") return undefined;
    return { text, lifeSec: typeof lifeSec === "number" ? lifeSec : LIFE_SEC };
  } catch {
    return undefined;
  }
}
