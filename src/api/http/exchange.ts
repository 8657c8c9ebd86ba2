/**
 * The API as a function from request to response. It uses no sockets: `host/http/node-server.ts`
 * serves it, and tests call it directly.
 */

export interface ApiRequest {
  readonly method: string;
  /** The raw path: with percent-escapes, without the query. */
  readonly path: string;
  /** Decoded names and values, in order. If a name is repeated, its last value wins. */
  readonly query: ReadonlyMap<string, string>;
  /** Name of a query parameter that is given more than once; `query` has its last value. */
  readonly repeatedParameter?: string | undefined;
  /** Headers with names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: AsyncIterable<Uint8Array>;
  /** The address of the client. */
  readonly peer: string;
  /**
   * Whether this server received the request over TLS. Protocols reported by a reverse proxy are in
   * the headers.
   */
  readonly isSecure: boolean;
  /** Whether the connection is reserved for server administrators. */
  readonly isReserved?: boolean;
  /** Aborts when the client disconnects or, with a ServerStoppingError, when the server stops. */
  readonly signal: AbortSignal;
}

export interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * The body. Text and bytes are sent with a Content-Length; a stream is chunked, at the client's
   * pace. If a stream fails, the connection is closed, so that a client never mistakes a truncated
   * response for a complete one.
   */
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array | string> | undefined;
}

/** The returned promise never rejects: errors become responses. */
export type Api = (request: ApiRequest) => Promise<ApiResponse>;

/**
 * The sender of a request, once authenticated. `SecuritySubject` contains the properties that
 * determine rights.
 */
export interface User {
  /** User name; null for an anonymous request. */
  readonly name: string | null;
  readonly roles: readonly string[];
  readonly isAdmin: boolean;
  /** The authentication handler: `default`, `cookie`, `proxy`, `jwt`. */
  readonly handler?: string;
  /** The handler, if it supplies name and roles so that `_users` is not read: `proxy`, `jwt`. */
  readonly vouchedBy?: string;
  /** Value of a `Set-Cookie` header that extends the session. */
  readonly renewedCookie?: string;
}
