/** A request that delivers an alert to a receiver. */
import { createHmac } from "node:crypto";
import { type Clock, errorCode, finishWithin } from "../../base/index.ts";
import type { Fetch } from "../../http-client/index.ts";

export interface WebhookParts {
  readonly clock: Clock;
  readonly fetch: Fetch;
  readonly userAgent: string;
}

export interface Receiver {
  readonly url: string;
  /** Key for the signature; undefined for unsigned requests. */
  readonly secret: string | undefined;
  /** Time limit for the response. */
  readonly timeoutMs: number;
}

/**
 * Returns the signature of the body: an HMAC. In the format `tandem`, the body includes the time of
 * sending, so the signature covers the time too.
 */
export function signatureOf(body: string, secret: string): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

/**
 * Reason why the receiver did not accept a message. If `isFinal`, the message must not be sent
 * again.
 */
export interface Refusal {
  readonly error: string;
  readonly isFinal: boolean;
}

/** Client error statuses (4xx) after which the message is sent again. */
const REPEATED_STATUSES: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Sends a message. Returns `undefined` if the receiver accepted it, and otherwise the reason why
 * not. Rejects with the signal's reason if the signal aborts.
 */
export async function post(
  { clock, fetch, userAgent }: WebhookParts,
  { url, secret, timeoutMs }: Receiver,
  { id, body }: { readonly id: string; readonly body: string },
  signal: AbortSignal,
): Promise<Refusal | undefined> {
  const headers = {
    "content-type": "application/json",
    "user-agent": userAgent,
    "x-tandem-alert": id,
    ...(secret === undefined ? {} : { "x-tandem-signature": signatureOf(body, secret) }),
  };
  const send = async (limited: AbortSignal): Promise<Refusal | undefined> => {
    const request = { method: "POST", url, headers, body, inactivityTimeoutMs: timeoutMs } as const;
    const { status, discard } = await fetch({ ...request, signal: limited });
    discard();
    if (status >= 200 && status < 300) return undefined;
    const isFinal = status >= 400 && status < 500 && !REPEATED_STATUSES.has(status);
    return { error: `HTTP status ${status}`, isFinal };
  };
  const late = (): Error => new Error(`No response within ${timeoutMs} ms`);
  try {
    return await finishWithin(clock, timeoutMs, signal, { work: send, late });
  } catch (error) {
    if (signal.aborted) throw error;
    return { error: reasonOf(error), isFinal: false };
  }
}

/**
 * Returns the error text without the URL, because the URL's path can be a secret of the receiver.
 */
function reasonOf(error: unknown): string {
  const { cause, reason } = ((error as { details?: object }).details ?? {}) as {
    readonly cause?: unknown;
    readonly reason?: unknown;
  };
  return String(cause ?? reason ?? errorCode(error) ?? (error as Error).message);
}
