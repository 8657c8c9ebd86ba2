/**
 * Client of the HTTP API, for Node.js and browsers. The command line and the dashboard share its
 * parts; the package exports `entry.ts`.
 *
 * Reading order: requests.ts, commands.ts, feed.ts, client.ts.
 */
export {
  type Client,
  clientOf,
  type JobAction,
  type RetriedDocuments,
  type RuleBody,
  type RunningCommand,
} from "./client.ts";
export { continuedCommand, type JobCount, type JobPreview } from "./commands.ts";
export type { UndoneConflicts, UndoSelection } from "./conflicts.ts";
export { type FeedItem, followFeed } from "./feed.ts";
export type { Exchanged, Method, RequestParts, RequestsParts } from "./requests.ts";
export { ApiError, Requests, segmentOf, withQuery } from "./requests.ts";
