/**
 * The reason why a request got no answer, by the system's error code: the `cause` of HTTP_REQUEST_FAILED. One table
 * says what follows from each code.
 */

interface NetworkError {
  /** Whether there was a connection, so that what was sent over it may have broken it. */
  readonly wasConnected: boolean;
  /** Whether the server as a whole is away, so that other jobs would meet the same. */
  readonly isOutage: boolean;
}

const NETWORK_ERRORS: ReadonlyMap<unknown, NetworkError> = new Map([
  ["EAI_AGAIN", { wasConnected: false, isOutage: true }],
  ["ECONNREFUSED", { wasConnected: false, isOutage: true }],
  ["ECONNRESET", { wasConnected: true, isOutage: true }],
  ["EHOSTUNREACH", { wasConnected: false, isOutage: true }],
  ["ENETUNREACH", { wasConnected: false, isOutage: true }],
  ["ENOTFOUND", { wasConnected: false, isOutage: true }],
  ["ETIMEDOUT", { wasConnected: true, isOutage: true }],
  ["PROXY_FAILED", { wasConnected: false, isOutage: false }],
  ["UND_ERR_CONNECT_TIMEOUT", { wasConnected: false, isOutage: true }],
  ["UND_ERR_HEADERS_TIMEOUT", { wasConnected: true, isOutage: true }],
  ["UND_ERR_SOCKET", { wasConnected: true, isOutage: true }],
]);

/** What is not listed broke off over a connection, and says nothing of the server as a whole. */
const OTHER: NetworkError = { wasConnected: true, isOutage: false };

export function networkError(cause: unknown): NetworkError {
  return NETWORK_ERRORS.get(cause) ?? OTHER;
}
