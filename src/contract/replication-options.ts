/**
 * Options that determine how a replication copies documents, but not which ones: CouchDB's
 * `default_options` and additional options of Tandem.
 *
 * The only definition of their names, defaults and bounds. Documents, bodies and the settings of
 * `[replicator]` are parsed with this table, and the table in docs/configuration.md is generated
 * from it.
 */

/** An option of documents and bodies, with its default. */
export type Option = BooleanOption | IntegerOption | ChoiceOption;

interface AnyOption {
  /** Name in documents and bodies, and in `[replicator]`. */
  readonly name: string;
  /** Label in forms. */
  readonly label: string;
  /** Description in one line, for the documentation. */
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
  /** Maximum value; absent if unlimited. */
  readonly max?: number;
  readonly unit?: string;
}

/** An option with a closed set of values. */
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

/** Maximum number of copiers. Bounds memory: each copier allocates batches when it starts. */
const COPIERS_MAX = 500;
/** Maximum number of requests for single documents. Each request can hold part of an attachment. */
const LONE_REQUESTS_MAX = 1000;

/**
 * Options with defaults in `[replicator]`, keyed by their property names in a `Replication`. Jobs
 * store them in this order.
 */
export const REPLICATION_OPTIONS = {
  useCheckpoints: {
    name: "use_checkpoints",
    label: "Write checkpoints",
    kind: "boolean",
    default: true,
    meaning: "whether runs write checkpoints",
  },
  checkpointIntervalMs: {
    name: "checkpoint_interval",
    label: "Checkpoint interval",
    kind: "integer",
    default: 30_000,
    min: 1,
    unit: "ms",
    meaning: "time between two checkpoints",
  },
  workerProcesses: {
    name: "worker_processes",
    label: "Copiers",
    kind: "integer",
    default: 4,
    min: 1,
    max: COPIERS_MAX,
    unit: "copiers",
    meaning:
      "number of copiers of a job, which limits the batches read concurrently and the batches written concurrently",
  },
  workerProcessesMax: {
    name: "worker_processes_max",
    label: "Copiers at high latency",
    kind: "integer",
    default: 32,
    min: 1,
    max: COPIERS_MAX,
    unit: "copiers",
    meaning:
      "maximum number of copiers at high latency; defaults to `worker_processes` if that is given",
  },
  workerBatchSize: {
    name: "worker_batch_size",
    label: "Changes per batch",
    kind: "integer",
    default: 500,
    min: 1,
    unit: "changes",
    meaning: "maximum number of changes in a batch",
  },
  httpConnections: {
    name: "http_connections",
    label: "Individual documents",
    kind: "integer",
    default: 20,
    min: 1,
    max: LONE_REQUESTS_MAX,
    unit: "requests",
    meaning:
      "maximum number of documents that a job copies individually and concurrently, for example because of large attachments",
  },
  httpConnectionsMax: {
    name: "http_connections_max",
    label: "Individual documents at high latency",
    kind: "integer",
    default: 160,
    min: 1,
    max: LONE_REQUESTS_MAX,
    unit: "requests",
    meaning:
      "maximum number of documents that a job copies individually and concurrently when latency is high; defaults to `http_connections` if that is given",
  },
  connectionTimeoutMs: {
    name: "connection_timeout",
    label: "Request timeout",
    kind: "integer",
    default: 30_000,
    min: 1,
    unit: "ms",
    meaning: "time without data after which requests are aborted",
  },
  retriesPerRequest: {
    name: "retries_per_request",
    label: "Retries per request",
    kind: "integer",
    default: 5,
    min: 0,
    unit: "retries",
    meaning: "number of retries of a request without a complete response",
  },
  useBulkGet: {
    name: "use_bulk_get",
    label: "Use _bulk_get",
    kind: "boolean",
    default: true,
    meaning: "whether `_bulk_get` is used if the source supports it",
  },
  failurePolicy: {
    name: "failure_policy",
    label: "Reaction to failed documents",
    kind: "choice",
    default: "skip",
    choices: ["skip", "hold", "crash"],
    meaning:
      "reaction to a failed revision, which is always listed: `skip` continues, and the checkpoint passes the revision; `hold` retries it, and the checkpoint waits; `crash` ends this run, and later ones until the revision is copied",
  },
  failureRetrySec: {
    name: "failure_retry_sec",
    label: "Retry interval of failed documents",
    kind: "integer",
    default: 3600,
    min: 0,
    unit: "s",
    meaning:
      "interval at which documents on the list of failures are retried, in running continuous jobs and in persistent jobs that have ended; 0: only on demand",
  },
  keepFinishedSec: {
    name: "keep_finished_sec",
    label: "Retention after completion",
    kind: "integer",
    default: 0,
    min: 0,
    unit: "s",
    meaning:
      "time after which a job that completed without failures is deleted with its document; 0: never",
  },
} as const satisfies Readonly<Record<string, Option>>;

/**
 * The only option without a default for all jobs: weights are relative, so a default would have no
 * effect.
 */
export const WEIGHT = {
  name: "weight",
  label: "Weight",
  kind: "integer",
  default: 100,
  min: 1,
  max: 1000,
  meaning: "weight of the job: length of its time slices while other jobs wait; 100 is normal",
} as const satisfies Option;

/** All options of replication documents and of bodies of `POST /_replicate`. */
export const DOCUMENT_OPTIONS: readonly Option[] = [...Object.values(REPLICATION_OPTIONS), WEIGHT];

/**
 * Pairs of an option and its second, larger limit, for distant servers. If only the option is set,
 * it applies to all servers.
 */
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

/** Builds a set of options from the values that `pick` returns. */
export function eachOption(
  pick: (option: Option, name: keyof ReplicationOptions) => unknown,
): ReplicationOptions {
  const values = OPTION_NAMES.map((name) => [name, pick(REPLICATION_OPTIONS[name], name)]);
  return Object.fromEntries(values) as ReplicationOptions;
}

export const REPLICATION_OPTIONS_DEFAULT = eachOption((option) => option.default);
