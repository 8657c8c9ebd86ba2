/**
 * `_changes` in all its feeds:
 *
 *   normal        the changes at the time of the request, as one JSON object
 *   longpoll      the same, but waits for the first change if necessary
 *   continuous    a line per change, until the client disconnects
 *   eventsource   the same, as server-sent events
 */
import { type Database, FIRST_SEQUENCE, shareOf } from "../../databases/index.ts";
import { matchingFilter, openDesignFilter } from "../../documents/index.ts";
import type { ReadTransaction } from "../../kv/index.ts";
import { readDatabase } from "../access/database-access.ts";
import type { DatabaseParts } from "../api-parts.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import {
  JoinedTexts,
  matchesEntityTag,
  notModified,
  oneLineWithin,
  type Piece,
  streamedJson,
} from "../http/responses.ts";
import type { RouteFacts } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type ChangesFilter, type ChangesQuery, changesQuery } from "./changes-query.ts";
import { ChangesReader, type ChangesRow, type OpenedFilter } from "./changes-reader.ts";
import type { Feed } from "./feed-query.ts";

const FACTS: RouteFacts = { access: "changes", admission: "free-if-live", isBatched: true };

export function changesRoutes(parts: DatabaseParts): Route[] {
  return [
    defineRoute(["GET", "POST"], "/{database}/_changes", FACTS, (call) => changes(parts, call)),
  ];
}

async function changes(parts: DatabaseParts, call: Call): Promise<ApiResponse> {
  const query = await changesQuery(call, parts.settings.changesTimeoutMs);
  const opened = await readDatabase(parts, call, async (tx, database) => ({
    database,
    current: await database.changes.lastSequence(tx),
    start: await startOf(tx, database, query),
    filter: await openFilter(parts, tx, call, database, query.filter),
  }));
  const { database, current, start, filter } = opened;
  const tag = isTagged(call, query) ? { ETag: `"${database.uuid}-${current}"` } : {};
  if (matchesEntityTag(call.request.headers.get("if-none-match"), tag.ETag)) {
    return notModified(tag);
  }
  const until = query.feed === "normal" ? current : undefined;
  const reader = new ChangesReader(parts, call, { query, database, filter, until });
  const headers = query.feed === "eventsource" ? { "Content-Type": "text/event-stream" } : tag;
  return streamedJson(feed(parts, { query, reader, since: start }), headers);
}

/**
 * The sequence after which the feed starts. As in CouchDB, a descending feed goes from the newest
 * change to the first, regardless of `since`.
 */
async function startOf(
  tx: ReadTransaction,
  { changes, times }: Database,
  query: ChangesQuery,
): Promise<string> {
  const { since, descending } = query;
  if (descending) return FIRST_SEQUENCE;
  switch (since.kind) {
    case "sequence":
      return since.sequence;
    case "time":
      return times.sequenceSince(tx, since.timeMs);
    case "now":
      return changes.lastSequence(tx);
  }
}

/**
 * Whether the response has an entity tag. A response has none if it depends on more than the
 * database and the URL: a POST has a body, and a filter function sees the user.
 */
function isTagged({ request: { method } }: Call, { feed: kind, filter }: ChangesQuery): boolean {
  return method !== "POST" && kind === "normal" && filter.kind !== "function";
}

async function openFilter(
  parts: DatabaseParts,
  tx: ReadTransaction,
  { request: { signal }, user }: Call,
  database: Database,
  filter: ChangesFilter,
): Promise<OpenedFilter> {
  switch (filter.kind) {
    case "all":
    case "ids":
      return filter;
    case "selector": {
      const share = shareOf(database.name, user.name);
      const pass = matchingFilter(filter.selector, { ...parts.functions, share, signal });
      return { kind: "documents", pass };
    }
    case "function": {
      const { name, request } = filter;
      return {
        kind: "documents",
        pass: await openDesignFilter(tx, parts, database, name, request),
      };
    }
  }
}

interface FeedParts {
  readonly query: ChangesQuery;
  readonly reader: ChangesReader;
  readonly since: string;
}

async function* feed(
  { runtime: { clock } }: DatabaseParts,
  { query, reader, since }: FeedParts,
): AsyncGenerator<Piece, void, undefined> {
  const form = FORMS[query.feed];
  let position = since;
  let page = await reader.page(position);
  let isFirst = true;
  let isGone = false;
  let sentMs = clock.monotonicMs();
  yield form.opening;
  for (;;) {
    position = page.lastSequence;
    for (const piece of rowPieces(page.rows, form, isFirst)) {
      yield piece;
      sentMs = clock.monotonicMs();
    }
    isFirst &&= page.rows.length === 0;
    if (reader.limitIsReached) break;
    if (page.isLast) {
      const isOver = query.descending || query.feed === "normal";
      if (isOver || (query.feed === "longpoll" && reader.hasRows)) break;
      const reason = yield* reader.wait(position, form.heartbeat);
      isGone = reason === "gone";
      if (reason !== "changed") break;
    } else if (query.heartbeatMs !== undefined) {
      // A filter can skip many changes, so heartbeats are also sent between pages.
      const nowMs = clock.monotonicMs();
      if (nowMs - sentMs >= query.heartbeatMs) {
        yield form.heartbeat;
        sentMs = nowMs;
      }
    }
    page = await (query.descending ? reader.page(since, position) : reader.page(position));
  }
  const pending = isGone ? 0 : await reader.pendingChangeCount(position);
  yield form.closing(position, pending);
}

/** The format of a feed on the wire. */
interface FeedForm {
  readonly opening: string;
  readonly heartbeat: string;
  /** Text that precedes a row; `behind` is the text that follows it. */
  readonly before: (isFirst: boolean) => string;
  readonly behind: (row: ChangesRow) => string;
  closing(lastSequence: string, pending: number): string;
}

const OBJECT_FORM: FeedForm = {
  opening: '{"results":[\n',
  heartbeat: "\n",
  before: (isFirst) => (isFirst ? "" : ",\n"),
  behind: () => "",
  closing: (lastSequence, pending) =>
    `\n],\n"last_seq":${JSON.stringify(lastSequence)},"pending":${pending}}\n`,
};

const FORMS: Readonly<Record<Feed, FeedForm>> = {
  normal: OBJECT_FORM,
  longpoll: OBJECT_FORM,
  continuous: {
    opening: "",
    heartbeat: "\n",
    before: () => "",
    behind: () => "\n",
    closing: (last_seq, pending) => `${JSON.stringify({ last_seq, pending })}\n`,
  },
  eventsource: {
    opening: "",
    heartbeat: "event: heartbeat\ndata: \n\n",
    before: () => "data: ",
    behind: ({ sequence }) => `\nid: ${sequence}\n\n`,
    closing: () => "",
  },
};

function* rowPieces(
  rows: readonly ChangesRow[],
  form: FeedForm,
  isFirst: boolean,
): Generator<Piece, void> {
  const joined = new JoinedTexts();
  for (const [index, row] of rows.entries()) {
    const before = form.before(isFirst && index === 0) + row.text;
    const behind = `}${form.behind(row)}`;
    if (row.document === undefined) {
      yield* joined.add(before + behind);
      continue;
    }
    for (const piece of oneLineWithin(`${before},"doc":`, row.document, behind)) {
      yield* joined.add(piece);
    }
  }
  yield* joined.finish();
}
