/** `couch-tandem/client`: a client of the HTTP API, for Node.js and browsers. */
export type {
  AlertDelivery,
  Budget,
  BulkCommand,
  ConflictPolicy,
  ConflictPolicyStatus,
  ConflictRow,
  DocumentFailure,
  EndpointRow,
  FailingGroup,
  FailingPage,
  GroupRow,
  Job,
  JobEvent,
  JobRun,
  NodeRow,
  ResolutionRow,
  Rule,
  RulePlan,
  Topology,
  TopologyEdge,
} from "../contract/index.ts";
export type {
  BookmarkQuery,
  Client,
  ClientEvent,
  ClientOptions,
  CommandResult,
  EventFilter,
  JobAction,
  JobFilter,
  JobListQuery,
  Listing,
  PastQuery,
  RetriedDocuments,
  RowRange,
  RuleBody,
  RuleListQuery,
  RunningCommand,
} from "./client.ts";
export { createClient } from "./client.ts";
export type { UndoneConflicts, UndoSelection } from "./conflicts.ts";
export type { Fetch, FetchedResponse, FetchInit } from "./requests.ts";
export { ApiError } from "./requests.ts";
