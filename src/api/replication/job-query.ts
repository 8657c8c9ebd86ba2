/** The query of a list of jobs or events, or of a command for several jobs. */
import {
  type EVENT_FILTERS,
  JOB_FILTERS,
  type JOB_ORDERS,
  QUERIES,
  type QueryValues,
} from "../../contract/index.ts";
import { badRequest, percentDecode, percentEncode } from "../../protocol/index.ts";
import {
  type EventFilter,
  Glob,
  type JobFilter,
  type JobOrder,
  type JobPosition,
  parseTagFilter,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import { readQuery } from "../http/query.ts";

/** The query as given, before name, database, rule and time are resolved. */
export interface AskedFilter {
  readonly filter: JobFilter;
  /** Prefix of the jobs' names, or a pattern with stars. */
  readonly name: string | undefined;
  readonly database: string | undefined;
  /** Name of the rule that created the jobs. */
  readonly rule: string | undefined;
  /** Selects jobs whose lag is at least this many seconds. */
  readonly behindSec: number | undefined;
}

export interface AskedPage extends AskedFilter {
  readonly order: (typeof JOB_ORDERS)[number];
  readonly descending: boolean;
  readonly after: JobPosition | undefined;
  readonly skip: number;
  readonly limit: number;
}

/** The query of `GET /_tandem/jobs`. Throws a ProtocolError 400. */
export function pageOf(call: Call): AskedPage {
  const query = readQuery(call, QUERIES["GET /_tandem/jobs"]);
  const { sort: order = "id", descending = false, skip, limit } = query;
  const asked = filterOf(query);
  if ((order === "since" || order === "tries") && asked.filter.failing === false) {
    throw badRequest(`sort=${order} only lists failing jobs; omit failing=false`);
  }
  const after = positionOf(query.bookmark, order, descending);
  return { ...asked, order, descending, after, skip, limit };
}

/** The query of a list of events. The rule is not resolved, because it might no longer exist. */
export interface AskedEvents {
  readonly asked: AskedFilter;
  readonly own: Pick<EventFilter, "job" | "endpoint" | "kinds" | "ruleName">;
}

/** Returns the filters in the query of a list of events. */
export function eventFilterOf(
  query: QueryValues<typeof JOB_FILTERS & typeof EVENT_FILTERS>,
): AskedEvents {
  const { kind: kinds, job, endpoint, rule: ruleName } = query;
  const own = Object.entries({ kinds, ruleName, job, endpoint });
  return {
    asked: { ...filterOf(query), rule: undefined },
    own: Object.fromEntries(own.filter(([, value]) => value !== undefined)),
  };
}

/**
 * The query of a command for several jobs. To select all jobs, it must have `all=true`. `list`:
 * whether the response lists the changed jobs. Throws a ProtocolError 400.
 */
export function commandFilterOf(call: Call): AskedFilter & { readonly list: boolean } {
  const {
    all = false,
    list = false,
    ...filters
  } = readQuery(call, QUERIES["POST /_tandem/jobs/_pause"]);
  const asked = optionalFilterOf(filters);
  if (asked === undefined && !all) {
    const names = Object.keys(JOB_FILTERS).join(", ");
    throw badRequest(`Select jobs by ${names}, or select all jobs with all=true`);
  }
  return { ...(asked ?? filterOf(filters)), list };
}

/**
 * Returns the filters in the query of a command, or `undefined` if it has no filters. Refuses an
 * empty value: usually a variable of a script is unset, and the command would change other jobs
 * than intended.
 */
export function optionalFilterOf(
  filters: QueryValues<typeof JOB_FILTERS>,
): AskedFilter | undefined {
  const empty = Object.entries(filters).find(([, value]) => value === "");
  if (empty !== undefined) throw badRequest(`${empty[0]} must not be empty`);
  const isFiltered = Object.values(filters).some((value) => value !== undefined);
  return isFiltered ? filterOf(filters) : undefined;
}

/** The start of the next page, in the form exchanged with clients. */
export function bookmarkOf(
  { order, descending }: Pick<AskedPage, "order" | "descending">,
  position: JobPosition | undefined,
): string | null {
  if (position === undefined) return null;
  return percentEncode(JSON.stringify([order, descending, ...position]));
}

/** Filters that have the same name in a query and in a `JobFilter`. */
const SAME_FILTERS = [
  "error",
  "side",
  "failing",
  "left_behind",
  "paused",
  "parked",
  "stalled",
  "unknown",
  "owner",
  "source",
  "target",
  "host",
  "reason",
] as const satisfies readonly (keyof JobFilter & keyof typeof JOB_FILTERS)[];

/** Returns the filters in a query. */
export function filterOf(query: QueryValues<typeof JOB_FILTERS>): AskedFilter {
  const { name, database, rule, state: states, behind, behind_sec } = query;
  const { source_database, target_database, tag } = query;
  const given = SAME_FILTERS.filter((filter) => query[filter] !== undefined);
  const filter: JobFilter = {
    ...(behind === false ? { isCaughtUp: true } : {}),
    ...(states === undefined ? {} : { states }),
    ...(tag === undefined ? {} : { tags: tagsOf(tag) }),
    ...(source_database === undefined ? {} : { sourceDatabase: patternOf(source_database) }),
    ...(target_database === undefined ? {} : { targetDatabase: patternOf(target_database) }),
    ...Object.fromEntries(given.map((filter) => [filter, query[filter]])),
  };
  const behindSec = behind_sec ?? (behind === true ? 0 : undefined);
  return { filter, name, database, rule, behindSec };
}

/** Returns the tags of a filter, as given. Throws a ProtocolError 400. */
function tagsOf(text: string): readonly string[] {
  const tags = parseTagFilter(text);
  if (tags !== undefined) return tags;
  throw badRequest(
    `Invalid tag ${text.slice(0, 200)}. Give NAME:VALUE, or NAME for any value; separate several tags by commas`,
  );
}

/** Matches names that begin with the text or, if the text contains stars, match it as a pattern. */
function patternOf(text: string): Glob {
  return new Glob(text.includes("*") ? text : `${text}*`);
}

function positionOf(
  text: string | undefined,
  order: JobOrder,
  descending: boolean,
): JobPosition | undefined {
  if (text === undefined) return undefined;
  const [ofOrder, ofDirection, value, jobId] = bookmarkParts(text);
  const isPosition = typeof jobId === "string" && jobId !== "";
  const isValue = order === "id" ? !Number.isNaN(value) : typeof value === "number";
  if (ofOrder !== order || ofDirection !== descending || !isPosition || !isValue) {
    throw badRequest("Invalid bookmark: use the one returned with the previous page");
  }
  return [order === "id" ? null : Number(value), jobId];
}

function bookmarkParts(text: string): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(percentDecode(text) ?? "");
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
