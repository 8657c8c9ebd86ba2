/**
 * The HTTP client: the interface `Fetch`, and its decorators for retries, redirects, rate limits,
 * budgets and sessions.
 */
export type { Connection, TlsSettings } from "./connection.ts";
export type { Fetch, FetchRequest, FetchResponse, RequestBody } from "./fetch.ts";
export {
  EgressRefusedError,
  RequestFailedError,
  readBeginning,
  readBytes,
  readText,
} from "./fetch.ts";
export type {
  ClosedGate,
  Login,
  LoginAnswer,
  LoginGates,
  LoginRecord,
  LoginVerdict,
  SettleLogin,
} from "./login-gate.ts";
export {
  admitLogin,
  closedGate,
  hasRejection,
  isIdle,
  LOGIN_RECORD_EMPTY,
  LoginGatedError,
  openGate,
  settleLogin,
} from "./login-gate.ts";
export { MemoryLoginGates } from "./memory-login-gates.ts";
export { Activity, withActivity } from "./middleware/with-activity.ts";
export { withBatches } from "./middleware/with-batches.ts";
export type { BudgetUnit, EndpointSpending, Spending } from "./middleware/with-budget.ts";
export { withBudget } from "./middleware/with-budget.ts";
export { withConnection } from "./middleware/with-connection.ts";
export {
  decodedBody,
  EncodingDamagedError,
  EncodingUnsupportedError,
  withDecoding,
} from "./middleware/with-decoding.ts";
export { withGrant } from "./middleware/with-grant.ts";
export type { BasicCredentials } from "./middleware/with-headers.ts";
export { basicAuthorization, withHeaders } from "./middleware/with-headers.ts";
export { Latencies, withLatency } from "./middleware/with-latency.ts";
export { withLinger } from "./middleware/with-linger.ts";
export { credentialOf, withLoginGate } from "./middleware/with-login-gate.ts";
export { RateLimits, withRateLimit } from "./middleware/with-rate-limit.ts";
export { withRedirects } from "./middleware/with-redirects.ts";
export type { RetriedFailure, RetryOptions } from "./middleware/with-retry.ts";
export { withRetry } from "./middleware/with-retry.ts";
export { withSecretsNoted } from "./middleware/with-secrets-noted.ts";
export { withSpans } from "./middleware/with-spans.ts";
export { withTimeLimit } from "./middleware/with-time-limit.ts";
export { ReferencedToken } from "./referenced-token.ts";
export { SecretsInUse } from "./secrets-in-use.ts";
export { SessionLogin } from "./session-login.ts";
export type { GrantSettings, GrantSource } from "./shared-grant.ts";
export { GRANT_SETTINGS_DEFAULT, Grants, SharedGrant } from "./shared-grant.ts";
export type { IamCredentials, OAuthClient, TokenLoginParts } from "./token-login.ts";
export {
  CLIENT_AUTH_METHODS,
  IAM_TOKEN_URL,
  iamRequest,
  oauthRequest,
  TokenLogin,
} from "./token-login.ts";
export type { WaitReason } from "./waits.ts";
