/**
 * `GET /_tandem/events`: events of jobs, as server-sent events (WHATWG HTML, "Server-sent events").
 * A client that reconnects with the id of its last event misses no event, unless it was
 * disconnected for longer than 15 minutes; such a gap is reported. `GET
 * /_tandem/events/_past`: past events, in pages. CouchDB has no counterpart.
 */

import { errorCode, type Runtime } from "../../base/index.ts";
import { type JobEvent, type PastPage, QUERIES } from "../../contract/index.ts";
import { badRequest } from "../../protocol/index.ts";
import type { EventFilter, FollowedEvent, JobEntry } from "../../replicator/index.ts";
import { isoTime, jobName } from "../../replicator/index.ts";
import { waitFor } from "../changes/feed-wait.ts";
import type { Call } from "../http/call.ts";
import type { ApiResponse } from "../http/exchange.ts";
import { readQuery } from "../http/query.ts";
import { json, streamedJson } from "../http/responses.ts";
import { OPERATIONS } from "../http/route-facts.ts";
import { defineRoute, type Route } from "../http/router.ts";
import { type AskedEvents, eventFilterOf } from "./job-query.ts";
import { type JobsParts, jobRows, resolvedFilter } from "./jobs.ts";

export interface EventsParts extends JobsParts {
  readonly runtime: Pick<Runtime, "clock">;
}

/** Delay after which a browser reconnects. */
const RETRY_MS = 1000;
const HEARTBEAT = ":\n\n";
const HEADERS = { "Content-Type": "text/event-stream", "X-Accel-Buffering": "no" };

export function eventRoutes(parts: EventsParts): readonly Route[] {
  return [
    defineRoute("GET", "/_tandem/events", OPERATIONS, (call) => follow(parts, call)),
    defineRoute("GET", "/_tandem/events/_past", OPERATIONS, (call) => listPast(parts, call)),
  ];
}

/** Lists past events, newest first. */
async function listPast(parts: EventsParts, call: Call): Promise<ApiResponse> {
  const query = readQuery(call, QUERIES["GET /_tandem/events/_past"]);
  const { before, limit } = query;
  const filter = await resolvedEvents(parts, eventFilterOf(query));
  const { events } = parts.replicator;
  const past = await checked(() => events.past(before, limit, filter), "before: expected", before);
  const rows = await eventRows(parts, past.events);
  return json(200, { events: rows, before: past.before ?? null } satisfies PastPage);
}

async function follow(parts: EventsParts, call: Call): Promise<ApiResponse> {
  const query = readQuery(call, QUERIES["GET /_tandem/events"]);
  const { heartbeat: heartbeatMs, timeout: timeoutMs } = query;
  const filter = await resolvedEvents(parts, eventFilterOf(query));
  // A reconnecting browser repeats the original URL, so its `Last-Event-ID` header takes
  // precedence.
  const since = call.request.headers.get("last-event-id") ?? query.since ?? "now";
  const { events } = parts.replicator;
  const after = since === "now" ? await events.lastId() : since;
  await checked(() => events.page(after, filter), "since: expected now or", since);
  return streamedJson(feed(parts, call, { filter, after, heartbeatMs, timeoutMs }), HEADERS);
}

async function resolvedEvents(
  parts: EventsParts,
  { asked, own }: AskedEvents,
): Promise<EventFilter> {
  return { ...(await resolvedFilter(parts, asked)), ...own };
}

/** Converts the error of an invalid event id into a ProtocolError 400. */
async function checked<T>(read: () => Promise<T>, expected: string, id = ""): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (errorCode(error) !== "REPLICATOR_EVENT_INVALID") throw error;
    throw badRequest(`${expected} an event id, got ${id.slice(0, 100)}`);
  }
}

interface Followed {
  readonly filter: EventFilter;
  readonly after: string;
  readonly heartbeatMs: number;
  /** Maximum wait for an event. Without it, the feed waits until the client disconnects. */
  readonly timeoutMs: number | undefined;
}

async function* feed(
  parts: EventsParts,
  call: Call,
  { filter, after, heartbeatMs, timeoutMs }: Followed,
): AsyncGenerator<string, void, undefined> {
  const { replicator, runtime } = parts;
  const { signal } = call.request;
  const wait = { clock: runtime.clock, signal, heartbeatMs, timeoutMs, heartbeat: HEARTBEAT };
  // Sends the start position first, so that a client that has received no event can resume there.
  yield `retry: ${RETRY_MS}\n${message("position", after, {})}`;
  let position = after;
  while (!signal.aborted) {
    const { events, next, isGap } = await replicator.events.page(position, filter);
    if (isGap) yield message("gap", next ?? position, { since: position });
    yield* await messages(parts, events);
    if (next !== undefined) {
      position = next;
      continue;
    }
    const seen = position;
    const changed = async (waiting: AbortSignal) => {
      await replicator.events.next(seen, waiting);
      return "changed" as const;
    };
    if ((yield* waitFor(changed, wait)) !== "changed") return;
  }
}

async function messages(
  parts: EventsParts,
  events: readonly FollowedEvent[],
): Promise<readonly string[]> {
  const rows = await eventRows(parts, events);
  return rows.map(({ place, ...data }) => message("job", place, data));
}

async function eventRows(
  parts: EventsParts,
  events: readonly FollowedEvent[],
): Promise<readonly JobEvent[]> {
  const entries = new Map<string, JobEntry>();
  for (const { jobId, entry } of events) if (entry !== undefined) entries.set(jobId, entry);
  const rows = await jobRows(parts, [...entries.values()]);
  const rowOf = new Map([...entries.keys()].map((jobId, index) => [jobId, rows[index]]));
  return events.map(({ id, timeMs, jobId, changes, before, entry, former, isMatch }) => {
    const shownId = (entry?.data ?? former?.status ?? before)?.replicationId ?? jobId;
    const formerId = before === undefined ? shownId : (before.replicationId ?? jobId);
    const job = rowOf.get(jobId) ?? null;
    return {
      place: id,
      time: isoTime(timeMs),
      id: shownId,
      name: entry === undefined ? (former?.name ?? shownId) : jobName(jobId, entry.data),
      // Some replication ids are known only once the job has started.
      ...(formerId === shownId ? {} : { former_id: formerId }),
      changes,
      matches: isMatch,
      job,
    };
  });
}

function message(event: string, id: string, data: Readonly<Record<string, unknown>>): string {
  return `event: ${event}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
}
