/**
 * Client of the HTTP API, for Node.js and browsers. The command line and the dashboard share its
 * parts; `entry.ts` is what the package exports.
 *
 * Reading order: requests.ts, commands.ts, feed.ts, client.ts.
 */
export {
  type Client,
  clientOf,
  type RetriedDocuments,
  type RuleBody,
  type RunningCommand,
} from "./client.ts";
export {
  continuedCommand,
  countJobs,
  followCommand,
  type JobCount,
  type JobPreview,
} from "./commands.ts";
export { type FeedItem, followFeed } from "./feed.ts";
export type { Exchanged, Method, RequestParts } from "./requests.ts";
export { ApiError, Requests, segmentOf, withQuery } from "./requests.ts";
