/**
 * One HTTP request, as a function. Retries, credentials and limits are functions from fetch to fetch (`with-…`), so
 * each is one idea and all can be combined.
 */
import { concatBytes, OperationalError } from "../base/index.ts";
import type { Connection } from "./connection.ts";

/** A body that can be produced again when a request is repeated. */
export type RequestBody =
  | string
  | Uint8Array
  | { readonly length: number; stream(): AsyncIterable<Uint8Array> };

export interface FetchRequest {
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly url: string;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  /** Silence on the connection, before the headers or between two pieces of the body, ends the request. */
  readonly inactivityTimeoutMs: number;
  /** Absent: directly, with the system's certificates. */
  readonly connection?: Connection;
  /**
   * The root of the server, with a slash at its end, if the request may travel with others to it: its answer is short and comes soon, and
   * may come as a whole.
   */
  readonly batchRoot?: string;
  readonly signal: AbortSignal;
}

export interface FetchResponse {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  /** Must be read to its end or discarded, or the connection is held. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Gives up what was not read. */
  discard(): void;
}

/** Rejects with a RequestFailedError when no complete answer came, an EgressRefusedError when it was not sent, or with `signal.reason`. */
export type Fetch = (request: FetchRequest) => Promise<FetchResponse>;

export type RequestFailure = {
  readonly method: string;
  readonly url: string;
  readonly cause: string;
  /** The proxy of the request, without credentials. */
  readonly proxy?: string | undefined;
};

/** No answer: refused, reset, not resolved, timed out. `details.cause` is the system's word for it (`ECONNREFUSED`). */
export class RequestFailedError extends OperationalError {
  override readonly name = "RequestFailedError";
  declare readonly details: RequestFailure;

  constructor(details: RequestFailure, options?: ErrorOptions) {
    super("HTTP_REQUEST_FAILED", "The request got no answer", details, options);
  }
}

/** The configuration does not let this node connect to the server; `details.reason` names the host and the rule. To ask again is in vain. */
export class EgressRefusedError extends OperationalError {
  override readonly name = "EgressRefusedError";

  constructor(reason: string) {
    super("HTTP_EGRESS_REFUSED", "This node may not connect to the server", { reason });
  }
}

/** Who is told of a body while it is read. */
export interface BodyObserver {
  /** A piece has come. The reader gets it when the promise, if there is one, resolves; a rejection ends the reading. */
  onPiece?(byteCount: number): Promise<void> | undefined;
  /** Nothing more is read, for whatever reason. */
  onEnd?(): void;
}

/** The same answer; `observer` is told of its body, after those that were there before. */
export function observeBody(response: FetchResponse, observer: BodyObserver): FetchResponse {
  const { status, headers, body } = response;
  const observed =
    body instanceof ObservedBody
      ? new ObservedBody(body.source, [...body.observers, observer])
      : new ObservedBody(body, [observer]);
  return { status, headers, body: observed, discard: () => response.discard() };
}

/** One iterator for all observers: a generator for each would take longer than all else that a short answer needs. */
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

/** Whether a body can be read only once, so that its request cannot be sent again. */
export function isStream(body: RequestBody | undefined): boolean {
  return typeof body === "object" && !(body instanceof Uint8Array);
}

/** The whole body, or `undefined` if it has more than `byteCountMax` bytes, of which the rest is not read. */
export async function readBytes(
  { body }: Pick<FetchResponse, "body">,
  byteCountMax: number,
): Promise<Uint8Array | undefined> {
  const { bytes, isWhole } = await readChunks(body, byteCountMax);
  return isWhole ? bytes : undefined;
}

/** The first `byteCountMax` bytes of the body, of which the rest is not read. */
export async function readBeginning(
  { body }: Pick<FetchResponse, "body">,
  byteCountMax: number,
): Promise<Uint8Array> {
  return (await readChunks(body, byteCountMax)).bytes;
}

/** Length of a short text, such as an error or a token. */
const TEXT_BYTES_MAX = 1_048_576;

/** The beginning of the body as text, up to a mebibyte. Invalid UTF-8 becomes U+FFFD. */
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
