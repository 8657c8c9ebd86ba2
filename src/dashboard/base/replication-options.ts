/** The options of a replication, as docs/configuration.md lists them. A test compares them with the table of the replicator. */

export type ReplicationOption =
  | {
      readonly name: string;
      readonly kind: "boolean";
      readonly default: boolean;
      readonly meaning: string;
    }
  | {
      readonly name: string;
      readonly kind: "integer";
      readonly default: number;
      readonly min: number;
      readonly max?: number;
      readonly unit?: string;
      readonly meaning: string;
    }
  | {
      readonly name: string;
      readonly kind: "choice";
      readonly default: string;
      readonly choices: readonly string[];
      readonly meaning: string;
    };

export const REPLICATION_OPTIONS: readonly ReplicationOption[] = [
  {
    name: "use_checkpoints",
    kind: "boolean",
    default: true,
    meaning: "whether a run writes checkpoints, from which a later run goes on",
  },
  {
    name: "checkpoint_interval",
    kind: "integer",
    default: 30000,
    min: 1,
    unit: "ms",
    meaning: "time between two checkpoints",
  },
  {
    name: "worker_processes",
    kind: "integer",
    default: 4,
    min: 1,
    max: 500,
    unit: "copiers",
    meaning: "copiers of a job: as many batches are read, and as many written, at the same time",
  },
  {
    name: "worker_processes_max",
    kind: "integer",
    default: 32,
    min: 1,
    max: 500,
    unit: "copiers",
    meaning:
      "most copiers while a server is far away, of which most wait for the network; where `worker_processes` is given and this is not, there are never more than that",
  },
  {
    name: "worker_batch_size",
    kind: "integer",
    default: 500,
    min: 1,
    unit: "changes",
    meaning: "most changes in a batch",
  },
  {
    name: "http_connections",
    kind: "integer",
    default: 20,
    min: 1,
    max: 1000,
    unit: "requests",
    meaning:
      "documents of a job that travel alone at the same time, each with a request to either side",
  },
  {
    name: "http_connections_max",
    kind: "integer",
    default: 160,
    min: 1,
    max: 1000,
    unit: "requests",
    meaning:
      "most documents that travel alone at the same time while a server is far away; where `http_connections` is given and this is not, there are never more than that",
  },
  {
    name: "connection_timeout",
    kind: "integer",
    default: 30000,
    min: 1,
    unit: "ms",
    meaning: "silence that ends a request",
  },
  {
    name: "retries_per_request",
    kind: "integer",
    default: 5,
    min: 0,
    unit: "retries",
    meaning: "how often a request without a complete answer is repeated",
  },
  {
    name: "use_bulk_get",
    kind: "boolean",
    default: true,
    meaning: "whether revisions are read in bulk (`_bulk_get`) from a source that can do it",
  },
  {
    name: "failure_policy",
    kind: "choice",
    default: "skip",
    choices: ["skip", "hold", "crash"],
    meaning:
      "what a run does with a revision that does not arrive, after listing it: `skip` goes on, and the checkpoint passes it; `hold` retries it until it arrives, and the checkpoint waits; `crash` ends the run, and each later one until it arrives",
  },
  {
    name: "failure_retry_sec",
    kind: "integer",
    default: 3600,
    min: 0,
    unit: "s",
    meaning:
      "time between two retries of the list of failures, by a running continuous job and by a persistent job that has ended; 0: only on demand",
  },
  {
    name: "keep_finished_sec",
    kind: "integer",
    default: 0,
    min: 0,
    unit: "s",
    meaning:
      "time after which a job that completed is deleted, and with it its document, unless it left something behind; 0: they stay",
  },
  {
    name: "weight",
    kind: "integer",
    default: 100,
    min: 1,
    max: 1000,
    meaning: "length of the job's turns while others wait, relative to 100",
  },
];
