/**
 * Passes logins through the gate of their account: `POST /_session`, API keys at token endpoints,
 * and requests with a password (Basic) that the server has not accepted before. Other requests,
 * including those with a valid session, bypass the gate.
 */
import { abortable, base64Decode, type Digests, Semaphore, utf8Encode } from "../../base/index.ts";
import { percentDecode } from "../../protocol/index.ts";
import { type Fetch, type FetchRequest, type FetchResponse, readBeginning } from "../fetch.ts";
import type { Login, LoginAnswer, LoginGates, LoginVerdict } from "../login-gate.ts";
import { SecretsInUse } from "../secrets-in-use.ts";

/**
 * Number of hex digits of a secret's digest that are kept: enough to distinguish the passwords of
 * one account.
 */
const CREDENTIAL_LENGTH = 16;
/** Maximum size of an error response that is read to find the reason of a rejected login. */
const REFUSAL_BYTES_MAX = 65_536;
/** Maximum number of accepted passwords remembered. */
const PROVEN_MAX = 10_000;

export interface LoginGateParts {
  readonly digests: Digests;
  readonly gates: LoginGates;
}

export function withLoginGate(fetch: Fetch, { digests, gates }: LoginGateParts): Fetch {
  const proven = new Set<string>();
  const turns = new Map<string, Semaphore>();

  /**
   * Attempts a login. Other requests of this process with the same credential wait for the outcome.
   */
  async function attempt(request: FetchRequest, { login, secret }: Given): Promise<FetchResponse> {
    const settle = await gates.enter(login, request.signal);
    let verdict: LoginVerdict = "unknown";
    let answer: LoginAnswer | undefined;
    try {
      const judgement = await judged(request, secret, await fetch(request));
      ({ verdict, answer } = judgement);
      return judgement.response;
    } finally {
      await settle(verdict, answer);
      const key = keyOf(login);
      proven.delete(key);
      if (verdict === "accepted") proven.add(key);
      if (proven.size > PROVEN_MAX) proven.delete([...proven][0] ?? "");
    }
  }

  /** Sends a request with a password that was accepted before but might have become invalid. */
  async function repeated(request: FetchRequest, { login, secret }: Given): Promise<FetchResponse> {
    const { response, verdict, answer } = await judged(request, secret, await fetch(request));
    if (verdict !== "refused" && verdict !== "locked") return response;
    // Concurrent requests with the same password are reported once.
    if (proven.delete(keyOf(login))) await gates.report(login, verdict, answer);
    return response;
  }

  return async (request) => {
    const given = loginOf(request, digests);
    if (given === undefined) return fetch(request);
    const key = keyOf(given.login);
    const isPassword = request.headers?.authorization !== undefined;
    if (isPassword && proven.has(key)) return repeated(request, given);
    const turn = turns.get(key) ?? new Semaphore(1);
    turns.set(key, turn);
    const answered = turn.run(async () => {
      request.signal.throwIfAborted();
      const isProven = isPassword && proven.has(key);
      return isProven ? repeated(request, given) : attempt(request, given);
    });
    try {
      return await abortable(answered, request.signal);
    } finally {
      if (turn.isIdle) turns.delete(key);
    }
  };
}

function keyOf({ origin, account, credential }: Login): string {
  return JSON.stringify([origin, account, credential]);
}

/** A login, with its password or key. */
interface Given {
  readonly login: Login;
  readonly secret: string;
}

/** Returns the login that a request attempts, if any. */
function loginOf(request: FetchRequest, digests: Digests): Given | undefined {
  const given = formSecret(request) ?? basicSecret(request);
  if (given === undefined) return undefined;
  const { account, secret } = given;
  const credential = credentialOf(digests, account, secret);
  return { login: { origin: new URL(request.url).origin, account, credential }, secret };
}

/** Returns the digest by which a gate distinguishes the secrets of an account. */
export function credentialOf(digests: Digests, account: string, secret: string): string {
  const digest = digests.sha1Hex(utf8Encode(JSON.stringify([account, secret])));
  return digest.slice(0, CREDENTIAL_LENGTH);
}

interface AccountSecret {
  readonly account: string;
  readonly secret: string;
}

/**
 * Parses a posted form: user name and password for a session, or client secret, API key or client
 * assertion for a token endpoint.
 */
function formSecret({ method, headers = {}, body }: FetchRequest): AccountSecret | undefined {
  if (method !== "POST" || !isForm(headers) || typeof body !== "string") return undefined;
  const form = new URLSearchParams(body);
  const key = form.get("apikey") ?? form.get("client_secret") ?? form.get("client_assertion");
  if (key !== null) return { account: form.get("client_id") ?? "", secret: key };
  const [name, password] = [form.get("name"), form.get("password")];
  return name === null || password === null ? undefined : { account: name, secret: password };
}

function basicSecret({ headers = {} }: FetchRequest): AccountSecret | undefined {
  const [, encoded] = /^basic +(\S+)$/i.exec(headers.authorization ?? "") ?? [];
  const bytes = encoded === undefined ? undefined : base64Decode(encoded);
  if (bytes === undefined) return undefined;
  const pair = decoder.decode(bytes);
  const colon = pair.indexOf(":");
  if (colon < 0) return undefined;
  // Token endpoints receive the client's id and secret form-encoded (RFC 6749 §2.3.1).
  const plain = (text: string): string => (isForm(headers) ? formDecode(text) : text);
  return { account: plain(pair.slice(0, colon)), secret: plain(pair.slice(colon + 1)) };
}

function isForm(headers: NonNullable<FetchRequest["headers"]>): boolean {
  return headers["content-type"] === "application/x-www-form-urlencoded";
}

function formDecode(text: string): string {
  const plain = text.replaceAll("+", " ");
  return percentDecode(plain) ?? plain;
}

/**
 * Derives the verdict on the login from a response. The body of a rejection is read and remains
 * readable.
 */
async function judged(
  request: FetchRequest,
  secret: string,
  response: FetchResponse,
): Promise<{
  readonly response: FetchResponse;
  readonly verdict: LoginVerdict;
  /** Set if the login was rejected. */
  readonly answer?: LoginAnswer;
}> {
  const { status } = response;
  if (status === 408 || status === 429 || status >= 500) return { response, verdict: "unknown" };
  const isInForm = request.headers?.authorization === undefined;
  // A token endpoint responds with 400 to an unknown key or client, so a 400 to a form is a
  // refusal, too.
  const isRefusal =
    status === 401 || status === 403 || (status === 400 && isForm(request.headers ?? {}));
  if (!isRefusal) return { response, verdict: "accepted" };
  const bytes = await readBeginning(response, REFUSAL_BYTES_MAX);
  const reason = decoder.decode(bytes);
  const read = { ...response, body: once(bytes), discard: () => response.discard() };
  const verdict = verdictOf(status, { url: request.url, isInForm }, reason, response);
  const secrets = new SecretsInUse();
  secrets.add(secret);
  return { response: read, verdict, answer: { status, text: secrets.redact(reason) } };
}

function verdictOf(
  status: number,
  { url, isInForm }: { readonly url: string; readonly isInForm: boolean },
  reason: string,
  { headers }: FetchResponse,
): LoginVerdict {
  if (LOCKED.test(reason)) return "locked";
  // For a request with a password, a 403 concerns the user's rights and not the password.
  if (status === 403) return isInForm ? "refused" : "accepted";
  // If authentication is required (`require_valid_user`), CouchDB rejects the request without
  // reading the form.
  const isSession = isInForm && url.endsWith("/_session");
  const isUnread = isSession && headers.has("www-authenticate") && !WRONG.test(reason);
  return isUnread ? "unknown" : "refused";
}

/** CouchDB's reason for a locked account. */
const LOCKED = /temporarily locked/i;
/** CouchDB's reason for a wrong password. */
const WRONG = /password is incorrect/i;

/** Whether a rejection says that the password is wrong. */
export function isWrongPassword(reason: string): boolean {
  return WRONG.test(reason);
}

const decoder = new TextDecoder();

async function* once(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}
