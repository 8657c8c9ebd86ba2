/** Query parameters common to all feeds. */
import { FIRST_SEQUENCE } from "../../databases/index.ts";
import { badRequest, sinceTime } from "../../protocol/index.ts";
import type { Call } from "../http/call.ts";
import { flagParameter, integerParameter } from "../http/query.ts";

const HEARTBEAT_MS_DEFAULT = 60_000;

export type Feed = "normal" | "longpoll" | "continuous" | "eventsource";

export type FeedStart =
  | { readonly kind: "sequence"; readonly sequence: string }
  | { readonly kind: "time"; readonly timeMs: number }
  | { readonly kind: "now" };

export interface FeedQuery {
  readonly feed: Feed;
  /** Start of the feed: after a sequence, at a time, or after the newest change. */
  readonly since: FeedStart;
  readonly limit: number;
  readonly descending: boolean;
  readonly heartbeatMs: number | undefined;
  /** Maximum wait for a change. A feed with heartbeats waits until the client disconnects. */
  readonly timeoutMs: number | undefined;
}

/**
 * Parses the query of a feed. `timeoutMsMax` is both the default and the maximum of `timeout`.
 * Throws a ProtocolError that names the error.
 */
export function feedQuery(call: Call, timeoutMsMax: number): FeedQuery {
  const { query, headers } = call.request;
  const heartbeatMs = heartbeat(call);
  const timeoutMs = integerParameter(call, "timeout");
  const waitMs = Math.min(timeoutMs ?? timeoutMsMax, timeoutMsMax);
  const feed = feedOf(query.get("feed"));
  // A reconnecting browser repeats the original URL, so its `Last-Event-ID` header takes
  // precedence.
  const lastEvent = feed === "eventsource" ? headers.get("last-event-id") : undefined;
  return {
    feed,
    since: since(lastEvent ?? query.get("last-event-id") ?? query.get("since")),
    limit: integerParameter(call, "limit") ?? Number.MAX_SAFE_INTEGER,
    descending: flagParameter(call, "descending"),
    heartbeatMs,
    timeoutMs: heartbeatMs === undefined ? waitMs : undefined,
  };
}

function feedOf(text = "normal"): Feed {
  if (text === "live") return "continuous";
  const feeds: readonly Feed[] = ["normal", "longpoll", "continuous", "eventsource"];
  const feed = feeds.find((name) => name === text);
  if (feed !== undefined) return feed;
  throw badRequest("Supported `feed` types: normal, continuous, live, longpoll, eventsource");
}

/** Parses `since`. Sequences are strings, but some clients send them as JSON. */
function since(text = FIRST_SEQUENCE): FeedStart {
  if (text === "now") return { kind: "now" };
  const plain = text.startsWith('"') ? text.replace(/^"|"$/g, "") : text;
  const timeMs = sinceTime(plain);
  return timeMs === undefined ? { kind: "sequence", sequence: plain } : { kind: "time", timeMs };
}

function heartbeat(call: Call): number | undefined {
  const text = call.request.query.get("heartbeat");
  if (text === undefined || text === "false") return undefined;
  if (text === "true") return HEARTBEAT_MS_DEFAULT;
  if (!/^[+-]?\d+$/.test(text)) {
    const expected = "Expecting a positive integer value (in milliseconds).";
    throw badRequest(`Invalid heartbeat value. ${expected}`);
  }
  if (Number(text) > 0) return Number(text);
  throw badRequest("The heartbeat value should be a positive integer (in milliseconds).");
}
