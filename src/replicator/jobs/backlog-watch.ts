/**
 * Asks the sources of jobs that wait or are paused, now and then, how many changes are to come: nobody else looks at them. The
 * nodes that run jobs share this in rounds. In a round each such job is asked once, a few of them a second by all nodes together,
 * so that thousands of paused jobs cost their servers little. Questions use the budgets of the endpoints.
 */
import {
  assert,
  equalBytes,
  forEachConcurrent,
  type Runtime,
  waitAtMost,
} from "../../base/index.ts";
import type { Job, Jobs } from "../../jobs/index.ts";
import {
  type KeyValueStore,
  packTuple,
  type ReadTransaction,
  type Subspace,
  unpackTuple,
} from "../../kv/index.ts";
import type { SourceSequence } from "../endpoints/endpoint.ts";
import type { Endpoints } from "../endpoints/endpoints.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import { ReplicatorKeys } from "../replicator-keys.ts";
import type { Replication } from "../request/replication.ts";
import { backlogAsked } from "./backlog.ts";
import type { Backlogs } from "./backlogs.ts";
import { NEVER_SEC } from "./decide.ts";
import type { JobControls } from "./job-controls.ts";
import { hasEnded, REPLICATION_JOB_TYPE, type ReplicationJobData } from "./job-data.ts";
import { decodeJob, isReadable } from "./job-data-record.ts";
import { describeJob, jobTrace } from "./job-trace.ts";
import type { ParkedJobs } from "./parked-jobs.ts";

/** How often it is looked whether something is due. */
const TICK_MS = 1000;
/** The nodes together act once in so much of a tick. */
const TICK_RATIO_MIN = 0.9;
/** For so long others wait for a node that looks for jobs; then it is dead, or its store is slow. */
const LOOK_MS_MAX = 10_000;
/** Jobs that are asked about in one tick, by all nodes together. */
const ASKED_MAX = 10;
const ASKED_AT_ONCE_MAX = 5;
/** Jobs that are looked at for that; most may be parked. */
const LOOKED_AT_MAX = 1000;
/** Jobs that are read for that, and at once; most may fail, and are tried again soon. */
const READ_MAX = 100;
const READ_AT_ONCE_MAX = 20;
/** What has not answered after so long is asked again in the next round. */
const ANSWER_MS_MAX = 10_000;

export interface BacklogWatchParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly parked: ParkedJobs;
  readonly controls: JobControls;
  readonly backlogs: Backlogs;
  readonly endpoints: Endpoints;
  readonly subspace: Subspace;
  /** Read at each use. */
  readonly config: Pick<ReplicatorConfig, "lagIntervalSec">;
}

/** A job whose source is to be asked. */
interface Question {
  readonly jobId: string;
  readonly data: ReplicationJobData & { readonly replication: Replication };
  /** Changes behind it have not arrived. */
  readonly since: SourceSequence;
}

/** What this node is to ask now, or when to look again. */
type Turn =
  | { readonly kind: "ask"; readonly questions: readonly Question[] }
  | { readonly kind: "wait"; readonly untilMs: number };

export class BacklogWatch {
  readonly name = "replicator.backlog-watch";
  readonly #parts: BacklogWatchParts;
  readonly #keys: ReplicatorKeys;

  constructor(parts: BacklogWatchParts) {
    this.#parts = parts;
    this.#keys = new ReplicatorKeys(parts.subspace);
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#parts.runtime;
    let lookedAtMs = clock.nowMs();
    let untilMs = lookedAtMs;
    while (!signal.aborted) {
      await clock.sleep(TICK_MS, signal).catch(() => {});
      if (signal.aborted) return;
      const nowMs = clock.nowMs();
      // A clock that was set back, or a shorter interval, counts at once.
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
   * Takes the next jobs of the round, which no other node takes then. What is to be read for that is read by the node alone that has said
   * that it does: the transactions of all nodes that find a turn free take only the row of the round.
   */
  async #takeTurn(nowMs: number): Promise<Turn> {
    const claim = await this.#claim(nowMs);
    if (!claim.isOurs) return { kind: "wait", untilMs: claim.untilMs };
    const { claimed } = claim;
    const { questions, afterId } = await this.#parts.kv.read((tx) =>
      this.#next(tx, claimed.afterId ?? ""),
    );
    // A little sooner than in a tick: none is ever quite as long as the one before.
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
        const key = this.#keys.backlogRound();
        const value = await tx.get(key);
        let round = value === undefined ? NO_ROUND : decodeRound(value);
        if (round.afterId === undefined) {
          const nextMs = round.beganMs + this.#roundMs;
          if (nowMs >= round.beganMs && nowMs < nextMs) return { isOurs: false, untilMs: nextMs };
          round = { beganMs: Math.floor(nowMs), nextMs: nowMs, afterId: "" };
        }
        const isEarly = nowMs < round.nextMs && round.nextMs - nowMs <= LOOK_MS_MAX;
        // Whoever looks may be through long before.
        if (isEarly) return { isOurs: false, untilMs: nowMs };
        const claimed = { ...round, nextMs: Math.floor(nowMs + LOOK_MS_MAX) };
        tx.set(key, encodeRound(claimed));
        return { isOurs: true, claimed };
      },
      { whenUnknown: "retry" },
    );
  }

  /** False when others have gone on meanwhile. */
  #settle(claimed: Round, round: Round): Promise<boolean> {
    return this.#parts.kv.transact(
      async (tx) => {
        const key = this.#keys.backlogRound();
        const value = await tx.get(key);
        const isOurs = value !== undefined && equalBytes(value, encodeRound(claimed));
        if (isOurs) tx.set(key, encodeRound(round));
        return isOurs;
      },
      { whenUnknown: "retry" },
    );
  }

  /** Jobs behind `afterId` in the order of their ids; undefined when these were the last. */
  async #next(
    tx: ReadTransaction,
    fromId: string,
  ): Promise<{ readonly questions: Question[]; readonly afterId: string | undefined }> {
    const { jobs, parked } = this.#parts;
    const from = fromId === "" ? {} : { afterId: fromId };
    const page = await jobs.schedules(tx, REPLICATION_JOB_TYPE, { ...from, limit: LOOKED_AT_MAX });
    const lastId = page.entries.at(-1)?.id ?? fromId;
    // The watchers of their sources know that nothing is to come.
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

  /** Undefined for a job about whose source there is nothing to ask. */
  async #questionFor(tx: ReadTransaction, job: Job): Promise<Question | undefined> {
    if (!waits(job)) return undefined;
    const { id: jobId } = job;
    const data = decodeJob(job);
    const { replication } = data;
    // Its next try finds out whether the source answers again.
    const failsAtSource = data.state === "crashing" && data.failing?.side === "source";
    const isTriedAgain = failsAtSource && job.scheduledAtSec < NEVER_SEC;
    if (replication === undefined || isTriedAgain) return undefined;
    const { restartAt } = await this.#parts.controls.get(tx, jobId);
    const begins = data.throughSequence === 0 ? replication.sinceSequence : undefined;
    const since = restartAt === undefined ? (begins ?? data.throughSequence) : restartAt.sequence;
    return { jobId, data: { ...data, replication }, since };
  }

  async #ask(question: Question, signal: AbortSignal): Promise<void> {
    const { runtime } = this.#parts;
    const { jobId } = question;
    let pending: number | undefined;
    await waitAtMost(runtime.clock, ANSWER_MS_MAX, signal, async (over) => {
      // A source that cannot say is asked again in the next round.
      pending = await this.#pending(question, over).catch(() => undefined);
    });
    if (signal.aborted) return;
    if (pending !== undefined) await this.#note(question, pending);
    const trace = jobTrace(runtime.trace, describeJob(jobId, question.data));
    trace.event("replication.backlog-asked", { jobId, pending });
  }

  async #pending({ data, since }: Question, signal: AbortSignal): Promise<number | undefined> {
    const { source, options } = data.replication;
    const once = { ...options, retriesPerRequest: 0 };
    return this.#parts.endpoints.open(source, once, data).pendingChangeCount(since, signal);
  }

  /** Unless the job has run meanwhile. */
  async #note({ jobId, data }: Question, pending: number): Promise<void> {
    const { runtime, kv, jobs, backlogs } = this.#parts;
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
      },
      { whenUnknown: "retry" },
    );
  }
}

function waits(job: Job): boolean {
  return job.state === "pending" && isReadable(job) && !hasEnded(decodeJob(job).state);
}

/** Where the nodes are in a round. */
interface Round {
  readonly beganMs: number;
  /** When the next jobs may be asked about. */
  readonly nextMs: number;
  /** The last job that was looked at; "" before the first, undefined when the round is over. */
  readonly afterId: string | undefined;
}

const NO_ROUND: Round = { beganMs: 0, nextMs: 0, afterId: undefined };

/** The stored form; the first element is the format's version. */
const FORMAT = 1;

/** Older versions order jobs by their shown id, which has the place of the null. */
function encodeRound({ beganMs, nextMs, afterId }: Round): Uint8Array {
  return packTuple([FORMAT, Math.floor(beganMs), Math.floor(nextMs), null, afterId ?? null]);
}

function decodeRound(value: Uint8Array): Round {
  const [format, beganMs, nextMs, , jobId] = unpackTuple(value);
  assert(format === FORMAT, "A round has a format of this version");
  const afterId = typeof jobId === "string" ? jobId : undefined;
  return { beganMs: Number(beganMs), nextMs: Number(nextMs), afterId };
}
