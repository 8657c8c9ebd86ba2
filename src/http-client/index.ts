/** HTTP as a client: the `Fetch` port and its decorators. */
export type { Connection, TlsSettings } from "./connection.ts";
export { withConnection } from "./connection.ts";
export type { Fetch, FetchRequest, FetchResponse, RequestBody } from "./fetch.ts";
export { RequestFailedError, readText } from "./fetch.ts";
export type { IamCredentials } from "./iam-token.ts";
export { IAM_TOKEN_URL, IamToken } from "./iam-token.ts";
export { SessionLogin } from "./session-login.ts";
export { Grants, SharedGrant } from "./shared-grant.ts";
export type { BudgetUnit, EndpointSpending, Spending } from "./with-budget.ts";
export { withBudget } from "./with-budget.ts";
export { withGrant } from "./with-grant.ts";
export type { BasicCredentials } from "./with-headers.ts";
export { withHeaders } from "./with-headers.ts";
export { RateLimits, withRateLimit } from "./with-rate-limit.ts";
export type { RedirectOptions } from "./with-redirects.ts";
export { withRedirects } from "./with-redirects.ts";
export type { RetryOptions } from "./with-retry.ts";
export { withRetry } from "./with-retry.ts";
