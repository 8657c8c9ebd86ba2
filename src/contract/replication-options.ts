/**
 * The options of a replication: how it is copied, as opposed to what. CouchDB's `default_options`, and ours.
 *
 * This table alone has their names, defaults and bounds. Documents, bodies and the settings of `[replicator]` are
 * parsed by it, and the table of docs/configuration.md is made from it.
 */

/** A value that documents and bodies may give, and what it is if they do not. */
export type Option = BooleanOption | IntegerOption | ChoiceOption;

interface AnyOption {
  /** In documents and bodies, and in `[replicator]`. */
  readonly name: string;
  /** A line for the documentation. */
  readonly meaning: string;
}

export interface BooleanOption extends AnyOption {
  readonly kind: "boolean";
  readonly default: boolean;
}

export interface IntegerOption extends AnyOption {
  readonly kind: "integer";
  readonly default: number;
  readonly min: number;
  /** Absent: there is none. */
  readonly max?: number;
  readonly unit?: string;
}

/** One of a closed set. */
export interface ChoiceOption extends AnyOption {
  readonly kind: "choice";
  readonly default: string;
  readonly choices: readonly string[];
}

export type OptionValue<O extends Option> = O extends BooleanOption
  ? boolean
  : O extends IntegerOption
    ? number
    : O extends ChoiceOption
      ? O["choices"][number]
      : never;

/** Each has batches in memory, and begins at once: with some millions a job ended its node. */
const COPIERS_MAX = 500;
/** Each holds a part of an attachment. */
const LONE_REQUESTS_MAX = 1000;

/** Options of which `[replicator]` gives the defaults, by their names in a `Replication`. Jobs store them in this order. */
export const REPLICATION_OPTIONS = {
  useCheckpoints: {
    name: "use_checkpoints",
    kind: "boolean",
    default: true,
    meaning: "whether a run writes checkpoints, from which a later run goes on",
  },
  checkpointIntervalMs: {
    name: "checkpoint_interval",
    kind: "integer",
    default: 30_000,
    min: 1,
    unit: "ms",
    meaning: "time between two checkpoints",
  },
  workerProcesses: {
    name: "worker_processes",
    kind: "integer",
    default: 4,
    min: 1,
    max: COPIERS_MAX,
    unit: "copiers",
    meaning: "copiers of a job: as many batches are read, and as many written, at the same time",
  },
  workerProcessesMax: {
    name: "worker_processes_max",
    kind: "integer",
    default: 32,
    min: 1,
    max: COPIERS_MAX,
    unit: "copiers",
    meaning:
      "most copiers while a server is far away, of which most wait for the network; where `worker_processes` is given and this is not, there are never more than that",
  },
  workerBatchSize: {
    name: "worker_batch_size",
    kind: "integer",
    default: 500,
    min: 1,
    unit: "changes",
    meaning: "most changes in a batch",
  },
  httpConnections: {
    name: "http_connections",
    kind: "integer",
    default: 20,
    min: 1,
    max: LONE_REQUESTS_MAX,
    unit: "requests",
    meaning:
      "documents of a job that travel alone at the same time, each with a request to either side",
  },
  httpConnectionsMax: {
    name: "http_connections_max",
    kind: "integer",
    default: 160,
    min: 1,
    max: LONE_REQUESTS_MAX,
    unit: "requests",
    meaning:
      "most documents that travel alone at the same time while a server is far away; where `http_connections` is given and this is not, there are never more than that",
  },
  connectionTimeoutMs: {
    name: "connection_timeout",
    kind: "integer",
    default: 30_000,
    min: 1,
    unit: "ms",
    meaning: "silence that ends a request",
  },
  retriesPerRequest: {
    name: "retries_per_request",
    kind: "integer",
    default: 5,
    min: 0,
    unit: "retries",
    meaning: "how often a request without a complete answer is repeated",
  },
  useBulkGet: {
    name: "use_bulk_get",
    kind: "boolean",
    default: true,
    meaning: "whether revisions are read in bulk (`_bulk_get`) from a source that can do it",
  },
  failurePolicy: {
    name: "failure_policy",
    kind: "choice",
    default: "skip",
    choices: ["skip", "hold", "crash"],
    meaning:
      "what a run does with a revision that does not arrive, after listing it: `skip` goes on, and the checkpoint passes it; `hold` retries it until it arrives, and the checkpoint waits; `crash` ends the run, and each later one until it arrives",
  },
  failureRetrySec: {
    name: "failure_retry_sec",
    kind: "integer",
    default: 3600,
    min: 0,
    unit: "s",
    meaning:
      "time between two retries of the list of failures, by a running continuous job and by a persistent job that has ended; 0: only on demand",
  },
  keepFinishedSec: {
    name: "keep_finished_sec",
    kind: "integer",
    default: 0,
    min: 0,
    unit: "s",
    meaning:
      "time after which a job that completed is deleted, and with it its document, unless it left something behind; 0: they stay",
  },
} as const satisfies Readonly<Record<string, Option>>;

/** Of documents and bodies alone: a setting that weighed all jobs alike would change nothing. */
export const WEIGHT = {
  name: "weight",
  kind: "integer",
  default: 100,
  min: 1,
  max: 1000,
  meaning: "length of the job's turns while others wait, relative to 100",
} as const satisfies Option;

/** All fields of documents and bodies. */
export const DOCUMENT_OPTIONS: readonly Option[] = [...Object.values(REPLICATION_OPTIONS), WEIGHT];

/** Numbers with a bound while a server is far away. Who says the number and not the bound wants no more of it far away than nearby. */
export const FAR_BOUNDS = [
  { of: "workerProcesses", bound: "workerProcessesMax" },
  { of: "httpConnections", bound: "httpConnectionsMax" },
] as const;

export type ReplicationOptions = {
  readonly [Name in keyof typeof REPLICATION_OPTIONS]: OptionValue<
    (typeof REPLICATION_OPTIONS)[Name]
  >;
};

export const OPTION_NAMES = Object.keys(
  REPLICATION_OPTIONS,
) as readonly (keyof ReplicationOptions)[];

/** The options whose values `pick` finds, one by one. */
export function eachOption(
  pick: (option: Option, name: keyof ReplicationOptions) => unknown,
): ReplicationOptions {
  const values = OPTION_NAMES.map((name) => [name, pick(REPLICATION_OPTIONS[name], name)]);
  return Object.fromEntries(values) as ReplicationOptions;
}

export const REPLICATION_OPTIONS_DEFAULT = eachOption((option) => option.default);
