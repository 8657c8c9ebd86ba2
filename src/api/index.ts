/**
 * CouchDB 3.5's HTTP API in front of our own databases, as a function from request to response.
 *
 * Begin with `createApi`. Other modules add resources with `defineRoute` and the helpers for bodies, queries and answers.
 */
export { requireAdmin } from "./access/authorization.ts";
export type { SessionAuthority } from "./access/session.ts";
export { sessionRoutes } from "./access/session.ts";
export { createApi } from "./api.ts";
export type { ApiParts, ApiSettings } from "./api-parts.ts";
export type { Call, Handler } from "./http/call.ts";
export { parameter } from "./http/call.ts";
export type { CorsOf, CorsSettings } from "./http/cors.ts";
export { CORS_EXPOSED_HEADERS, CORS_HEADERS, CORS_METHODS } from "./http/cors.ts";
export type { ErrorAnswer } from "./http/error-responses.ts";
export { errorAnswer, errorResponse } from "./http/error-responses.ts";
export type { Api, ApiRequest, ApiResponse, User } from "./http/exchange.ts";
export { ServerStoppingError } from "./http/exchange.ts";
export {
  booleanParameter,
  integerParameter,
  jsonParameter,
  queryError,
  textListParameter,
} from "./http/query.ts";
export { readJsonBody, readJsonMembers, requireJsonType } from "./http/request-body.ts";
export { inPieces, json, jsonText, streamedJson } from "./http/responses.ts";
export type { Access, Route } from "./http/router.ts";
export { defineRoute } from "./http/router.ts";
export type { StaticFile, StaticFiles } from "./http/static-files.ts";
export type { BudgetRoutesParts } from "./replication/budgets.ts";
export { budgetRoutes } from "./replication/budgets.ts";
export { failureRoutes } from "./replication/failures.ts";
export type { FindJobParts } from "./replication/find-job.ts";
export type { JobsParts } from "./replication/jobs.ts";
export { jobRoutes } from "./replication/jobs.ts";
export { replicateRoutes } from "./replication/replicate.ts";
export type { SchedulerParts } from "./replication/scheduler.ts";
export { schedulerRoutes } from "./replication/scheduler.ts";
export type { WorkersParts } from "./replication/workers.ts";
export { workersRoutes } from "./replication/workers.ts";
export type { NodeConfiguration } from "./server/node-configuration.ts";
export { nodeConfigurationRoutes } from "./server/node-configuration.ts";
export type { NodeMetrics, Statistic, StatisticsTree } from "./server/node-metrics.ts";
export { nodeMetricsRoutes } from "./server/node-metrics.ts";
