/** One request that tells a receiver of an alert. */
import { createHmac } from "node:crypto";
import { type Clock, errorCode, finishWithin } from "../../base/index.ts";
import type { Fetch } from "../../http-client/index.ts";
import { type Alert, isoTime } from "../../replicator/index.ts";

export interface WebhookParts {
  readonly clock: Clock;
  readonly fetch: Fetch;
  readonly userAgent: string;
}

export interface Receiver {
  readonly url: string;
  /** Undefined: nothing is signed. */
  readonly secret: string | undefined;
  /** Until its answer is there. */
  readonly timeoutMs: number;
}

/** What the receiver gets; `job` is the row of the list of jobs as it is now, or null when the job is gone. */
export function messageOf(
  { id, kind, status, breachId, jobId, timeMs }: Alert,
  job: unknown,
  nowMs: number,
): string {
  return JSON.stringify({
    id,
    event: kind,
    status,
    breach: breachId,
    time: isoTime(timeMs),
    sent: isoTime(nowMs),
    job_id: jobId,
    job,
  });
}

/** Over the whole body, which tells when it was sent. */
export function signatureOf(body: string, secret: string): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

/** Undefined when the receiver took it; otherwise why not. Rejects with the reason of the signal. */
export async function post(
  { clock, fetch, userAgent }: WebhookParts,
  { url, secret, timeoutMs }: Receiver,
  { id, body }: { readonly id: string; readonly body: string },
  signal: AbortSignal,
): Promise<string | undefined> {
  const headers = {
    "content-type": "application/json",
    "user-agent": userAgent,
    "x-tandem-alert": id,
    ...(secret === undefined ? {} : { "x-tandem-signature": signatureOf(body, secret) }),
  };
  const send = async (limited: AbortSignal): Promise<string | undefined> => {
    const request = { method: "POST", url, headers, body, inactivityTimeoutMs: timeoutMs } as const;
    const { status, discard } = await fetch({ ...request, signal: limited });
    discard();
    return status >= 200 && status < 300 ? undefined : `HTTP status ${status}`;
  };
  const late = (): Error => new Error(`No answer for ${timeoutMs} ms`);
  try {
    return await finishWithin(clock, timeoutMs, signal, { work: send, late });
  } catch (error) {
    if (signal.aborted) throw error;
    return reasonOf(error);
  }
}

/** Without the URL, whose path may be a secret of the receiver. */
function reasonOf(error: unknown): string {
  const { cause, reason } = ((error as { details?: object }).details ?? {}) as {
    readonly cause?: unknown;
    readonly reason?: unknown;
  };
  return String(cause ?? reason ?? errorCode(error) ?? (error as Error).message);
}
