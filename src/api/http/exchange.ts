/**
 * The API as a function from request to response. It uses no socket: `host/http/node-server.ts` serves it, and tests
 * call it.
 */

export interface ApiRequest {
  readonly method: string;
  /** The path as it came, percent escapes and all, without the query. */
  readonly path: string;
  /** Decoded names and values, in order; the last of a repeated name counts. */
  readonly query: ReadonlyMap<string, string>;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: AsyncIterable<Uint8Array>;
  /** The address of the client. */
  readonly peer: string;
  /** Whether it came over TLS to this server; what a proxy in front says is in the headers. */
  readonly isSecure: boolean;
  /** Whether its connection has one of the last places, which are kept for server administrators. */
  readonly isReserved?: boolean;
  /** Aborts when the client has gone, or the server stops: with a ServerStoppingError. */
  readonly signal: AbortSignal;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * Text and bytes are sent with a Content-Length; a stream in chunks, as fast as the client reads. A stream that fails
   * breaks the connection, so that a client never takes half an answer for a whole one.
   */
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array | string> | undefined;
}

/** Never rejects: what goes wrong is a response, too. */
export type Api = (request: ApiRequest) => Promise<ApiResponse>;

/** The sender of a request, once authenticated. `SecuritySubject` holds the part that decides about rights. */
export interface User {
  /** Null when the request names no user. */
  readonly name: string | null;
  readonly roles: readonly string[];
  readonly isAdmin: boolean;
  /** How that was found out: `default`, `cookie`, `proxy`, `jwt`. */
  readonly handler?: string;
  /** The same handler, when it took the word of somebody else for name and roles: `proxy`, `jwt`. */
  readonly vouchedBy?: string;
  /** The value of a `Set-Cookie` header that keeps the session going. */
  readonly renewedCookie?: string;
}
