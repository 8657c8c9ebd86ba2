/**
 * The query of a list of jobs, or of a command for several jobs: filters, order and page. Unknown
 * parameters are rejected by name.
 */
import { FAILURE_CLASSES, type FailureClass, JOB_CHANGES } from "../../contract/index.ts";
import { badRequest, percentDecode, percentEncode } from "../../protocol/index.ts";
import {
  type EventFilter,
  FAILURE_SIDES,
  type JobFilter,
  type JobOrder,
  type JobPosition,
  NONE,
  type ReplicationState,
} from "../../replicator/index.ts";
import type { Call } from "../http/call.ts";
import { booleanParameter, integerParameter } from "../http/query.ts";

export const REPLICATION_STATES: readonly ReplicationState[] = [
  "running",
  "failed",
  "completed",
  "pending",
  "crashing",
];
const LIMIT_DEFAULT = 100;
const FLAGS = ["failing", "left_behind", "paused", "parked", "stalled"] as const;
const TEXTS = ["owner", "source", "target", "host", "reason"] as const;
/** Filters of events alone, besides `kind`. */
const EVENT_TEXTS = ["job", "endpoint"] as const;
const SIDES = [...FAILURE_SIDES, NONE] as const;
/** All supported filters. */
export const FILTERS = [
  "name",
  "state",
  "database",
  "rule",
  "error",
  "side",
  ...FLAGS,
  ...TEXTS,
  "behind",
  "behind_sec",
] as const;
export const ORDERS = ["id", "since", "tries", "lag"] as const satisfies readonly JobOrder[];
const PAGE_PARAMETERS = ["limit", "skip", "sort", "descending", "bookmark"] as const;

/** The query as given, before name, database, rule and time are resolved. */
export interface AskedFilter {
  readonly filter: JobFilter;
  /** Prefix of the jobs' names, or a pattern with stars. */
  readonly name: string | undefined;
  readonly database: string | undefined;
  /** Name of the rule that created the jobs. */
  readonly rule: string | undefined;
  /** Minimum lag of the jobs in seconds. */
  readonly behindSec: number | undefined;
}

export interface AskedPage extends AskedFilter {
  readonly order: (typeof ORDERS)[number];
  readonly descending: boolean;
  readonly after: JobPosition | undefined;
  readonly skip: number;
  readonly limit: number;
}

/** The query of `GET /_tandem/jobs`. Throws a ProtocolError 400. */
export function pageOf(call: Call): AskedPage {
  refuseUnknown(call, [...FILTERS, ...PAGE_PARAMETERS]);
  const order = chosen(call, "sort", ORDERS) ?? "id";
  const descending = booleanParameter(call, "descending");
  const asked = filterOf(call);
  if ((order === "since" || order === "tries") && asked.filter.failing === false) {
    throw badRequest(`sort=${order} only lists failing jobs; omit failing=false`);
  }
  const after = positionOf(call, order, descending);
  const skip = integerParameter(call, "skip") ?? 0;
  const limit = integerParameter(call, "limit") ?? LIMIT_DEFAULT;
  return { ...asked, order, descending, after, skip, limit };
}

/** The query of a list of events. The rule is not resolved, because it may no longer exist. */
export interface AskedEvents {
  readonly asked: AskedFilter;
  readonly own: Pick<EventFilter, (typeof EVENT_TEXTS)[number] | "kinds" | "ruleName">;
}

/** The query of a list of events; `known` are its other parameters. Throws a ProtocolError 400. */
export function eventFilterOf(call: Call, known: readonly string[]): AskedEvents {
  refuseUnknown(call, [...FILTERS, "kind", ...EVENT_TEXTS, ...known]);
  const kinds = chosenList(call, "kind", JOB_CHANGES);
  const { rule: ruleName, ...asked } = filterOf(call);
  return {
    asked: { ...asked, rule: undefined },
    own: {
      ...(kinds === undefined ? {} : { kinds }),
      ...(ruleName === undefined ? {} : { ruleName }),
      ...textsOf(call, EVENT_TEXTS),
    },
  };
}

/**
 * The query of a command for several jobs. To select all jobs, it must have `all=true`. Throws a
 * ProtocolError 400.
 */
export function commandFilterOf(call: Call): AskedFilter {
  refuseUnknown(call, [...FILTERS, "all", "list"]);
  const asked = filterOf(call);
  const { filter, name, database, rule, behindSec } = asked;
  const isFiltered =
    [name, database, rule, behindSec].some((value) => value !== undefined) ||
    Object.keys(filter).length > 0;
  if (!isFiltered && !booleanParameter(call, "all")) {
    throw badRequest(`Select jobs by ${FILTERS.join(", ")}, or select all jobs with all=true`);
  }
  return asked;
}

/** The start of the next page, in the form exchanged with clients. */
export function bookmarkOf(
  { order, descending }: Pick<AskedPage, "order" | "descending">,
  position: JobPosition | undefined,
): string | null {
  if (position === undefined) return null;
  return percentEncode(JSON.stringify([order, descending, ...position]));
}

function filterOf(call: Call): AskedFilter {
  const { query } = call.request;
  const state = chosenList(call, "state", REPLICATION_STATES);
  const error = chosen(call, "error", FAILURE_CLASSES);
  const side = chosen(call, "side", SIDES);
  const flags = FLAGS.filter((flag) => query.get(flag) !== undefined).map(
    (flag) => [flag, booleanParameter(call, flag)] as const,
  );
  const isBehind = query.get("behind") === undefined ? undefined : booleanParameter(call, "behind");
  const filter: JobFilter = {
    ...(isBehind === false ? { isCaughtUp: true } : {}),
    ...(state === undefined ? {} : { states: state }),
    ...(error === undefined ? {} : { error: error satisfies FailureClass }),
    ...(side === undefined ? {} : { side }),
    ...Object.fromEntries(flags),
    ...textsOf(call, TEXTS),
  };
  const behindSec = integerParameter(call, "behind_sec") ?? (isBehind === true ? 0 : undefined);
  const [name, database, rule] = ["name", "database", "rule"].map((key) => query.get(key));
  return { filter, name, database, rule, behindSec };
}

function textsOf<Name extends string>(
  { request }: Call,
  names: readonly Name[],
): Readonly<Partial<Record<Name, string>>> {
  const texts: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const text = request.query.get(name);
    if (text !== undefined) texts[name] = text;
  }
  return texts;
}

function refuseUnknown({ request }: Call, known: readonly string[]): void {
  for (const name of request.query.keys()) {
    if (known.includes(name)) continue;
    throw badRequest(`Unknown parameter ${name}. Choose from: ${known.join(", ")}`);
  }
}

function chosen<Value extends string>(
  call: Call,
  name: string,
  values: readonly Value[],
): Value | undefined {
  const text = call.request.query.get(name);
  return text === undefined ? undefined : knownValue(text, name, values);
}

/** Splits a parameter with several values, separated by commas. */
function chosenList<Value extends string>(
  call: Call,
  name: string,
  values: readonly Value[],
): readonly Value[] | undefined {
  const text = call.request.query.get(name);
  if (text === undefined) return undefined;
  return [...new Set(text.split(",").map((part) => knownValue(part, name, values)))];
}

function knownValue<Value extends string>(
  text: string,
  name: string,
  values: readonly Value[],
): Value {
  const found = values.find((value) => value === text.toLowerCase());
  if (found !== undefined) return found;
  throw badRequest(`Unknown ${name} ${text}. Choose from: ${values.join(", ")}`);
}

function positionOf(call: Call, order: JobOrder, descending: boolean): JobPosition | undefined {
  const text = call.request.query.get("bookmark");
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
