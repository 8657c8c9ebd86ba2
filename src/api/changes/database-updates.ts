/**
 * `/_db_updates`: databases created, updated and deleted, with all values of `feed`
 * (`global_changes_httpd`).
 */
import type { DatabaseRegistry, DatabaseUpdate } from "../../databases/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { streamedJson } from "../http/responses.ts";
import { ADMIN } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type Feed, type FeedQuery, type FeedStart, feedQuery } from "./feed-query.ts";
import { waitFor } from "./feed-wait.ts";

const PAGE_COUNT_MAX = 1_000;

export function databaseUpdatesRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute("GET", "/_db_updates", { ...ADMIN, admission: "free-if-live" }, (call) =>
      updates(parts, call),
    ),
  ];
}

async function updates(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const query = feedQuery(call, parts.settings.changesTimeoutMs);
  const headers =
    query.feed === "eventsource" ? { "Content-Type": "text/event-stream" } : undefined;
  return streamedJson(feed(parts, call, query), headers);
}

async function* feed(
  parts: DatabaseParts,
  call: Call,
  query: FeedQuery,
): AsyncGenerator<string, void, undefined> {
  const { kv, databases } = parts;
  const { descending } = query;
  const form = FORMS[query.feed];
  const since = await kv.read((tx) => startOf(tx, databases, query.since));
  let position = since;
  let left = query.limit;
  let rowCount = 0;
  // Rejects a sequence of another server before anything is sent.
  await kv.read((tx) => databases.updates.page(tx, { since, limit: 1 }));
  yield form.opening;
  while (left > 0) {
    const limit = Math.min(left, PAGE_COUNT_MAX);
    // A descending feed is read as a single page with one row per database, because clients do
    // not page backwards.
    const options = descending ? { since, descending, limit: left } : { since: position, limit };
    const { entries } = await kv.read((tx) => databases.updates.page(tx, options));
    for (const update of entries) yield form.row(update, rowCount++ === 0);
    position = entries.at(-1)?.sequence ?? position;
    left -= entries.length;
    if (entries.length === limit && !descending) continue;
    const isOver = descending || query.feed === "normal";
    if (isOver || left === 0 || (query.feed === "longpoll" && rowCount > 0)) break;
    const wait = { ...query, clock: parts.runtime.clock, signal: call.request.signal };
    const changed = (signal: AbortSignal) => nextUpdate(parts, position, signal);
    const reason = yield* waitFor(changed, { ...wait, heartbeat: form.heartbeat });
    if (reason !== "changed") break;
  }
  yield form.closing(position);
}

async function startOf(
  tx: ReadTransaction,
  { times, updates }: DatabaseRegistry,
  since: FeedStart,
): Promise<string> {
  if (since.kind === "sequence") return since.sequence;
  const isNow = since.kind === "now" || times.isFuture(since.timeMs);
  return isNow ? updates.lastSequence(tx) : times.sequenceBefore(tx, since.timeMs);
}

async function nextUpdate(
  { kv, databases }: DatabaseParts,
  since: string,
  signal: AbortSignal,
): Promise<"changed" | "gone"> {
  try {
    const watch = await kv.transact(
      async (tx) => {
        const { entries } = await databases.updates.page(tx, { since, limit: 1 });
        return entries.length > 0 ? undefined : databases.updates.watch(tx);
      },
      { whenUnknown: "retry", signal },
    );
    try {
      await watch?.fired(signal);
    } finally {
      watch?.cancel();
    }
    return "changed";
  } catch (error) {
    if (signal.aborted) return "gone";
    throw error;
  }
}

/** The format of a feed on the wire. */
interface FeedForm {
  readonly opening: string;
  readonly heartbeat: string;
  row(update: DatabaseUpdate, isFirst: boolean): string;
  closing(lastSequence: string): string;
}

const OBJECT_FORM: FeedForm = {
  opening: '{"results":[\n',
  heartbeat: "\n",
  row: (update, isFirst) => `${isFirst ? "" : ",\n"}${rowText(update)}`,
  closing: (lastSequence) => `\n],\n"last_seq":${JSON.stringify(lastSequence)}}\n`,
};

const FORMS: Readonly<Record<Feed, FeedForm>> = {
  normal: OBJECT_FORM,
  longpoll: OBJECT_FORM,
  continuous: {
    opening: "",
    heartbeat: "\n",
    row: (update) => `${rowText(update)}\n`,
    closing: (last_seq) => `${JSON.stringify({ last_seq })}\n`,
  },
  // A format of Tandem. For this feed, CouchDB sends the raw rows of its `_global_changes`
  // database.
  eventsource: {
    opening: "",
    heartbeat: "event: heartbeat\ndata: \n\n",
    row: (update) => `data: ${rowText(update)}\nid: ${update.sequence}\n\n`,
    closing: () => "",
  },
};

function rowText({ name, kind, sequence }: DatabaseUpdate): string {
  return JSON.stringify({ db_name: name, type: kind, seq: sequence });
}
