/**
 * Exchanges credentials for a bearer token at a token endpoint: OAuth client credentials (RFC 6749
 * §4.4), also with a signed assertion instead of a secret (RFC 7523), and API keys of IBM Cloud.
 * Nothing in the response is trusted: a wrong field makes the login fail, and a token is never part
 * of an error.
 */
import {
  backoff,
  base64Encode,
  finishWithin,
  type Runtime,
  utf8Decode,
  utf8Encode,
} from "../base/index.ts";
import { maskCredentials, percentEncode } from "../protocol/index.ts";
import { type Connection, withoutIdentity } from "./connection.ts";
import { type Fetch, type FetchResponse, RequestFailedError, readBytes } from "./fetch.ts";
import { SecretsInUse } from "./secrets-in-use.ts";
import type { Grant, GrantOutcome, GrantSource } from "./shared-grant.ts";

export const IAM_TOKEN_URL = "https://iam.cloud.ibm.com/identity/token";

/**
 * Fraction of a token's lifetime after which it is renewed. Random within the limits, so that nodes
 * do not renew simultaneously.
 */
const RENEW_RATIO = { min: 0.7, max: 0.8 };
/**
 * Assumed lifetime of a token that does not state one. A token that expires earlier causes a 401.
 */
const LIFE_SEC_DEFAULT = 300;
/** Bounds of the lifetime. The minimum limits the rate of token requests. */
const LIFE_SEC = { min: 1, max: 86_400 };
const TIMEOUT_MS = 30_000;
const ANSWER_BYTES_MAX = 65_536;
/** Maximum length of a token. Servers reject longer headers. */
const TOKEN_LENGTH_MAX = 16_384;
/** Pauses after failed requests. */
const PAUSE_MS = { min: 1000, max: 30_000 };
/** Maximum length at which a message shows a value from the response. */
const SHOWN_LENGTH_MAX = 100;

export interface IamCredentials {
  readonly apiKey: string;
  readonly tokenUrl: string;
}

/**
 * Methods by which a client proves its identity with a secret, with the names registered by RFC
 * 7591.
 */
export const CLIENT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"] as const;

/** A client at a token endpoint. It has either a secret or an assertion. */
export interface OAuthClient {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret?: string;
  /** Reference to a signed assertion, which is read for each token. */
  readonly clientAssertion?: string;
  /** Default: `client_secret_basic`. */
  readonly authMethod?: (typeof CLIENT_AUTH_METHODS)[number];
  readonly scope?: string;
  readonly audience?: string;
  readonly resource?: string;
}

/** A request for a token. */
export interface TokenRequest {
  readonly form: Readonly<Record<string, string | undefined>>;
  readonly authorization?: string;
  /** Secrets that the response might repeat. */
  readonly secrets: readonly string[];
}

export interface TokenLoginParts extends Pick<Runtime, "clock" | "random"> {
  /** Performs one request, without retries or redirects. */
  readonly fetch: Fetch;
  readonly connection: Connection;
  readonly userAgent: string;
}

export function iamRequest({ apiKey }: IamCredentials): TokenRequest {
  const form = { grant_type: "urn:ibm:params:oauth:grant-type:apikey", apikey: apiKey };
  return { form, secrets: [apiKey] };
}

/**
 * Returns the request for a token. `assertion` is the signed assertion of a client that has one.
 */
export function oauthRequest(client: OAuthClient, assertion?: string): TokenRequest {
  const { clientId, clientSecret, authMethod, scope, audience, resource } = client;
  const form = { grant_type: "client_credentials", scope, audience, resource };
  if (assertion !== undefined) {
    const type = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
    const proof = { client_assertion_type: type, client_assertion: assertion };
    return { form: { ...form, client_id: clientId, ...proof }, secrets: [assertion] };
  }
  const secret = clientSecret ?? "";
  if (authMethod === "client_secret_post") {
    return { form: { ...form, client_id: clientId, client_secret: secret }, secrets: [secret] };
  }
  // RFC 6749 §2.3.1: the client's id and secret are form-encoded first, unlike the credentials of
  // HTTP's Basic scheme.
  const pair = base64Encode(utf8Encode(`${formEncode(clientId)}:${formEncode(secret)}`));
  return { form, authorization: `Basic ${pair}`, secrets: [secret, formEncode(secret), pair] };
}

export class TokenLogin implements GrantSource {
  readonly #parts: TokenLoginParts;
  readonly #url: string;
  readonly #request: () => TokenRequest;

  /** `request` is called for each token, because an assertion might have been renewed. */
  constructor(parts: TokenLoginParts, url: string, request: () => TokenRequest) {
    this.#parts = parts;
    this.#url = url;
    this.#request = request;
  }

  async obtain(): Promise<GrantOutcome> {
    const request = this.#request();
    const secrets = new SecretsInUse();
    for (const secret of request.secrets) secrets.add(secret);
    const { status, text } = await this.#ask(request);
    const tokens = status === 200 ? parseToken(text) : undefined;
    if (tokens?.kind === "granted") return { kind: "granted", grant: this.#grant(tokens) };
    if (tokens !== undefined) {
      throw this.#failure("TOKEN_UNUSABLE", secrets.redact(tokens.fault));
    }
    // Endpoints respond with 400 to an unknown client, scope or key.
    if (status === 400 || status === 401 || status === 403) {
      const shown = secrets.redact(this.#refusal(status, text ?? ""));
      return { kind: "refused", status: 401, text: shown };
    }
    throw this.#failure(`HTTP_${status}`, secrets.redact(text ?? ""));
  }

  pauseMs(failureCount: number): number {
    return backoff(PAUSE_MS, failureCount) * (1 + this.#parts.random.ratio()) * 0.5;
  }

  #ask({ form, authorization }: TokenRequest): Promise<{
    readonly status: number;
    /** Body of the response; undefined if it is too long. */
    readonly text: string | undefined;
  }> {
    const { clock, fetch, connection, userAgent } = this.#parts;
    const pairs = Object.entries(form).filter(([, value]) => value !== undefined);
    return finishWithin(clock, TIMEOUT_MS, new AbortController().signal, {
      work: async (signal) => {
        const response = await fetch({
          method: "POST",
          url: this.#url,
          headers: {
            accept: "application/json",
            "content-type": "application/x-www-form-urlencoded",
            "user-agent": userAgent,
            ...(authorization === undefined ? {} : { authorization }),
          },
          body: pairs
            .map(([name, value]) => `${formEncode(name)}=${formEncode(value ?? "")}`)
            .join("&"),
          inactivityTimeoutMs: TIMEOUT_MS,
          connection: withoutIdentity(connection),
          signal,
        });
        return { status: response.status, text: await textOf(response) };
      },
      late: () => this.#failure("REQUEST_TIMEOUT"),
    });
  }

  #grant({ token, lifeSec }: Token): Grant {
    const { clock, random } = this.#parts;
    const lifeMs = Math.min(LIFE_SEC.max, Math.max(LIFE_SEC.min, lifeSec)) * 1000;
    const { min, max } = RENEW_RATIO;
    const nowMs = clock.monotonicMs();
    return {
      headers: { authorization: `Bearer ${token}` },
      renewAtMs: nowMs + lifeMs * (min + (max - min) * random.ratio()),
      endsAtMs: nowMs + lifeMs,
    };
  }

  /** Formats the rejection as an error of CouchDB. */
  #refusal(status: number, text: string): string {
    const { error, error_description: description } = parseMembers(text) ?? {};
    const words = typeof description === "string" && description !== "" ? `: ${description}` : "";
    const reason = `the token endpoint ${shownUrl(this.#url)} responded with ${status}${words}`;
    const name = typeof error === "string" && error !== "" ? error : "unauthorized";
    return JSON.stringify({ error: name, reason });
  }

  #failure(cause: string, text?: string): RequestFailedError {
    return new RequestFailedError({ method: "POST", url: shownUrl(this.#url), cause, text });
  }
}

interface Token {
  readonly kind: "granted";
  readonly token: string;
  readonly lifeSec: number;
}

/** Returns the token, or what is wrong with the response. */
function parseToken(
  text: string | undefined,
): Token | { readonly kind: "unusable"; readonly fault: string } {
  if (text === undefined) return unusable(`it is longer than ${ANSWER_BYTES_MAX} bytes`);
  const members = parseMembers(text);
  if (members === undefined) return unusable("it is not a JSON object");
  const { access_token: token, token_type: type = "Bearer", expires_in: life } = members;
  if (typeof token !== "string") return unusable("`access_token` is not a string");
  if (token.length > TOKEN_LENGTH_MAX) {
    return unusable(`\`access_token\` has more than ${TOKEN_LENGTH_MAX} characters`);
  }
  if (!/^[\x21-\x7e]+$/.test(token)) {
    return unusable("`access_token` is empty or has characters outside printable ASCII");
  }
  if (typeof type !== "string" || type.toLowerCase() !== "bearer") {
    return unusable(`\`token_type\` is ${shown(type)}; expected Bearer`);
  }
  const lifeSec = lifeOf(life);
  if (lifeSec === undefined) {
    return unusable(`\`expires_in\` is ${shown(life)}; expected a number of seconds above 0`);
  }
  return { kind: "granted", token, lifeSec };
}

/** Returns undefined for an invalid lifetime. Some servers send the lifetime as a string. */
function lifeOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return LIFE_SEC_DEFAULT;
  const isText = typeof value === "string" && /^\d{1,15}$/.test(value);
  const lifeSec = isText ? Number(value) : value;
  return typeof lifeSec === "number" && lifeSec > 0 ? lifeSec : undefined;
}

function unusable(fault: string): { readonly kind: "unusable"; readonly fault: string } {
  return { kind: "unusable", fault };
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, SHOWN_LENGTH_MAX);
}

/** Hides a password and the query, which can contain a key. */
function shownUrl(url: string): string {
  return maskCredentials(url).replace(/\?.*$/s, "");
}

function parseMembers(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

async function textOf(response: FetchResponse): Promise<string | undefined> {
  const bytes = await readBytes(response, ANSWER_BYTES_MAX);
  if (bytes === undefined) {
    response.discard();
    return undefined;
  }
  try {
    return utf8Decode(bytes);
  } catch {
    return "";
  }
}

function formEncode(text: string): string {
  return percentEncode(text).replaceAll("%20", "+");
}
