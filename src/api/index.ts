/**
 * CouchDB 3.5's HTTP API in front of our own databases, as a function from request to response.
 *
 * Begin with `createApi`. Other modules add resources with `defineRoute` and the helpers for bodies, queries and answers.
 */

export { createApi } from "./api.ts";
export type { ApiParts, ApiSettings } from "./api-parts.ts";
export { requireAdmin } from "./authorization.ts";
export type { BudgetsParts } from "./budgets.ts";
export { budgetRoutes } from "./budgets.ts";
export type { Call, Handler } from "./call.ts";
export { parameter } from "./call.ts";
export type { CorsOf, CorsSettings } from "./cors.ts";
export { CORS_EXPOSED_HEADERS, CORS_HEADERS, CORS_METHODS } from "./cors.ts";
export type { ErrorAnswer } from "./error-responses.ts";
export { errorAnswer, errorResponse } from "./error-responses.ts";
export type { Api, ApiRequest, ApiResponse, User } from "./exchange.ts";
export { ServerStoppingError } from "./exchange.ts";
export { failureRoutes } from "./failures.ts";
export type { FindJobParts } from "./find-job.ts";
export type { JobsParts } from "./jobs.ts";
export { jobRoutes } from "./jobs.ts";
export type { NodeConfiguration } from "./node-configuration.ts";
export { nodeConfigurationRoutes } from "./node-configuration.ts";
export type { NodeMetrics, Statistic, StatisticsTree } from "./node-metrics.ts";
export { nodeMetricsRoutes } from "./node-metrics.ts";
export {
  booleanParameter,
  integerParameter,
  jsonParameter,
  queryError,
  textListParameter,
} from "./query.ts";
export { replicateRoutes } from "./replicate.ts";
export { readJsonBody, readJsonMembers, requireJsonType } from "./request-body.ts";
export { inPieces, json, jsonText, streamedJson } from "./responses.ts";
export type { Access, Route } from "./router.ts";
export { defineRoute } from "./router.ts";
export type { SchedulerParts } from "./scheduler.ts";
export { schedulerRoutes } from "./scheduler.ts";
export type { SessionAuthority } from "./session.ts";
export { sessionRoutes } from "./session.ts";
export type { StaticFile, StaticFiles } from "./static-files.ts";
export type { WorkersParts } from "./workers.ts";
export { workersRoutes } from "./workers.ts";
