/**
 * Replication: requests, jobs, and runs of jobs (RFC 016).
 *
 * One folder per subject, which imports only folders listed above it:
 *
 *   request        documents and bodies: addresses, options, the replication id
 *   budgets        limits on the use of endpoints
 *   logins         stored login gates of accounts
 *   endpoints      the two sides: a CouchDB server (`http`) or a local database (`local`)
 *   jobs           the stored data of a job, its states, and decisions about it (`decide.ts`)
 *   job-log        events of jobs, and their last runs
 *   job-lists      lists of jobs, their index and counts
 *   alerts         notifications about jobs
 *   chains         jobs that wait for others (`after`)
 *   job-watching   outages, backlogs, parked jobs, removed jobs whose run has not ended
 *   job-changes    adding, replacing and removing jobs; ownership of a replication
 *   failures       lists of documents that did not arrive
 *   commands       operator commands for one job and for many
 *   questions      requests to other servers, delegated by frontends to replication nodes
 *   parking        watchers that wake parked jobs
 *   nodes          reports of processes that run jobs, and drain orders
 *   documents      `_replicator` documents: effects of writes, and states written back
 *   copying        batches, individually copied documents, and attribution of failures
 *   checkpoints    replication logs on both sides, and the position to resume at
 *   run            one run of a job: changes, progress, end
 *   scheduling     which jobs a node runs
 *   rules          one replication for each matching database of a server
 *
 * Entry points for upper layers: `Replicator`, `JobCommands`, `CredentialReplacements`,
 * `ReplicationChecks`, `CleanUp`. Reading order: request/replication.ts, endpoints/endpoint.ts,
 * run/replication-run.ts, run/held-replication.ts, run/replication-job.ts, scheduling/scheduler.ts.
 */
export type { Alert, AlertKind } from "./alerts/alert.ts";
export { ALERT_KINDS, alertGroup } from "./alerts/alert.ts";
export type { WaitingAlert } from "./alerts/alert-store.ts";
export { AlertWatch } from "./alerts/alert-watch.ts";
export type { Budget } from "./budgets/budget.ts";
export { BudgetInvalidError, budgetView, parseBudget } from "./budgets/budget.ts";
export { Budgets } from "./budgets/budgets.ts";
export { ChainJobs } from "./chains/chain-jobs.ts";
export { awaitedNames, CHAIN_TYPE, Chains } from "./chains/chains.ts";
export { isMissing } from "./checkpoints/open-sides.ts";
export { NO_OWN_CHECKPOINT, OwnCheckpoints } from "./checkpoints/own-checkpoint.ts";
export type { ReplicationLog } from "./checkpoints/replication-log.ts";
export { isOfOneRun, parseReplicationLog } from "./checkpoints/replication-log.ts";
export {
  continueLog,
  continueStoredLog,
  LOG_BYTES_MAX,
} from "./checkpoints/stored-continuation.ts";
export { CleanUp } from "./clean-up.ts";
export type { BulkAction, BulkCommand } from "./commands/bulk-command.ts";
export { BULK_ACTIONS } from "./commands/bulk-command.ts";
export type { UndoRefusal } from "./commands/bulk-commands.ts";
export { CommandJobs } from "./commands/command-jobs.ts";
export type { CommandOutcome } from "./commands/job-commands.ts";
export { JobCommands } from "./commands/job-commands.ts";
export type { Comparison, ComparisonObserver, Difference } from "./copying/compare-databases.ts";
export { compareDatabases, describeDifference } from "./copying/compare-databases.ts";
export { BatchCopier } from "./copying/copy-batch.ts";
export { parseReplacement } from "./credential-replacements.ts";
export { withStoredSecrets } from "./documents/masked-secrets.ts";
export { RemovedDatabases } from "./documents/removed-databases.ts";
export { isReplicatorDatabase, ReplicationHook } from "./documents/replication-hook.ts";
export type {
  ChangedDocument,
  Endpoint,
  RevisionRequest,
  SourceSequence,
  StreamedDocument,
} from "./endpoints/endpoint.ts";
export {
  EndpointError,
  isChange,
  parseSequence,
  sequenceText,
  TextDocument,
} from "./endpoints/endpoint.ts";
export type { EndpointsParts, SecretDestination, SecretLookup } from "./endpoints/endpoints.ts";
export { Endpoints } from "./endpoints/endpoints.ts";
export { HttpEndpoint } from "./endpoints/http/http-endpoint.ts";
export { HttpServer } from "./endpoints/http/http-server.ts";
export type { ContinuedOutcome } from "./endpoints/local/access.ts";
export { describeFailure, statusOfFailure } from "./failures/failure.ts";
export { FailureLists, fitsRetryRequest, RETRY_IDS_MAX } from "./failures/failure-lists.ts";
export type { DocumentFailure } from "./failures/run-failures.ts";
export { MemoryRunFailures } from "./failures/run-failures.ts";
export { AbandonedReplications } from "./job-changes/abandoned-replications.ts";
export { ReplicationOwnership } from "./job-changes/replication-ownership.ts";
export { Backlogs } from "./job-lists/backlogs.ts";
export type { FailingGroup } from "./job-lists/failing-groups.ts";
export { IndexFolder } from "./job-lists/index-folder.ts";
export type { EventFilter, FollowedEvent } from "./job-lists/job-events.ts";
export type { JobFigures, Lag } from "./job-lists/job-figures.ts";
export type { JobFilter } from "./job-lists/job-filter.ts";
export { JobIndex } from "./job-lists/job-index.ts";
export type { JobOrder, JobPosition } from "./job-lists/job-list-plan.ts";
export type { JobPageRequest } from "./job-lists/job-lists.ts";
export type { JobMeasure } from "./job-lists/job-measures.ts";
export type { JobEntry } from "./job-lists/job-views.ts";
export { documentView, jobView, taskView } from "./job-lists/job-views.ts";
export type { FailingCount, TagStates } from "./job-lists/status-counts.ts";
export {
  TOPOLOGY_EDGES_MAX,
  TOPOLOGY_JOBS_MAX,
  TopologyBuilder,
} from "./job-lists/topology.ts";
export { JobEventLog } from "./job-log/job-event-log.ts";
export type { JobRun } from "./job-log/job-run.ts";
export { JobRuns } from "./job-log/job-runs.ts";
export { BacklogWatch } from "./job-watching/backlog-watch.ts";
export { ClockSteps, dueAfterStep } from "./job-watching/clock-steps.ts";
export { HaltedRuns } from "./job-watching/halted-runs.ts";
export { Outages } from "./job-watching/outages.ts";
export { COMMAND_TYPE, JOB_TYPES, ParkedJobs } from "./job-watching/parked-jobs.ts";
export { NEVER_SEC } from "./jobs/decide.ts";
export type { Failing, ReplicationFailure } from "./jobs/failing.ts";
export { Glob } from "./jobs/glob.ts";
export type { ControlEvent, Decider, JobControl } from "./jobs/job-control.ts";
export { WHY_LENGTH_MAX } from "./jobs/job-control.ts";
export { JobControls } from "./jobs/job-controls.ts";
export type { ReplicationState } from "./jobs/job-data.ts";
export { REPLICATION_JOB_TYPE } from "./jobs/job-data.ts";
export { splitJobData } from "./jobs/job-data-record.ts";
export type { JobGroup } from "./jobs/job-groups.ts";
export { jobName } from "./jobs/job-name.ts";
export { LOCAL_RULE_TYPE, RULE_TYPES } from "./jobs/rule-jobs.ts";
export { replaceableLogin } from "./logins/gated-logins.ts";
export type { GatedAccount } from "./logins/stored-login-gates.ts";
export { StoredLoginGates } from "./logins/stored-login-gates.ts";
export type { ClusterEndpoint } from "./nodes/cluster-endpoints.ts";
export { UNPLACED_MAX } from "./nodes/node-labels.ts";
export type { ProcessMeasure } from "./nodes/node-report.ts";
export { NodeReporter } from "./nodes/node-reporter.ts";
export { NodeStore } from "./nodes/node-store.ts";
export type { NodeEntry } from "./nodes/nodes.ts";
export type { MinuteCounts, RunCounts } from "./nodes/run-rates.ts";
export { MINUTE_MS, NO_RUNS } from "./nodes/run-rates.ts";
export { SourceWatches } from "./parking/source-watches.ts";
export { SweepPace } from "./parking/sweep-pace.ts";
export { AskedQuestions } from "./questions/asked-questions.ts";
export { Questions } from "./questions/questions.ts";
export type { EndpointCheck } from "./replication-checks.ts";
export { ReplicationChecks } from "./replication-checks.ts";
export type { Requester } from "./replicator.ts";
export { Replicator } from "./replicator.ts";
export type { ReplicatorConfig } from "./replicator-config.ts";
export { REPLICATOR_CONFIG_DEFAULT, TLS_DEFAULT } from "./replicator-config.ts";
export { REPLICATOR_KEY_SHAPES } from "./replicator-keys.ts";
export { adminOnlyRefusal } from "./request/admin-only.ts";
export {
  ReplicationInvalidError,
  replicationMembers,
  withExactMembers,
} from "./request/parse-fields.ts";
export { parseReplication } from "./request/parse-replication.ts";
export { resolveReferences } from "./request/references.ts";
export type { HttpAddress, Replication } from "./request/replication.ts";
export type { ReplicationIdContext } from "./request/replication-id.ts";
export { replicationId } from "./request/replication-id.ts";
export { startSequenceFault } from "./request/start-sequence.ts";
export { isTagName, parseTagFilter, splitTerm, type Tags } from "./request/tags.ts";
export { maskedRule } from "./rules/masked-rule.ts";
export { matchRule, parseRule, type Rule, ruleReplication } from "./rules/rule.ts";
export { RuleFollowers } from "./rules/rule-followers.ts";
export { listNames } from "./rules/rule-listing.ts";
export type { PlannedDatabases, RulePlan } from "./rules/rule-plans.ts";
export { RulePlans } from "./rules/rule-plans.ts";
export { RuleStore } from "./rules/rule-store.ts";
export type { Rules, ShownRule } from "./rules/rules.ts";
export { RuleSecretError } from "./rules/rules.ts";
export { readFilterCode } from "./run/filter-code.ts";
export { ReplicationJob } from "./run/replication-job.ts";
export type { ReplicationEnding, TargetOrigin } from "./run/replication-run.ts";
export { ReplicationRun, StopRequest } from "./run/replication-run.ts";
export { isSameSecurity } from "./run/same-security.ts";
export { Scheduler } from "./scheduling/scheduler.ts";
export { isoTime } from "./times.ts";
