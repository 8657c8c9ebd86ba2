/**
 * One HTTP request, as a function. Retries, credentials and limits are decorators of that function
 * (`with-…`), which can be combined freely.
 */
import { concatBytes, OperationalError } from "../base/index.ts";
import type { Connection } from "./connection.ts";

/** A request body. Unless it is a stream, it can be sent again when the request is repeated. */
export type RequestBody =
  | string
  | Uint8Array
  | { readonly length: number; stream(): AsyncIterable<Uint8Array> };

export interface FetchRequest {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly url: string;
  /** Headers with names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  /** Aborts the request if no data arrives for this long, before the headers or within the body. */
  readonly inactivityTimeoutMs: number;
  /** Proxy and certificates. Default: a direct connection with the system's certificates. */
  readonly connection?: Connection;
  /**
   * Root URL of the server, with a trailing slash. Set if the request is allowed to be batched with
   * others to the same server. Its response must be short and prompt, and might be buffered.
   */
  readonly batchRoot?: string;
  readonly signal: AbortSignal;
}

export interface FetchResponse {
  readonly status: number;
  /** Headers with names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** The body must be read to its end or discarded; otherwise the connection stays occupied. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Cancels the unread rest of the body. */
  discard(): void;
}

/**
 * Rejects with a RequestFailedError if no complete response was received, with an
 * EgressRefusedError if the request was not sent, or with `signal.reason`.
 */
export type Fetch = (request: FetchRequest) => Promise<FetchResponse>;

export type RequestFailure = {
  readonly method: string;
  readonly url: string;
  readonly cause: string;
  /** Text of the response, or a description of what is wrong with it. Contains no credentials. */
  readonly text?: string | undefined;
  /** The proxy of the request, without credentials. */
  readonly proxy?: string | undefined;
  /** Whether the proxy failed rather than the server behind it. */
  readonly isFaultOfProxy?: boolean | undefined;
};

/**
 * Thrown if no response was received: connection refused, reset, timed out, or host name not
 * resolved. `details.cause` is the system's error code, such as `ECONNREFUSED`.
 */
export class RequestFailedError extends OperationalError {
  override readonly name = "RequestFailedError";
  declare readonly details: RequestFailure;

  constructor(details: RequestFailure, options?: ErrorOptions) {
    super("HTTP_REQUEST_FAILED", "The request received no response", details, options);
  }
}

/**
 * Thrown if the configuration forbids this node to connect to the server. `details.reason` names
 * the host and the rule. Retrying is pointless.
 */
export class EgressRefusedError extends OperationalError {
  override readonly name = "EgressRefusedError";

  constructor(reason: string) {
    super("HTTP_EGRESS_REFUSED", "This node may not connect to the server", { reason });
  }
}

/** Callbacks for reading a body. */
export interface BodyObserver {
  /**
   * Called for each piece of the body. If it returns a promise, the reader receives the piece when
   * the promise resolves. If the promise rejects, reading fails with the same error.
   */
  onPiece?(byteCount: number): Promise<void> | undefined;
  /** Called once when reading ends, for whatever reason. */
  onEnd?(): void;
}

/**
 * Returns the same response with `observer` attached. Observers attached earlier are called first.
 */
export function observeBody(response: FetchResponse, observer: BodyObserver): FetchResponse {
  const { status, headers, body } = response;
  const observed =
    body instanceof ObservedBody
      ? new ObservedBody(body.source, [...body.observers, observer])
      : new ObservedBody(body, [observer]);
  return { status, headers, body: observed, discard: () => response.discard() };
}

/**
 * A body with one iterator that calls all observers. A generator for each observer would cost more
 * than the rest of a short response.
 */
class ObservedBody implements AsyncIterable<Uint8Array> {
  readonly source: AsyncIterable<Uint8Array>;
  readonly observers: readonly BodyObserver[];

  constructor(source: AsyncIterable<Uint8Array>, observers: readonly BodyObserver[]) {
    this.source = source;
    this.observers = observers;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    try {
      for await (const piece of this.source) {
        for (const observer of this.observers) {
          const waiting = observer.onPiece?.(piece.length);
          if (waiting !== undefined) await waiting;
        }
        yield piece;
      }
    } finally {
      for (const observer of this.observers) observer.onEnd?.();
    }
  }
}

/** Whether a body can be read only once, so that its request cannot be repeated. */
export function isStream(body: RequestBody | undefined): boolean {
  return typeof body === "object" && !(body instanceof Uint8Array);
}

/**
 * Reads the whole body. Returns `undefined` if it is longer than `byteCountMax`; the rest is not
 * read.
 */
export async function readBytes(
  { body }: Pick<FetchResponse, "body">,
  byteCountMax: number,
): Promise<Uint8Array | undefined> {
  const { bytes, isWhole } = await readChunks(body, byteCountMax);
  return isWhole ? bytes : undefined;
}

/** Reads and returns at most the first `byteCountMax` bytes of the body; the rest is not read. */
export async function readBeginning(
  { body }: Pick<FetchResponse, "body">,
  byteCountMax: number,
): Promise<Uint8Array> {
  return (await readChunks(body, byteCountMax)).bytes;
}

/** Maximum length of a short text, such as an error or a token. */
const TEXT_BYTES_MAX = 1_048_576;

/** Reads the beginning of the body as text, up to 1 MiB. Invalid UTF-8 becomes U+FFFD. */
export async function readText(response: Pick<FetchResponse, "body">): Promise<string> {
  return decoder.decode(await readBeginning(response, TEXT_BYTES_MAX));
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

async function readChunks(
  body: AsyncIterable<Uint8Array>,
  byteCountMax: number,
): Promise<{ readonly bytes: Uint8Array; readonly isWhole: boolean }> {
  const chunks: Uint8Array[] = [];
  let left = byteCountMax;
  for await (const chunk of body) {
    if (chunk.length > left) {
      chunks.push(chunk.subarray(0, left));
      return { bytes: concatBytes(chunks), isWhole: false };
    }
    chunks.push(chunk);
    left -= chunk.length;
  }
  return { bytes: concatBytes(chunks), isWhole: true };
}
