/**
 * The operations below `/_tandem/`: one entry for each method and path whose JSON is defined by
 * Tandem.
 */
import { type TSchema, Type } from "@sinclair/typebox";
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
  BudgetPage,
  DrainedNodes,
  EndpointPage,
  GroupPage,
  NodePage,
  NodeSettings,
  Rates,
  WorkerPage,
} from "./nodes.ts";
import { CheckedReplication, Rule, RulePlan, RulesPage } from "./rules.ts";
import { Done, json } from "./schema.ts";
import { SecretsStatus } from "./secrets.ts";

export interface Operation {
  readonly summary: string;
  /** JSON of a successful response; `undefined` for a stream or an HTML page. */
  readonly answer: TSchema | undefined;
}

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
      { summary: `${verb} the jobs that match a filter`, answer: CommandedJobs },
    ],
    [`POST /_tandem/jobs/{id}/${name}`, { summary: `${verb} a job`, answer: Done }],
  ]),
);

/** Keyed by method and path, in the notation of the routes. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
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
    answer: Done,
  },
  "POST /_tandem/jobs/_retry_failures": {
    summary: "Retry the failed documents of jobs",
    answer: CommandedJobs,
  },
  "GET /_tandem/jobs/{id}/failures": { summary: "List failed documents", answer: FailurePage },
  "GET /_tandem/jobs/{id}/failures/_counts": {
    summary: "Count failed documents by reason",
    answer: FailureCounts,
  },
  "POST /_tandem/jobs/{id}/failures/_retry": {
    summary: "Retry failed documents",
    answer: RetriedFailures,
  },
  "GET /_tandem/alerts": { summary: "Show the delivery of alerts", answer: AlertDelivery },
  "POST /_tandem/alerts/_test": { summary: "Send a test alert", answer: Done },
  "GET /_tandem/commands": {
    summary: "List commands for several jobs, newest first",
    answer: CommandPage,
  },
  "GET /_tandem/commands/{id}": { summary: "Show a command", answer: BulkCommand },
  "DELETE /_tandem/commands/{id}": { summary: "Cancel a command", answer: Done },
  "POST /_tandem/commands/{id}/_undo": { summary: "Undo a command", answer: CommandedJobs },
  "GET /_tandem/failing": { summary: "Group failing jobs by cause", answer: FailingPage },
  "GET /_tandem/logins": {
    summary: "List accounts whose logins have to wait",
    answer: GatedLoginPage,
  },
  "GET /_tandem/events": { summary: "Follow events of jobs", answer: undefined },
  "GET /_tandem/events/_past": { summary: "List past events of jobs", answer: PastPage },
  "POST /_tandem/credentials/_replace": {
    summary: "Replace the credentials of an account",
    answer: ReplacedCredentials,
  },
  "POST /_tandem/replications/_check": {
    summary: "Check a replication document",
    answer: CheckedReplication,
  },
  "GET /_tandem/rules": { summary: "List rules", answer: RulesPage },
  "GET /_tandem/rules/{name}": { summary: "Show a rule", answer: Rule },
  "PUT /_tandem/rules/{name}": {
    summary: "Create or change a rule; with dry_run=true, only plan the change",
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
  "PUT /_tandem/budgets/{name}": { summary: "Set a budget", answer: Done },
  "DELETE /_tandem/budgets/{name}": { summary: "Remove a budget", answer: Done },
  "GET /_tandem/settings": { summary: "List settings of the node", answer: NodeSettings },
  "GET /_tandem/secrets": { summary: "Show sealing keys", answer: SecretsStatus },
  "POST /_tandem/secrets/_rotate": { summary: "Rotate the sealing key", answer: SecretsStatus },
};
