/** The operations of the API: one entry for each method and path. */
import { Type } from "@sinclair/typebox";
import {
  ConflictCounts,
  ConflictPage,
  ConflictPolicy,
  ConflictPolicyStatus,
  ResolutionPage,
  UndoneResolutions,
  UndoRequest,
} from "./conflicts.ts";
import { COUCHDB_OPERATIONS } from "./couchdb-operations.ts";
import {
  AlertDelivery,
  BulkCommand,
  CommandedJobs,
  CommandPage,
  FailingPage,
  FailureCounts,
  FailurePage,
  GatedLoginPage,
  Job,
  JobPage,
  PastPage,
  ReplacedCredentials,
  RetriedFailures,
  RunPage,
} from "./jobs.ts";
import {
  Budget,
  BudgetDefinition,
  BudgetPage,
  DrainedNodes,
  EndpointPage,
  GroupPage,
  NodePage,
  NodeSettings,
  Rates,
  WorkerPage,
} from "./nodes.ts";
import type { Operation } from "./operation.ts";
import { QUERIES, type Query } from "./queries.ts";
import { CheckedReplication, Rule, RuleDefinition, RulePlan, RulesPage } from "./rules.ts";
import {
  Done,
  described,
  exactly,
  json,
  listOf,
  nullable,
  oneOf,
  optional,
  recordOf,
  text,
} from "./schema.ts";
import { SecretsStatus } from "./secrets.ts";
import { Topology } from "./topology.ts";
import { UpgradeStatus } from "./upgrade.ts";

/** Body of a command. */
const Reason = exactly({
  why: optional(nullable(text, { description: "the reason for the command, stored with the job" })),
});
const reason = { body: Reason, isBodyOptional: true } as const;

/** Credentials to replace, and their replacement. */
const Credentials = exactly({
  host: described(text, "URL or host of the server"),
  username: described(text, "account whose credentials are replaced"),
  side: optional(oneOf(["source", "target"])),
  owner: optional(nullable(text)),
  auth: described(recordOf(json), "new credentials, as `auth` of a replication document"),
  why: optional(nullable(text)),
});

const commands = {
  _pause: "Pause",
  _resume: "Resume",
  _retry: "Retry",
  _reset: "Reset",
  _cancel: "Cancel",
} as const;

const jobCommands = Object.fromEntries(
  Object.entries(commands).flatMap(([name, verb]): [string, Operation][] => [
    [
      `POST /_tandem/jobs/${name}`,
      { summary: `${verb} the jobs that match a filter`, ...reason, answer: CommandedJobs },
    ],
    [`POST /_tandem/jobs/{id}/${name}`, { summary: `${verb} a job`, ...reason, answer: Done }],
  ]),
);

const tandemOperations: Readonly<Record<string, Operation>> = {
  ...jobCommands,
  "POST /_tandem/_batch": {
    summary: "Send several short requests in one batch",
    answer: undefined,
  },
  "GET /_tandem/openapi.json": { summary: "Get this document", answer: json },
  "GET /_tandem/jobs": { summary: "List jobs", answer: JobPage },
  "GET /_tandem/jobs/{id}": { summary: "Show a job", answer: Job },
  "GET /_tandem/jobs/{id}/runs": { summary: "List the last runs of a job", answer: RunPage },
  "POST /_tandem/jobs/{id}/_start_from": {
    summary: "Start a job from an update sequence",
    body: exactly({
      since: described(
        json,
        "update sequence of the source (number, string or list), or time (2026-01-31T23:59:59Z)",
      ),
      why: optional(nullable(text)),
    }),
    answer: Done,
  },
  "POST /_tandem/jobs/_retry_failures": {
    summary: "Retry the failed documents of jobs",
    ...reason,
    answer: CommandedJobs,
  },
  "GET /_tandem/jobs/{id}/failures": { summary: "List failed documents", answer: FailurePage },
  "GET /_tandem/jobs/{id}/failures/_counts": {
    summary: "Count failed documents by reason",
    answer: FailureCounts,
  },
  "POST /_tandem/jobs/{id}/failures/_retry": {
    summary: "Retry failed documents",
    body: exactly({ ids: optional(described(listOf(text), "ids of documents; all by default")) }),
    isBodyOptional: true,
    answer: RetriedFailures,
  },
  "GET /_tandem/alerts": { summary: "Show the delivery of alerts", answer: AlertDelivery },
  "POST /_tandem/alerts/_test": { summary: "Send a test alert", answer: Done },
  "GET /_tandem/commands": {
    summary: "List bulk commands (for several jobs), newest first",
    answer: CommandPage,
  },
  "GET /_tandem/commands/{id}": { summary: "Show a command", answer: BulkCommand },
  "DELETE /_tandem/commands/{id}": { summary: "Cancel a command", answer: Done },
  "POST /_tandem/commands/{id}/_undo": {
    summary: "Undo a command",
    ...reason,
    answer: CommandedJobs,
  },
  "GET /_tandem/failing": { summary: "Group failing jobs by cause", answer: FailingPage },
  "GET /_tandem/topology": {
    summary: "Show the source and target databases of the jobs",
    answer: Topology,
  },
  "GET /_tandem/logins": {
    summary: "List accounts whose logins have to wait",
    answer: GatedLoginPage,
  },
  "GET /_tandem/conflicts": {
    summary: "Count documents with conflicts by database",
    answer: ConflictCounts,
  },
  "GET /_tandem/databases/{database}/conflicts": {
    summary: "List documents with conflicts",
    answer: ConflictPage,
  },
  "GET /_tandem/databases/{database}/conflicts/policy": {
    summary: "Show how conflicts are resolved",
    answer: ConflictPolicyStatus,
  },
  "PUT /_tandem/databases/{database}/conflicts/policy": {
    summary: "Set how conflicts are resolved",
    body: ConflictPolicy,
    answer: Done,
  },
  "DELETE /_tandem/databases/{database}/conflicts/policy": {
    summary: "Do not resolve conflicts",
    answer: Done,
  },
  "GET /_tandem/databases/{database}/conflicts/resolutions": {
    summary: "List resolutions of conflicts, newest first",
    answer: ResolutionPage,
  },
  "POST /_tandem/databases/{database}/conflicts/_undo": {
    summary: "Undo resolutions of conflicts, and remove the policy",
    body: UndoRequest,
    answer: UndoneResolutions,
  },
  "GET /_tandem/events": { summary: "Follow events of jobs", answer: undefined },
  "GET /_tandem/events/_past": { summary: "List past events of jobs", answer: PastPage },
  "POST /_tandem/credentials/_replace": {
    summary: "Replace the credentials that jobs and rules use for an account",
    body: Credentials,
    answer: ReplacedCredentials,
  },
  "POST /_tandem/replications/_check": {
    summary: "Check a replication document",
    body: described(recordOf(json), "a replication document"),
    answer: CheckedReplication,
  },
  "GET /_tandem/rules": { summary: "List rules", answer: RulesPage },
  "GET /_tandem/rules/{name}": { summary: "Show a rule", answer: Rule },
  "PUT /_tandem/rules/{name}": {
    summary: "Create or change a rule; with dry_run=true, only plan the change",
    body: RuleDefinition,
    answer: Type.Union([Done, RulePlan]),
  },
  "DELETE /_tandem/rules/{name}": {
    summary: "Remove a rule; with dry_run=true, only plan the removal",
    answer: Type.Union([Done, RulePlan]),
  },
  "GET /_tandem/nodes": { summary: "List nodes", answer: NodePage },
  "POST /_tandem/nodes/{name}/_drain": { summary: "Drain a node", answer: DrainedNodes },
  "POST /_tandem/nodes/{name}/_undrain": {
    summary: "Allow a drained node to accept jobs again",
    answer: DrainedNodes,
  },
  "GET /_tandem/workers": { summary: "List workers of the queue", answer: WorkerPage },
  "GET /_tandem/rates": { summary: "Show counts for each minute of the last hour", answer: Rates },
  "GET /_tandem/endpoints": { summary: "List servers referenced by jobs", answer: EndpointPage },
  "GET /_tandem/groups": { summary: "List groups for fair-share scheduling", answer: GroupPage },
  "GET /_tandem/budgets": { summary: "List budgets", answer: BudgetPage },
  "GET /_tandem/budgets/{name}": { summary: "Show a budget", answer: Budget },
  "PUT /_tandem/budgets/{name}": { summary: "Set a budget", body: BudgetDefinition, answer: Done },
  "DELETE /_tandem/budgets/{name}": { summary: "Remove a budget", answer: Done },
  "GET /_tandem/settings": { summary: "List settings of the node", answer: NodeSettings },
  "GET /_tandem/secrets": { summary: "Show sealing keys", answer: SecretsStatus },
  "GET /_tandem/upgrade": { summary: "Show the format of the store", answer: UpgradeStatus },
  "POST /_tandem/upgrade/_enable": {
    summary: "Enable the highest format that all nodes support",
    answer: UpgradeStatus,
  },
  "POST /_tandem/secrets/_rotate": { summary: "Rotate the sealing key", answer: SecretsStatus },
};

/** All operations by method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  ...COUCHDB_OPERATIONS,
  ...Object.fromEntries(
    Object.entries(tandemOperations).map(([name, operation]): [string, Operation] => {
      const query = (QUERIES as Readonly<Record<string, Query>>)[name];
      return [name, query === undefined ? operation : { ...operation, query }];
    }),
  ),
};
