/**
 * Reasons for missing responses, by the system's error code (the `cause` of HTTP_REQUEST_FAILED).
 * The table contains the consequences and a description of each code.
 */

interface NetworkError {
  /** Whether a connection was established. If true, the data sent might have caused the failure. */
  readonly wasConnected: boolean;
  /** Whether the server as a whole is unreachable, so that other jobs would fail as well. */
  readonly isOutage: boolean;
  /** Description that completes a sentence, such as "the connection was reset". */
  readonly sentence: string;
}

/** Describes an outage: the server cannot be reached, so other jobs fail as well. */
function unreachable(sentence: string): NetworkError {
  return { wasConnected: false, isOutage: true, sentence };
}

/**
 * Describes a connection that ended before the response. The cause is either an outage or the data
 * that was sent.
 */
function lost(sentence: string): NetworkError {
  return { wasConnected: true, isOutage: true, sentence };
}

/**
 * Describes a connection that failed at a proxy or in the TLS handshake. The cause is neither an
 * outage nor the data sent.
 */
function rejected(sentence: string): NetworkError {
  return { wasConnected: false, isOutage: false, sentence };
}

/** Describes a failure that concerns only this request. The data sent might have caused it. */
function broken(sentence: string): NetworkError {
  return { wasConnected: true, isOutage: false, sentence };
}

const NETWORK_ERRORS: ReadonlyMap<unknown, NetworkError> = new Map([
  ["EAI_AGAIN", unreachable("the name of the host could not be resolved (temporary failure)")],
  ["ECONNREFUSED", unreachable("the connection was refused")],
  ["ECONNRESET", lost("the connection was reset")],
  ["EHOSTUNREACH", unreachable("there is no route to the host")],
  ["ENETUNREACH", unreachable("there is no route to the network of the host")],
  ["ENOTFOUND", unreachable("the name of the host is unknown")],
  ["EPIPE", broken("the connection was closed while the request was sent")],
  ["ETIMEDOUT", lost("the connection timed out")],
  ["PROXY_407", rejected("the proxy requires other credentials (407)")],
  ["PROXY_FAILED", rejected("the proxy did not connect")],
  ["PROXY_TIMEOUT", rejected("the proxy did not connect in time")],
  ["UND_ERR_SOCKS5_AUTH_FAILED", rejected("the proxy rejected the credentials")],
  ["UND_ERR_SOCKS5_AUTH_REJECTED", rejected("the proxy requires another kind of authentication")],
  ["UND_ERR_SOCKS5_REPLY_1", rejected("the proxy reported a general failure")],
  ["UND_ERR_SOCKS5_REPLY_2", rejected("the rules of the proxy forbid the connection")],
  ["UND_ERR_SOCKS5_REPLY_3", rejected("the proxy reported that the network is unreachable")],
  ["UND_ERR_SOCKS5_REPLY_4", rejected("the proxy reported that the host is unreachable")],
  ["UND_ERR_SOCKS5_REPLY_5", rejected("the proxy reported that the connection was refused")],
  ["UND_ERR_SOCKS5_REPLY_6", rejected("the proxy reported that the connection timed out")],
  ["UND_ERR_CONNECT_TIMEOUT", unreachable("no connection was established in time")],
  ["UND_ERR_HEADERS_TIMEOUT", lost("the server did not respond in time")],
  ["UND_ERR_BODY_TIMEOUT", broken("the response stalled")],
  ["UND_ERR_SOCKET", lost("the connection was closed before the response")],
  ["TOO_MANY_INFORMATIONAL", broken("there were too many informational responses (1xx)")],
  ["REQUEST_TIMEOUT", broken("the request took too long")],
  ["BODY_BROKEN_OFF", broken("the response was incomplete")],
  ["BODY_MISENCODED", broken("the response does not match its Content-Encoding")],
  ["BAD_REDIRECT", broken("the response redirects to an unusable address")],
  ["MOVED", broken("the response redirects to another server")],
  ["TOO_MANY_REDIRECTS", broken("there were too many redirects")],
  ["TOKEN_UNUSABLE", broken("the response contains no usable token")],
  ["DEPTH_ZERO_SELF_SIGNED_CERT", rejected("the TLS certificate is self-signed")],
  [
    "SELF_SIGNED_CERT_IN_CHAIN",
    rejected("a certificate in the TLS certificate chain is self-signed"),
  ],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", rejected("the issuer of the TLS certificate is unknown")],
  ["UNABLE_TO_GET_ISSUER_CERT", rejected("the issuer of the TLS certificate is unknown")],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY", rejected("the issuer of the TLS certificate is unknown")],
  ["CERT_HAS_EXPIRED", rejected("the TLS certificate has expired")],
  ["CERT_NOT_YET_VALID", rejected("the TLS certificate is not valid yet")],
  ["CERT_REVOKED", rejected("the TLS certificate was revoked")],
  ["CERT_UNTRUSTED", rejected("the TLS certificate is not trusted")],
  ["ERR_TLS_CERT_ALTNAME_INVALID", rejected("the TLS certificate is for a different host")],
  ["ERR_SSL_WRONG_VERSION_NUMBER", rejected("the port does not speak TLS")],
  ["ERR_SSL_PACKET_LENGTH_TOO_LONG", rejected("the port does not speak TLS")],
]);

export function networkError(cause: unknown): NetworkError {
  const known = NETWORK_ERRORS.get(cause);
  if (known !== undefined) return known;
  const code = String(cause);
  return isAnswerOfProxy(code) ? rejected(sentenceOf(code)) : broken(sentenceOf(code));
}

/** Whether the code stands for a rejection by a proxy. False if the proxy could not be reached. */
export function isAnswerOfProxy(cause: string): boolean {
  return /^(PROXY_(FAILED|\d+)|UND_ERR_SOCKS5.*)$/.test(cause);
}

/**
 * Describes a code that is not in the table. An unexpected response to a login has the code `HTTP_`
 * followed by its status. The response of a proxy that rejects a tunnel has the code `PROXY_`
 * followed by its status.
 */
function sentenceOf(cause: string): string {
  const [, sender, status] = /^(HTTP|PROXY)_(\d+)$/.exec(cause) ?? [];
  if (status !== undefined)
    return `${sender === "HTTP" ? "the server" : "the proxy"} responded with ${status}`;
  if (cause.startsWith("UND_ERR_SOCKS5")) return `the proxy does not speak SOCKS 5 (${cause})`;
  if (cause.startsWith("HPE_")) return "the response is not HTTP";
  if (/TLS|SSL|CERT/.test(cause)) return `the TLS connection failed (${cause})`;
  return `the request failed (${cause})`;
}
