/**
 * CouchDB 3.5's HTTP API for local databases, as a function from request to response.
 *
 * One folder per subject; a folder imports only those above it:
 *
 *   http         requests, responses, routes, queries, bodies, errors, CORS
 *   access       authorization, sessions, and opening the database of a request
 *   documents    documents, attachments, and bulk requests
 *   databases    databases and their settings
 *   queries      `_all_docs` and `_find`
 *   changes      `_changes` and `_db_updates`
 *   replication  `_replicate`, `_scheduler`, jobs, budgets, workers; the only folder that imports
 *                the replicator
 *   server       `/`, `/_node`, `/_utils`
 *
 * `createApi` combines the routes. Other layers add resources with `defineRoute` and the helpers
 * for bodies, queries and responses. Reading order: http/exchange.ts, http/router.ts, api.ts,
 * access/database-access.ts, documents/documents.ts.
 */
export { METRICS_ROLE, READER_ROLE } from "./access/authorization.ts";
export type { SessionAuthority } from "./access/session.ts";
export { sessionRoutes } from "./access/session.ts";
export { createApi } from "./api.ts";
export type { ApiParts, ApiSettings, Compaction } from "./api-parts.ts";
export type { CorsOf, CorsSettings } from "./http/cors.ts";
export { CORS_EXPOSED_HEADERS, CORS_HEADERS, CORS_METHODS } from "./http/cors.ts";
export type { Api, ApiRequest, ApiResponse, User } from "./http/exchange.ts";
export { json } from "./http/responses.ts";
export { MEMBER, PUBLIC } from "./http/route-facts.ts";
export type { Route } from "./http/router.ts";
export { defineRoute } from "./http/router.ts";
export type { StaticFile, StaticFiles } from "./http/static-files.ts";
export { alertRoutes } from "./replication/alerts.ts";
export type { BudgetRoutesParts } from "./replication/budgets.ts";
export { budgetRoutes } from "./replication/budgets.ts";
export type { CheckParts } from "./replication/check.ts";
export { checkRoutes } from "./replication/check.ts";
export { checkpointRoutes } from "./replication/checkpoints.ts";
export { commandRoutes } from "./replication/commands.ts";
export { credentialsRoutes } from "./replication/credentials.ts";
export type { EventsParts } from "./replication/events.ts";
export { eventRoutes } from "./replication/events.ts";
export { failingRoutes } from "./replication/failing.ts";
export { failureRoutes } from "./replication/failures.ts";
export type { JobsParts } from "./replication/jobs.ts";
export { jobRoutes, jobRows } from "./replication/jobs.ts";
export { loginRoutes } from "./replication/logins.ts";
export { nodesRoutes } from "./replication/nodes.ts";
export { pausingOf } from "./replication/paused-writes.ts";
export { replicateRoutes } from "./replication/replicate.ts";
export { rollupRoutes } from "./replication/rollups.ts";
export type { RulesParts } from "./replication/rules.ts";
export { ruleRoutes } from "./replication/rules.ts";
export type { SchedulerParts } from "./replication/scheduler.ts";
export { schedulerRoutes } from "./replication/scheduler.ts";
export { type TopologyParts, topologyRoutes } from "./replication/topology.ts";
export type { WorkersParts } from "./replication/workers.ts";
export { workersRoutes } from "./replication/workers.ts";
export type { NodeConfiguration } from "./server/node-configuration.ts";
export { nodeConfigurationRoutes } from "./server/node-configuration.ts";
export type {
  Distribution,
  NodeMetrics,
  Statistic,
  StatisticsTree,
} from "./server/node-metrics.ts";
export { nodeMetricsRoutes } from "./server/node-metrics.ts";
export type { SecretKeys } from "./server/secrets.ts";
export { secretsRoutes } from "./server/secrets.ts";
export type { StoreFormats } from "./server/upgrade.ts";
export { upgradeRoutes } from "./server/upgrade.ts";
export { UUID_ALGORITHMS, UUID_FORMATS, UuidSource } from "./uuids.ts";
