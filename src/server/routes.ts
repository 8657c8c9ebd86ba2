/** The API's resources for jobs and sessions. */
import {
  alertRoutes,
  type BudgetRoutesParts,
  budgetRoutes,
  type CheckParts,
  checkpointRoutes,
  checkRoutes,
  commandRoutes,
  credentialsRoutes,
  type EventsParts,
  eventRoutes,
  failingRoutes,
  failureRoutes,
  jobRoutes,
  loginRoutes,
  type NodeConfiguration,
  type NodeMetrics,
  nodeConfigurationRoutes,
  nodeMetricsRoutes,
  nodesRoutes,
  type Route,
  type RulesParts,
  replicateRoutes,
  rollupRoutes,
  ruleRoutes,
  type SchedulerParts,
  type SecretKeys,
  type StoreFormats,
  schedulerRoutes,
  secretsRoutes,
  sessionRoutes,
  type TopologyParts,
  topologyRoutes,
  upgradeRoutes,
  type WorkersParts,
  workersRoutes,
} from "../api/index.ts";
import type { Authentication } from "./users/authentication.ts";
import type { SessionCookies } from "./users/session-cookies.ts";

export function routes(
  parts: SchedulerParts &
    WorkersParts &
    BudgetRoutesParts &
    CheckParts &
    RulesParts &
    EventsParts &
    TopologyParts & {
      readonly authentication: Authentication;
      readonly cookies: SessionCookies;
      readonly configuration: NodeConfiguration;
      readonly metrics: NodeMetrics;
      readonly nodeName: string;
      readonly secrets: SecretKeys;
      readonly formats: StoreFormats;
    },
): readonly Route[] {
  const { authentication } = parts;
  return [
    ...nodeConfigurationRoutes(parts.configuration, parts.nodeName),
    ...nodeMetricsRoutes(parts.metrics, parts.nodeName),
    ...secretsRoutes(parts.secrets),
    ...upgradeRoutes(parts.formats),
    ...checkpointRoutes(parts),
    ...replicateRoutes(parts.replicator),
    ...schedulerRoutes(parts),
    ...workersRoutes(parts),
    ...nodesRoutes(parts),
    ...rollupRoutes(parts),
    ...failingRoutes(parts.replicator),
    ...topologyRoutes(parts),
    ...loginRoutes(parts.replicator),
    ...failureRoutes(parts),
    ...jobRoutes(parts),
    ...commandRoutes(parts.replicator),
    ...alertRoutes(parts.replicator),
    ...eventRoutes(parts),
    ...credentialsRoutes(parts),
    ...ruleRoutes(parts),
    ...checkRoutes(parts),
    ...budgetRoutes(parts),
    ...sessionRoutes({
      get handlers() {
        return authentication.handlers;
      },
      logIn: (name, password, request) => authentication.logIn(name, password, request),
      clearedCookie: (request) => parts.cookies.cleared(request),
    }),
  ];
}
