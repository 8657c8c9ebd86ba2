/**
 * Replication: what is asked for, which jobs there are, and how one is run (RFC 016).
 *
 * Reading order: replication.ts, endpoint.ts, replication-run.ts, held-replication.ts, replication-job.ts, scheduler.ts.
 */
export { AbandonedReplications } from "./abandoned-replications.ts";
export type { Budget, BudgetDirection, BudgetRates } from "./budget.ts";
export { BudgetInvalidError, budgetView, parseBudget } from "./budget.ts";
export { Budgets } from "./budgets.ts";
export { certificateFilesRefusal } from "./certificate-files.ts";
export { CleanUp } from "./clean-up.ts";
export type { Comparison, ComparisonObserver, Difference } from "./compare-databases.ts";
export { compareDatabases, describeDifference } from "./compare-databases.ts";
export type { RevisionsOfDocument } from "./copy-batch.ts";
export { BatchCopier } from "./copy-batch.ts";
export type { Endpoint, EndpointInfo, StreamedDocument, WriteFailure } from "./endpoint.ts";
export { EndpointError, TextDocument } from "./endpoint.ts";
export type { EndpointsParts } from "./endpoints.ts";
export { Endpoints } from "./endpoints.ts";
export { describeFailure } from "./failure.ts";
export type { FailureCount } from "./failure-list.ts";
export { FailureList } from "./failure-list.ts";
export type { DocumentFailure, FailureLog } from "./failure-log.ts";
export { MemoryFailureLog } from "./failure-log.ts";
export type { ListedFailure } from "./failure-record.ts";
export { readFilterCode } from "./filter-code.ts";
export type { ReplicationJobParts } from "./held-replication.ts";
export { HttpEndpoint } from "./http-endpoint.ts";
export type { CommandOutcome } from "./job-commands.ts";
export { JobCommands } from "./job-commands.ts";
export type { ControlAction, ControlEvent, JobControl } from "./job-control.ts";
export { JobControls } from "./job-controls.ts";
export type { ReplicationFailure, ReplicationState } from "./job-data.ts";
export { hasEnded, REPLICATION_JOB_TYPE } from "./job-data.ts";
export type { RetryOutcome } from "./job-failures.ts";
export { JobFailures } from "./job-failures.ts";
export type { JobFilter } from "./job-filter.ts";
export { matchesFilter } from "./job-filter.ts";
export type { JobEntry } from "./job-views.ts";
export { documentView, jobView, taskView } from "./job-views.ts";
export { LocalEndpoint } from "./local-endpoint.ts";
export type { OutagesParts } from "./outages.ts";
export { Outages } from "./outages.ts";
export { NO_OWN_CHECKPOINT, OwnCheckpoints } from "./own-checkpoint.ts";
export { ReplicationInvalidError } from "./parse-fields.ts";
export { parseReplication } from "./parse-replication.ts";
export { RemovedDatabases } from "./removed-databases.ts";
export type { Replication } from "./replication.ts";
export { ReplicationHook } from "./replication-hook.ts";
export type { ReplicationIdContext } from "./replication-id.ts";
export { replicationId } from "./replication-id.ts";
export type { Option, ReplicationOptions } from "./replication-options.ts";
export {
  REPLICATION_OPTIONS,
  REPLICATION_OPTIONS_DEFAULT,
  WEIGHT,
} from "./replication-options.ts";
export { ReplicationOwnership } from "./replication-ownership.ts";
export type { ReplicationEnding, ReplicationProgress } from "./replication-run.ts";
export { ReplicationRun, StopRequest } from "./replication-run.ts";
export type { Requester, TransientOutcome } from "./replicator.ts";
export { JobNotYoursError, Replicator } from "./replicator.ts";
export type { ReplicatorConfig } from "./replicator-config.ts";
export { REPLICATOR_CONFIG_DEFAULT } from "./replicator-config.ts";
export { REPLICATOR_KEY_SHAPES } from "./replicator-keys.ts";
export { Scheduler } from "./scheduler.ts";
export { httpDate, isoTime } from "./times.ts";
