/**
 * The contract of the API below `/_tandem/`: schemas of its JSON, the types of the same names, and
 * its OpenAPI document. The API, the command line and the dashboard share it.
 */
export {
  type ControlEvent,
  type DocumentFailure,
  FAILURE_CLASSES,
  type FailingGroup,
  type FailingPage,
  type FailureCount,
  type FailurePage,
  type HistoryEvent,
  JOB_STATES,
  type Job,
  type JobEvent,
  type JobPage,
  type JobRun,
  type JobState,
  type LastFailure,
  type PastPage,
} from "./jobs.ts";
export type {
  Budget,
  BudgetRates,
  BudgetRow,
  EndpointPage,
  EndpointRow,
  GroupPage,
  GroupRow,
  NodePage,
  NodeRow,
  NodeSettings,
  RateMinute,
  Rates,
  SettingRow,
} from "./nodes.ts";
export { type DescribedRoute, openApiDocument } from "./openapi.ts";
export { OPERATIONS, type Operation } from "./operations.ts";
export type {
  CheckedEndpoint,
  CheckedReplication,
  PlannedDatabases,
  Rule,
  RulePlan,
  RuleStatus,
  RulesPage,
} from "./rules.ts";
export type { SecretsStatus } from "./secrets.ts";
