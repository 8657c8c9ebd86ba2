/** Starts, cancels and awaits transient jobs, and gives access to all jobs. */
import { finishWithin, OperationalError, type Seal } from "../base/index.ts";
import { type Authority, type DatabaseRegistry, ownerKey } from "../databases/index.ts";
import { type Job, JobSubscriptions, type WaitOptions } from "../jobs/index.ts";
import type { ReadTransaction } from "../kv/index.ts";
import { AlertTests } from "./alerts/alert-tests.ts";
import { BulkCommands } from "./commands/bulk-commands.ts";
import { JobCommands } from "./commands/job-commands.ts";
import { ReplacementCommands } from "./commands/replacement-commands.ts";
import { CredentialReplacements } from "./credential-replacements.ts";
import type { FailureLists } from "./failures/failure-lists.ts";
import { JobFailures } from "./failures/job-failures.ts";
import { addJob } from "./job-changes/add-job.ts";
import { amendJob } from "./job-changes/amend-job.ts";
import { type RemoveJobParts, removeJob } from "./job-changes/remove-job.ts";
import { FailingGroups } from "./job-lists/failing-groups.ts";
import { JobEvents } from "./job-lists/job-events.ts";
import { JobFiguresReader } from "./job-lists/job-figures.ts";
import { JobLists } from "./job-lists/job-lists.ts";
import { JobMeasures } from "./job-lists/job-measures.ts";
import type { JobEntry } from "./job-lists/job-views.ts";
import { JOB_TYPES } from "./job-watching/parked-jobs.ts";
import type { ReplicationFailure } from "./jobs/failing.ts";
import { persistentJobId, REPLICATION_JOB_TYPE } from "./jobs/job-data.ts";
import { decodeJob, decodeProgress } from "./jobs/job-data-record.ts";
import { JobGroups } from "./jobs/job-groups.ts";
import { stepFor, stepWhenAskedAgain } from "./jobs/job-input.ts";
import { describeJob, jobTrace } from "./jobs/job-trace.ts";
import { sharesOfGroups } from "./jobs/replication-group.ts";
import { GatedLogins } from "./logins/gated-logins.ts";
import type { StoredLoginGates } from "./logins/stored-login-gates.ts";
import { NamedJobs } from "./named-jobs.ts";
import { ClusterEndpoints } from "./nodes/cluster-endpoints.ts";
import { NodeLabels } from "./nodes/node-labels.ts";
import { Nodes } from "./nodes/nodes.ts";
import type { ReplicatorConfig } from "./replicator-config.ts";
import { refuseShortNames } from "./request/after.ts";
import type { Replication } from "./request/replication.ts";
import { type ReplicationIdContext, transientJobId } from "./request/replication-id.ts";
import { checkFormat } from "./request/run-on.ts";
import { Rules, type RulesParts } from "./rules/rules.ts";
import { LAST_CHECKPOINT_MS_MAX } from "./run/replication-run.ts";

/** Thrown if the job belongs to another user or to a document; `reason` is CouchDB's. */
export class JobNotYoursError extends OperationalError {
  override readonly name = "JobNotYoursError";

  constructor(reason: string) {
    super("REPLICATOR_JOB_NOT_YOURS", "The job belongs to another user or to a document", {
      reason,
    });
  }
}

/** The user who starts or cancels a transient job. Admins can cancel any job. */
export interface Requester extends Authority {
  readonly isAdmin: boolean;
  /** Id of the API request, if any; used in log lines. */
  readonly requestId?: string;
}

/** Outcome of a transient job. `removed`: it was cancelled. */
export type TransientOutcome =
  | { readonly kind: "completed"; readonly result: Readonly<Record<string, unknown>> }
  | { readonly kind: "failed"; readonly failure: ReplicationFailure }
  | { readonly kind: "removed" };

/** Maximum wait for a slot, since CouchDB clients expect an immediate response. */
const START_MS_MAX = 10_000;
/**
 * Maximum wait for a stopped run. A run that takes longer is on a dead node, or its endpoints do
 * not respond.
 */
const STOP_MS_MAX = LAST_CHECKPOINT_MS_MAX + 1000;

export interface ReplicatorParts extends RemoveJobParts, RulesParts {
  readonly failureLists: FailureLists;
  readonly databases: DatabaseRegistry;
  readonly loginGates: StoredLoginGates;
  /** Seals credentials in commands, if the server has a key. */
  readonly seal?: Seal | undefined;
  readonly ids: ReplicationIdContext;
  readonly config: ReplicatorConfig;
}

export class Replicator {
  /** Lists of documents that jobs could not copy. */
  readonly failures: JobFailures;
  /** Operator commands for one job. */
  readonly commands: JobCommands;
  /** Operator commands for many jobs. */
  readonly bulk: BulkCommands;
  /** Filtered pages of jobs. */
  readonly lists: JobLists;
  /** Delivery of alerts, and test alerts. */
  readonly alerts: AlertTests;
  readonly named: NamedJobs;
  /** Failing jobs, grouped by cause. */
  readonly failing: FailingGroups;
  /** Accounts whose logins have to wait. */
  readonly logins: GatedLogins;
  readonly events: JobEvents;
  readonly measures: JobMeasures;
  /** Fair-share groups, with their usage. */
  readonly groups: JobGroups;
  /** Servers that jobs copy from and to. */
  readonly endpoints: ClusterEndpoints;
  /** Processes that run jobs, and drain orders. */
  readonly nodes: Nodes;
  /** Labels of the nodes, and jobs that none of them is allowed to run. */
  readonly nodeLabels: NodeLabels;
  /** Job counts for metrics. */
  readonly figures: JobFiguresReader;
  readonly rules: Rules;
  readonly credentials: CredentialReplacements;
  readonly #parts: ReplicatorParts;
  readonly #subscriptions: JobSubscriptions;

  constructor(parts: ReplicatorParts) {
    this.#parts = parts;
    this.nodeLabels = new NodeLabels(parts);
    this.#subscriptions = new JobSubscriptions(parts.runtime, parts.kv, parts.jobs);
    this.failures = new JobFailures(parts);
    this.commands = new JobCommands(parts);
    this.lists = new JobLists({
      ...parts,
      unplaced: (tx, jobs) => this.nodeLabels.unplaced(tx, jobs),
    });
    this.named = new NamedJobs(parts);
    const { lists, commands, failures } = this;
    this.rules = new Rules(parts);
    this.credentials = new CredentialReplacements({ ...parts, lists }, this.rules);
    const replacements = new ReplacementCommands({ ...parts, credentials: this.credentials });
    this.bulk = new BulkCommands({ ...parts, lists, commands, failures, replacements });
    this.alerts = new AlertTests(parts);
    this.failing = new FailingGroups(parts);
    this.logins = new GatedLogins({ ...parts, lists, rules: this.rules });
    this.events = new JobEvents({ kv: parts.kv, log: parts.events, lists: this.lists });
    this.measures = new JobMeasures(parts);
    this.groups = new JobGroups(parts);
    this.endpoints = new ClusterEndpoints(parts);
    this.nodes = new Nodes(parts);
    this.figures = new JobFiguresReader({ ...parts, clock: parts.runtime.clock });
  }

  get config(): ReplicatorConfig {
    return this.#parts.config;
  }

  /**
   * Registers the job types with cluster-wide settings. Called at the start of every node, and when
   * these settings change. Builds the job index first if it is missing.
   */
  async prepare(): Promise<void> {
    const { kv, jobs, config } = this.#parts;
    await this.buildIndex();
    await kv.transact(
      async (tx) => {
        for (const type of JOB_TYPES) {
          await jobs.setTypeTimeout(tx, type, config.activityTimeoutSec);
        }
      },
      { whenUnknown: "retry" },
    );
    await this.setShares(config);
  }

  /** Builds the job index if it is missing or has an older version. */
  async buildIndex(): Promise<void> {
    const { kv, index } = this.#parts;
    await index.build(kv);
  }

  /** Sets the shares and the fair-share settings, which apply to all nodes. */
  async setShares({
    fairShare,
    shares,
  }: Pick<ReplicatorConfig, "fairShare" | "shares">): Promise<void> {
    const { kv, jobs } = this.#parts;
    await kv.transact(
      async (tx) => {
        await jobs.groups.setFairShare(tx, REPLICATION_JOB_TYPE, fairShare);
        await jobs.groups.setAllShares(tx, REPLICATION_JOB_TYPE, sharesOfGroups(shares));
      },
      { whenUnknown: "retry" },
    );
  }

  /** Adds a transient job, or finds the same user's existing job. Returns the job id. */
  async start(replication: Replication, requester: Requester): Promise<string> {
    const { kv, jobs, controls, runtime } = this.#parts;
    const { userName, vouched, isAdmin: wasAdmin, requestId } = requester;
    const authority: Authority = { userName, vouched, wasAdmin };
    refuseShortNames(replication.after);
    const id = this.transientId(replication, requester);
    await kv.transact(async (tx) => {
      await checkFormat(tx, replication, this.#parts.hasPlacement);
      const existing = await jobs.get(tx, jobName(id));
      if (existing !== undefined) {
        const again = { replication, ...authority };
        const step = await stepWhenAskedAgain(tx, controls, existing, again);
        if (step === "nothing") return amendJob(this.#parts, tx, existing, replication);
        await removeJob(this.#parts, tx, existing);
      }
      const asked = { replication, refusal: undefined };
      const origin = { ...asked, document: undefined, ...authority };
      const data = await addJob(this.#parts, tx, id, origin);
      const trace = jobTrace(runtime.trace, describeJob(id, data));
      tx.afterCommit(() => trace.event("replication.added", { jobId: id, requestId }));
    });
    return id;
  }

  /** Returns the id of a transient job, computed from its request. */
  transientId(replication: Replication, requester: Requester): string {
    return transientJobId(this.#parts.ids, replication, ownerKey(requester));
  }

  /**
   * Cancels a transient job by replication id or job id. Returns the id for the response of
   * `_replicate`, or undefined if not found. A running continuous job writes its last checkpoint
   * first, so that a repeated request resumes there.
   */
  async cancel(id: string, requester: Requester): Promise<string | undefined> {
    const { kv } = this.#parts;
    const found = await kv.read((tx) => this.#cancellable(tx, id, requester));
    if (found?.state === "running" && decodeJob(found).replication?.continuous === true) {
      await this.#stop(found.id, requester);
    }
    return kv.transact(async (tx) => {
      const job = await this.#cancellable(tx, id, requester);
      if (job === undefined) return undefined;
      await removeJob(this.#parts, tx, job);
      return decodeJob(job).replicationId ?? job.id;
    });
  }

  /** Returns the active transient job with this id, if any. Throws a JobNotYoursError. */
  async #cancellable(
    tx: ReadTransaction,
    id: string,
    requester: Requester,
  ): Promise<Job | undefined> {
    const { jobs, ownership, controls } = this.#parts;
    const jobId = await ownership.jobOf(tx, id, requester);
    const job = await jobs.get(tx, jobName(jobId));
    if (job === undefined || (await stepFor(tx, controls, job, "stop")) !== "remove") {
      return undefined;
    }
    const data = decodeJob(job);
    if (data.document !== undefined) {
      throw new JobNotYoursError("Persistent replication collision");
    }
    if (ownerKey(data) !== ownerKey(requester) && !requester.isAdmin) {
      throw new JobNotYoursError("You are not a server admin.");
    }
    return job;
  }

  /**
   * Pauses a job, and waits until its run has ended, on whichever node, or the time limit has
   * passed.
   */
  async #stop(jobId: string, { userName, requestId }: Requester): Promise<void> {
    const { clock } = this.#parts.runtime;
    await this.commands.pause(jobId, {
      userName,
      why: "Cancelled; the run writes its last checkpoint",
      ...(requestId === undefined ? {} : { requestId }),
    });
    const isOver = new AbortController();
    const end = (): void =>
      isOver.abort(new Error("Wait cancelled: the run has ended, or has exceeded the time limit"));
    const timer = clock.sleep(STOP_MS_MAX, isOver.signal).then(end, () => {});
    try {
      await this.#when(jobId, isOver.signal, (job) => job?.state !== "running" || undefined);
    } catch (error) {
      if (!isOver.signal.aborted) throw error;
    } finally {
      end();
      await timer;
    }
  }

  /** Waits for the end of a one-shot job on any node. */
  async ended(jobId: string, signal: AbortSignal): Promise<TransientOutcome> {
    const decide = (job: Job | undefined): TransientOutcome | undefined => {
      if (job === undefined) return { kind: "removed" };
      const { state, result, failure } = decodeProgress(job);
      if (state === "completed") return { kind: state, result };
      return state === "failed" ? { kind: state, failure } : undefined;
    };
    return this.#when(jobId, signal, decide, { state: "finished" });
  }

  /**
   * Waits until a job has started or failed, and returns its replication id. After `START_MS_MAX`,
   * returns the replication id if it is known by then. If the replication id depends on a filter
   * that has not been read yet, returns the job id.
   */
  async started(jobId: string, signal: AbortSignal): Promise<string | ReplicationFailure> {
    const decide = (job: Job | undefined): string | ReplicationFailure | undefined => {
      if (job === undefined) return { error: "not_found", reason: "missing" };
      const { state, replicationId, failure, lastStartMs } = decodeProgress(job);
      if (state === "failed") return failure;
      const hasBegun = lastStartMs > 0 || state !== "pending";
      return hasBegun ? (replicationId ?? jobId) : undefined;
    };
    const waiting = new Error("The job is still waiting for a slot");
    try {
      return await finishWithin(this.#parts.runtime.clock, START_MS_MAX, signal, {
        work: (limited) => this.#when(jobId, limited, decide),
        late: () => waiting,
      });
    } catch (error) {
      if (error !== waiting) throw error;
      return (await this.find(jobId))?.data.replicationId ?? jobId;
    }
  }

  /** Finds a job by job id or replication id. For a replication id, prefers a job of `asker`. */
  find(id: string, asker?: Authority): Promise<JobEntry | undefined> {
    const { kv, ownership } = this.#parts;
    return kv.read(async (tx) => this.lists.entry(tx, await ownership.jobOf(tx, id, asker)));
  }

  /** Finds the job of a replication document. */
  findDocument(databaseUuid: string, documentId: string): Promise<JobEntry | undefined> {
    const jobId = persistentJobId(databaseUuid, documentId);
    return this.#parts.kv.read((tx) => this.lists.entry(tx, jobId));
  }

  /** Finds the existing jobs of these documents, in the given order. */
  async findDocuments(
    databaseUuid: string,
    documentIds: readonly string[],
  ): Promise<readonly JobEntry[]> {
    const jobIds = documentIds.map((id) => persistentJobId(databaseUuid, id));
    const found = await this.lists.entries(jobIds);
    return jobIds.flatMap((id) => found.get(id) ?? []);
  }

  /** Calls `decide` at each event of the job until it returns a value. Returns that value. */
  async #when<T>(
    jobId: string,
    signal: AbortSignal,
    decide: (job: Job | undefined) => T | undefined,
    events: Pick<WaitOptions, "state"> = {},
  ): Promise<T> {
    signal.throwIfAborted();
    const subscription = await this.#subscriptions.subscribe(jobName(jobId));
    let job = subscription?.job;
    for (;;) {
      const answer = decide(job);
      if (answer !== undefined || subscription === undefined) return answer as T;
      const event = await this.#subscriptions.wait([subscription], { ...events, signal });
      job = event?.kind === "changed" ? event.job : undefined;
    }
  }
}

function jobName(id: string): { type: string; id: string } {
  return { type: REPLICATION_JOB_TYPE, id };
}
