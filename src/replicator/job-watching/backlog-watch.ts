/**
 * Periodically asks the sources of waiting and paused jobs for the number of pending changes. Jobs
 * that wait for other jobs are excluded. The nodes share this work in rounds. A round covers each
 * job once, at a few jobs per second cluster-wide, so that thousands of paused jobs cost their
 * servers little. Requests count against the endpoints' budgets.
 */
import {
  assert,
  equalBytes,
  forEachConcurrent,
  type Runtime,
  waitAtMost,
} from "../../base/index.ts";
import { hasLabels, type Job, type Jobs, type Labels, NO_LABELS } from "../../jobs/index.ts";
import {
  type KeyValueStore,
  packTuple,
  type ReadTransaction,
  type Subspace,
  unpackTuple,
} from "../../kv/index.ts";
import type { Chains } from "../chains/chains.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import type { Endpoints } from "../endpoints/endpoints.ts";
import { backlogAsked } from "../job-lists/backlog.ts";
import type { Backlogs } from "../job-lists/backlogs.ts";
import { isAwaiting, NEVER_SEC } from "../jobs/decide.ts";
import type { JobControls } from "../jobs/job-controls.ts";
import { hasEnded, REPLICATION_JOB_TYPE, type ReplicationJobData } from "../jobs/job-data.ts";
import { decodeJob, isReadable } from "../jobs/job-data-record.ts";
import { describeJob, jobTrace } from "../jobs/job-trace.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { type ReplicatorKeys, replicatorKeys } from "../replicator-keys.ts";
import { directionsOf } from "../request/pair.ts";
import type { Replication } from "../request/replication.ts";
import type { ParkedJobs } from "./parked-jobs.ts";

/** Interval at which a node checks whether it can claim jobs. */
const TICK_MS = 1000;
/** Minimum time between two claims by any node, in ticks. */
const TICK_RATIO_MIN = 0.9;
/** Time reserved for a node to choose jobs. After that, another node can take the turn. */
const LOOK_MS_MAX = 10_000;
/** Maximum number of jobs per tick, cluster-wide, whose sources are asked for pending changes. */
const ASKED_MAX = 10;
const ASKED_AT_ONCE_MAX = 5;
/** Maximum number of jobs scanned per tick, most of which might be parked. */
const LOOKED_AT_MAX = 1000;
/**
 * Maximum number of jobs read per tick. Larger than `ASKED_MAX`, because most of the jobs read
 * might be failing at their source, and such a source is not asked.
 */
const READ_MAX = 100;
/** Maximum number of jobs read concurrently. */
const READ_AT_ONCE_MAX = 20;
/**
 * Timeout of a request. A source that has not responded in time is asked again in the next round.
 */
const ANSWER_MS_MAX = 10_000;

export interface BacklogWatchParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly parked: ParkedJobs;
  readonly controls: JobControls;
  readonly backlogs: Backlogs;
  readonly chains: Chains;
  readonly endpoints: Endpoints;
  readonly subspace: Subspace;
  /** Labels of this node, which asks only about jobs that it is allowed to run. */
  readonly labels?: Labels;
  /** Interval between rounds. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "lagIntervalSec">;
}

/** A job whose sources will be asked for the number of pending changes. */
interface Question {
  readonly jobId: string;
  readonly data: ReplicationJobData & { readonly replication: Replication };
  /** For each direction, the sequence up to which all changes have arrived at the target. */
  readonly since: readonly SourceSequence[];
}

/**
 * Either the jobs whose sources this node must ask for the number of pending changes or, if there
 * are no such jobs, the time of the next check.
 */
type Turn =
  | { readonly kind: "ask"; readonly questions: readonly Question[] }
  | { readonly kind: "wait"; readonly untilMs: number };

export class BacklogWatch {
  readonly name = "replicator.backlog-watch";
  readonly #parts: BacklogWatchParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: BacklogWatchParts) {
    this.#parts = parts;
    this.#keys = replicatorKeys(parts.subspace);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let lookedAtMs = clock.nowMs();
    let untilMs = lookedAtMs;
    while (!signal.aborted) {
      await clock.sleep(TICK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      const nowMs = clock.nowMs();
      // After the clock was set back or the interval was shortened, `untilMs` no longer counts.
      const isEarly = nowMs < untilMs && nowMs >= lookedAtMs && nowMs - lookedAtMs < this.#roundMs;
      if (isEarly) continue;
      lookedAtMs = nowMs;
      const turn = await this.#takeTurn(nowMs);
      untilMs = turn.kind === "wait" ? turn.untilMs : nowMs;
      if (turn.kind === "wait") continue;
      await forEachConcurrent(turn.questions, ASKED_AT_ONCE_MAX, (question) =>
        this.#ask(question, signal),
      );
    }
  }

  get #roundMs(): number {
    return this.#parts.config.lagIntervalSec * 1000;
  }

  /**
   * Claims the next jobs of the round. Only the node that has claimed the turn reads jobs; other
   * nodes conflict with it only on the row that stores the round.
   */
  async #takeTurn(nowMs: number): Promise<Turn> {
    const claim = await this.#claim(nowMs);
    if (!claim.isOurs) return { kind: "wait", untilMs: claim.untilMs };
    const { claimed } = claim;
    const { questions, afterId } = await this.#parts.kv.read((tx) =>
      this.#next(tx, claimed.afterId ?? ""),
    );
    // Slightly less than one tick later, because ticks vary in length.
    const nextMs = nowMs + TICK_MS * TICK_RATIO_MIN;
    const isTaken = await this.#settle(claimed, { ...claimed, nextMs, afterId });
    return isTaken ? { kind: "ask", questions } : { kind: "wait", untilMs: nextMs };
  }

  #claim(
    nowMs: number,
  ): Promise<
    | { readonly isOurs: true; readonly claimed: Round }
    | { readonly isOurs: false; readonly untilMs: number }
  > {
    return this.#parts.kv.transact(
      async (tx) => {
        const key = this.#keys.backlogRound.key({});
        const value = await tx.get(key);
        let round = value === undefined ? NO_ROUND : decodeRound(value);
        if (round.afterId === undefined) {
          const nextMs = round.beganMs + this.#roundMs;
          if (nowMs >= round.beganMs && nowMs < nextMs) return { isOurs: false, untilMs: nextMs };
          round = { beganMs: Math.floor(nowMs), nextMs: nowMs, afterId: "" };
        }
        const isEarly = nowMs < round.nextMs && round.nextMs - nowMs <= LOOK_MS_MAX;
        // Check again soon: the node that claimed the turn might finish long before its reserved
        // time ends.
        if (isEarly) return { isOurs: false, untilMs: nowMs };
        const claimed = { ...round, nextMs: Math.floor(nowMs + LOOK_MS_MAX) };
        tx.set(key, encodeRound(claimed));
        return { isOurs: true, claimed };
      },
      { whenUnknown: "retry" },
    );
  }

  /** Writes the progress of the round. Returns false if another node has taken over meanwhile. */
  #settle(claimed: Round, round: Round): Promise<boolean> {
    return this.#parts.kv.transact(
      async (tx) => {
        const key = this.#keys.backlogRound.key({});
        const value = await tx.get(key);
        const isOurs = value !== undefined && equalBytes(value, encodeRound(claimed));
        if (isOurs) tx.set(key, encodeRound(round));
        return isOurs;
      },
      { whenUnknown: "retry" },
    );
  }

  /**
   * Returns the questions about the jobs after `fromId` in id order, and the last job scanned
   * (undefined after the end).
   */
  async #next(
    tx: ReadTransaction,
    fromId: string,
  ): Promise<{ readonly questions: Question[]; readonly afterId: string | undefined }> {
    const { jobs, parked } = this.#parts;
    const from = fromId === "" ? {} : { afterId: fromId };
    const page = await jobs.schedules(tx, REPLICATION_JOB_TYPE, { ...from, limit: LOOKED_AT_MAX });
    const lastId = page.entries.at(-1)?.id ?? fromId;
    // Skip parked jobs: their backlog is known, because their sources are watched.
    const left = await parked.between(tx, fromId, lastId);
    const waiting = page.entries.filter(({ id, state }) => state === "pending" && !left.has(id));
    const questions: Question[] = [];
    for (let start = 0; start < waiting.length; start += READ_AT_ONCE_MAX) {
      if (start >= READ_MAX) return { questions, afterId: waiting[start - 1]?.id };
      const ids = waiting.slice(start, start + READ_AT_ONCE_MAX).map(({ id }) => id);
      for (const job of await jobs.getMany(tx, REPLICATION_JOB_TYPE, ids)) {
        const question = await this.#questionFor(tx, job);
        if (question !== undefined) questions.push(question);
        if (questions.length === ASKED_MAX) return { questions, afterId: job.id };
      }
    }
    return { questions, afterId: page.stoppedBy === "exhausted" ? undefined : lastId };
  }

  /** Returns the question for a job; undefined if there is nothing to ask. */
  async #questionFor(tx: ReadTransaction, job: Job): Promise<Question | undefined> {
    const { labels = NO_LABELS } = this.#parts;
    if (!waits(job) || !hasLabels(labels, job.labels)) return undefined;
    const { id: jobId } = job;
    const data = decodeJob(job);
    const { replication } = data;
    // Do not ask the source of a job that will be retried: the retry shows whether the source is
    // reachable.
    const failsAtSource = data.state === "crashing" && data.failing?.side === "source";
    const isTriedAgain = failsAtSource && job.scheduledAtSec < NEVER_SEC;
    if (replication === undefined || isTriedAgain) return undefined;
    const { restartAt } = await this.#parts.controls.get(tx, jobId);
    const begins = data.throughSequence === 0 ? replication.sinceSequence : undefined;
    const reached = [begins ?? data.throughSequence, data.reverse?.throughSequence ?? 0];
    const since = restartAt === undefined ? reached : reached.map(() => restartAt.sequence);
    return { jobId, data: { ...data, replication }, since };
  }

  async #ask(question: Question, signal: AbortSignal): Promise<void> {
    const { runtime } = this.#parts;
    const { jobId } = question;
    let pending: number | undefined;
    await waitAtMost(runtime.clock, ANSWER_MS_MAX, signal, async (over) => {
      // If a request fails, the source is asked again in the next round.
      pending = await this.#pending(question, over).catch(() => undefined);
    });
    if (signal.aborted) return;
    if (pending !== undefined) await this.#note(question, pending);
    const trace = jobTrace(runtime.trace, describeJob(jobId, question.data));
    trace.event("replication.backlog-asked", { jobId, pending });
  }

  async #pending({ data, since }: Question, signal: AbortSignal): Promise<number | undefined> {
    let total = 0;
    for (const [index, { source, options }] of directionsOf(data.replication).entries()) {
      const once = { ...options, retriesPerRequest: 0 };
      const endpoint = this.#parts.endpoints.open(source, once, data);
      const pending = await endpoint.pendingChangeCount(since[index], signal);
      if (pending === undefined) return undefined;
      total += pending;
    }
    return total;
  }

  /** Stores the count, unless the job has run meanwhile. */
  async #note({ jobId, data }: Question, pending: number): Promise<void> {
    const { runtime, kv, jobs, backlogs, chains } = this.#parts;
    await kv.transact(
      async (tx) => {
        const job = await jobs.get(tx, { type: REPLICATION_JOB_TYPE, id: jobId });
        if (job === undefined || !waits(job)) return;
        const { lastUpdatedMs } = decodeJob(job);
        if (lastUpdatedMs !== data.lastUpdatedMs) return;
        const before = await backlogs.get(tx, jobId);
        const after = backlogAsked(before, pending, runtime.clock.nowMs());
        const isSame = before?.pending === pending && before.sinceMs === after.sinceMs;
        if (isSame && before.seenMs >= lastUpdatedMs) return;
        await backlogs.set(tx, jobId, after);
        await chains.noteReached(tx, jobId, data, after);
      },
      { whenUnknown: "retry" },
    );
  }
}

function waits(job: Job): boolean {
  if (job.state !== "pending" || isAwaiting(job)) return false;
  return isReadable(job) && !hasEnded(decodeJob(job).state);
}

interface Round {
  readonly beganMs: number;
  /** Time of the next claim, in milliseconds since the epoch. */
  readonly nextMs: number;
  /** Id of the last job scanned in this round: "" before the first, undefined after the last. */
  readonly afterId: string | undefined;
}

const NO_ROUND: Round = { beganMs: 0, nextMs: 0, afterId: undefined };

/** Format version, stored as the first element. */
const FORMAT = 1;

/**
 * Encodes the progress of a round. In place of the null, older versions store the last displayed
 * id, because they visit jobs in the order of displayed ids.
 */
function encodeRound({ beganMs, nextMs, afterId }: Round): Uint8Array {
  return packTuple([FORMAT, Math.floor(beganMs), Math.floor(nextMs), null, afterId ?? null]);
}

function decodeRound(value: Uint8Array): Round {
  const [format, beganMs, nextMs, , jobId] = unpackTuple(value);
  assert(format === FORMAT, "A round must have a supported format version");
  const afterId = typeof jobId === "string" ? jobId : undefined;
  return { beganMs: Number(beganMs), nextMs: Number(nextMs), afterId };
}
