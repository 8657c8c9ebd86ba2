/**
 * Query parameters of the resources below `/_tandem/`: the only definition of their names, values
 * and defaults. The API parses queries with these tables, the command line has an option for each
 * filter, and the OpenAPI document describes them.
 */
import { FAILURE_CLASSES, JOB_CHANGES, JOB_STATES } from "./words.ts";

interface AnyParameter {
  /** Description in one phrase, for the OpenAPI document and the help of the command line. */
  readonly meaning: string;
}

export interface TextParameter extends AnyParameter {
  readonly kind: "text";
}

/** A value in JSON. */
export interface JsonParameter extends AnyParameter {
  readonly kind: "json";
}

export interface FlagParameter extends AnyParameter {
  readonly kind: "flag";
}

/** A non-negative integer. Values outside of `min` and `max` are rejected. */
export interface IntegerParameter extends AnyParameter {
  readonly kind: "integer";
  readonly min?: number;
  readonly max?: number;
  /** Maximum effective value; greater values are accepted and reduced to it. */
  readonly cap?: number;
  readonly default?: number;
}

/** One of several words, in any letter case. */
export interface ChoiceParameter extends AnyParameter {
  readonly kind: "choice";
  readonly values: readonly string[];
}

/** One or more of several fixed words, separated by commas. */
export interface ChoicesParameter extends AnyParameter {
  readonly kind: "choices";
  readonly values: readonly string[];
}

export type Parameter =
  | TextParameter
  | JsonParameter
  | FlagParameter
  | IntegerParameter
  | ChoiceParameter
  | ChoicesParameter;

export type Query = Readonly<Record<string, Parameter>>;

/** The parsed values of a query; undefined for an absent parameter without a default. */
export type QueryValues<Parameters extends Query> = {
  readonly [Name in keyof Parameters]: ParameterValue<Parameters[Name]>;
};

type ParameterValue<P extends Parameter> = P extends FlagParameter
  ? boolean | undefined
  : P extends { readonly kind: "integer"; readonly default: number }
    ? number
    : P extends IntegerParameter
      ? number | undefined
      : P extends ChoiceParameter
        ? P["values"][number] | undefined
        : P extends ChoicesParameter
          ? readonly P["values"][number][] | undefined
          : P extends JsonParameter
            ? unknown
            : string | undefined;

const limit = { kind: "integer", meaning: "maximum number of rows" } as const;
const skip = { kind: "integer", default: 0, meaning: "number of rows to skip" } as const;
const bookmark = {
  kind: "text",
  meaning: "`bookmark` of the previous page, to continue after it",
} as const;
const dryRun = { kind: "flag", meaning: "only report what would be changed" } as const;

/** Value of `host` and `side` for failures that have none. */
export const NONE = "-";

/** Filters of jobs. A job is selected if it matches all of them. */
export const JOB_FILTERS = {
  name: {
    kind: "text",
    meaning: "prefix of DATABASE/DOCUMENT, RULE/DATABASE or an id, or a pattern with *",
  },
  state: {
    kind: "choices",
    values: JOB_STATES,
    meaning: "pending, running, crashing, completed or failed; separate several states by commas",
  },
  database: { kind: "text", meaning: "the _replicator database of the job's document" },
  rule: { kind: "text", meaning: "the rule that created the job" },
  error: {
    kind: "choice",
    values: FAILURE_CLASSES,
    meaning: "class of a failing job's last failure, such as unauthorized",
  },
  side: {
    kind: "choice",
    values: ["source", "target", NONE],
    meaning: "side of the last failure: 'source', 'target' or '-' (neither)",
  },
  failing: { kind: "flag", meaning: "failing jobs, including those being retried" },
  left_behind: { kind: "flag", meaning: "jobs with failed documents" },
  paused: { kind: "flag", meaning: "paused jobs" },
  parked: {
    kind: "flag",
    meaning: "jobs that have caught up and wait for changes without occupying a slot",
  },
  stalled: { kind: "flag", meaning: "jobs whose last runs made no progress" },
  owner: { kind: "text", meaning: "owner of the job" },
  tag: {
    kind: "text",
    meaning:
      "tag as NAME:VALUE, or NAME for any value; several, separated by commas, must all match",
  },
  source: {
    kind: "text",
    meaning: "host of the source, or the name of a database of the server",
  },
  target: {
    kind: "text",
    meaning: "host of the target, or the name of a database of the server",
  },
  source_database: {
    kind: "text",
    meaning: "prefix of the source database's name, or a pattern with *",
  },
  target_database: {
    kind: "text",
    meaning: "prefix of the target database's name, or a pattern with *",
  },
  host: {
    kind: "text",
    meaning:
      "host of the last failure: 'HOST', 'HOST:PORT', 'HOST:' (default port only) or '-' (no host)",
  },
  reason: { kind: "text", meaning: "text contained in the reason of the last failure" },
  behind: { kind: "flag", meaning: "jobs with pending changes" },
  behind_sec: { kind: "integer", meaning: "minimum lag in seconds" },
  unknown: {
    kind: "flag",
    meaning:
      "jobs whose lag is unknown, because the source has not answered yet or has not answered since a failure",
  },
} as const satisfies Query;

/** Additional filters of events. */
export const EVENT_FILTERS = {
  kind: {
    kind: "choices",
    values: JOB_CHANGES,
    meaning: "such as failing or removed; separate several kinds by commas",
  },
  job: { kind: "text", meaning: "name or id of the job, which may have been removed" },
  endpoint: {
    kind: "text",
    meaning: "host of source or target, or the name of a database of the server",
  },
} as const satisfies Query;

/** Orders of the list of jobs. */
export const JOB_ORDERS = ["id", "since", "tries", "lag"] as const;

const command = {
  ...JOB_FILTERS,
  all: { kind: "flag", meaning: "select all jobs; required without a filter" },
  list: { kind: "flag", meaning: "whether the response lists the changed jobs" },
} as const satisfies Query;

/** Query parameters by operation (method and path). Operations without parameters are absent. */
export const QUERIES = {
  "GET /_tandem/jobs": {
    ...JOB_FILTERS,
    limit: { ...limit, default: 100 },
    skip,
    sort: {
      kind: "choice",
      values: JOB_ORDERS,
      meaning:
        "order: id (default); lag, which lists only jobs that are behind; since or tries, which list only failing jobs",
    },
    descending: { kind: "flag", meaning: "whether the order is reversed" },
    bookmark,
  },
  "POST /_tandem/jobs/_pause": command,
  "POST /_tandem/jobs/_resume": command,
  "POST /_tandem/jobs/_retry": command,
  "POST /_tandem/jobs/_reset": command,
  "POST /_tandem/jobs/_cancel": command,
  "POST /_tandem/jobs/_retry_failures": command,
  "GET /_tandem/jobs/{id}/runs": { limit, skip },
  "GET /_tandem/jobs/{id}/failures": { limit: { ...limit, default: 1_000 }, skip },
  "GET /_tandem/events": {
    ...JOB_FILTERS,
    ...EVENT_FILTERS,
    since: { kind: "text", meaning: "id of the last event received; now (default) for new events" },
    heartbeat: {
      kind: "integer",
      min: 1,
      default: 30_000,
      meaning: "milliseconds between two comments that keep the connection open",
    },
    timeout: {
      kind: "integer",
      meaning: "milliseconds without an event after which the response ends",
    },
  },
  "GET /_tandem/events/_past": {
    ...JOB_FILTERS,
    ...EVENT_FILTERS,
    before: {
      kind: "text",
      meaning: "the value of `before` in the previous page, to get the next page",
    },
    limit: { ...limit, min: 1, max: 100, default: 100 },
  },
  "GET /_tandem/commands": { limit: { ...limit, min: 1, max: 100, default: 20 } },
  "GET /_tandem/failing": {
    limit: { ...limit, cap: 1_000, default: 100 },
    skip,
    group_by: { kind: "text", meaning: "'tag:NAME': groups by the values of a tag" },
  },
  "GET /_tandem/topology": JOB_FILTERS,
  "GET /_tandem/conflicts": { limit: { ...limit, min: 1, cap: 1_000, default: 100 }, bookmark },
  "GET /_tandem/databases/{database}/conflicts": {
    limit: { ...limit, min: 1, cap: 200, default: 100 },
    bookmark,
  },
  "GET /_tandem/databases/{database}/conflicts/resolutions": {
    limit: { ...limit, min: 1, cap: 1_000, default: 100 },
    bookmark,
  },
  "GET /_tandem/logins": { limit: { ...limit, cap: 1_000, default: 100 }, skip },
  "POST /_tandem/credentials/_replace": { ...JOB_FILTERS, dry_run: dryRun },
  "POST /_tandem/replications/_check": {
    database: { kind: "text", meaning: "database of the document; by default _replicator" },
  },
  "GET /_tandem/rules": {
    limit: { ...limit, cap: 1_000, default: 100 },
    bookmark,
    failing: { kind: "flag", meaning: "true: only rules whose source cannot be listed" },
  },
  "PUT /_tandem/rules/{name}": { dry_run: dryRun },
  "DELETE /_tandem/rules/{name}": { dry_run: dryRun },
  "GET /_tandem/endpoints": { limit: { ...limit, default: 100 }, skip },
  "GET /_tandem/groups": { limit: { ...limit, default: 100 }, skip },
} as const satisfies Readonly<Record<string, Query>>;
