/**
 * The HTTP client: the port `Fetch`, and its decorators for retries, redirects, rate limits,
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
export type { IamCredentials, IamTokenParts } from "./iam-token.ts";
export { IAM_TOKEN_URL, IamToken } from "./iam-token.ts";
export type { GateOpening, Login, LoginGates, LoginRecord, LoginVerdict } from "./login-gate.ts";
export {
  admitLogin,
  isIdle,
  LOGIN_RECORD_EMPTY,
  LoginGatedError,
  openGate,
  settleLogin,
} from "./login-gate.ts";
export { MemoryLoginGates } from "./memory-login-gates.ts";
export { SecretsInUse } from "./secrets-in-use.ts";
export { SessionLogin } from "./session-login.ts";
export type { GrantSettings, GrantSource } from "./shared-grant.ts";
export { GRANT_SETTINGS_DEFAULT, Grants, SharedGrant } from "./shared-grant.ts";
export type { WaitReason } from "./waits.ts";
export { Activity, withActivity } from "./with-activity.ts";
export { withBatches } from "./with-batches.ts";
export type { BudgetUnit, EndpointSpending, Spending } from "./with-budget.ts";
export { withBudget } from "./with-budget.ts";
export { withConnection } from "./with-connection.ts";
export {
  decodedBody,
  EncodingDamagedError,
  EncodingUnsupportedError,
  withDecoding,
} from "./with-decoding.ts";
export { withGrant } from "./with-grant.ts";
export type { BasicCredentials } from "./with-headers.ts";
export { basicAuthorization, withHeaders } from "./with-headers.ts";
export type { Latency } from "./with-latency.ts";
export { Latencies, withLatency } from "./with-latency.ts";
export { withLinger } from "./with-linger.ts";
export { withLoginGate } from "./with-login-gate.ts";
export { RateLimits, withRateLimit } from "./with-rate-limit.ts";
export type { RedirectOptions } from "./with-redirects.ts";
export { withRedirects } from "./with-redirects.ts";
export type { RetriedFailure, RetryOptions } from "./with-retry.ts";
export { withRetry } from "./with-retry.ts";
export { withSecretsNoted } from "./with-secrets-noted.ts";
export { withSpans } from "./with-spans.ts";
export { withTimeLimit } from "./with-time-limit.ts";
