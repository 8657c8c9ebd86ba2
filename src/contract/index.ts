/**
 * The contract of the API below `/_tandem/`: schemas of its JSON, the types of the same names, and
 * its OpenAPI document. The API, the command line and the dashboard share it.
 */
export type {
  ConflictCounts,
  ConflictPage,
  ConflictPolicy,
  ConflictPolicyStatus,
  ConflictRow,
  ResolutionPage,
  ResolutionRow,
  UndoneResolutions,
  UndoRequest,
} from "./conflicts.ts";
export type {
  AlertDelivery,
  BulkCommand,
  CommandedJobs,
  CommandPage,
  ControlEvent,
  DocumentFailure,
  FailingGroup,
  FailingPage,
  FailureCount,
  FailurePage,
  GatedLoginPage,
  Job,
  JobEvent,
  JobPage,
  JobRun,
  LastFailure,
  LoginGate,
  PastPage,
  ReplacedCredentials,
  RetriedFailures,
  RunPage,
} from "./jobs.ts";
export type {
  Budget,
  BudgetPage,
  BudgetRates,
  BudgetRow,
  DrainedNodes,
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
export {
  EVENT_FILTERS,
  type IntegerParameter,
  JOB_FILTERS,
  JOB_ORDERS,
  NONE,
  type Parameter,
  QUERIES,
  type Query,
  type QueryValues,
} from "./queries.ts";
export {
  DOCUMENT_OPTIONS,
  eachOption,
  FAR_BOUNDS,
  OPTION_NAMES,
  type Option,
  type OptionValue,
  REPLICATION_OPTIONS,
  REPLICATION_OPTIONS_DEFAULT,
  type ReplicationOptions,
  WEIGHT,
} from "./replication-options.ts";
export {
  type CheckedEndpoint,
  type CheckedReplication,
  type PlannedDatabases,
  type Rule,
  RuleDefinition,
  type RulePlan,
  type RuleStatus,
  type RulesPage,
} from "./rules.ts";
export type { Done } from "./schema.ts";
export type { SecretsStatus } from "./secrets.ts";
export type { Topology, TopologyEdge } from "./topology.ts";
export type { UpgradeStatus } from "./upgrade.ts";
export {
  FAILURE_CLASSES,
  type FailureClass,
  isLagUnknown,
  JOB_CHANGES,
  JOB_STATES,
  type JobChangeName,
  STATE_WORDS,
  type StatedJob,
  stateWord,
} from "./words.ts";

/** Loads the OpenAPI document lazily, because nothing else needs all schemas. */
export const loadOpenApi = () => import("./openapi.ts");
