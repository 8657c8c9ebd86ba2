/** Delegates checks and plans of API-only nodes to a replication node. */
import { abortWith, printJson, type Runtime, randomHex } from "../../base/index.ts";
import type { Authority, WriteContext } from "../../databases/index.ts";
import { type JobData, JobSubscriptions, type Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, ReadTransaction } from "../../kv/index.ts";
import { ChecksBusyError } from "../checks-busy.ts";
import type { InteractiveEdit } from "../documents/replication-hook.ts";
import { EndpointError } from "../endpoints/endpoint.ts";
import { QUESTION_TYPE } from "../job-watching/parked-jobs.ts";
import { CHECK_MS_MAX, type ReplicationCheck } from "../replication-checks.ts";
import type { Replicator } from "../replicator.ts";
import type { ReplicatorConfig } from "../replicator-config.ts";
import type { Members } from "../request/parse-fields.ts";
import { parseRule } from "../rules/rule.ts";
import { LISTING_MS_MAX, type RulePlan, type RulePlans } from "../rules/rule-plans.ts";
import type { Rules } from "../rules/rules.ts";
import { NoReplicationNodeError, type QuestionAnswer, type QuestionKind } from "./question.ts";

/**
 * Maximum time that a question and its answer spend waiting in the queue. Added to the time limit
 * for computing the answer.
 */
const QUEUE_MS_MAX = 5000;

const NO_NODE =
  "This node opens no connections to other servers, and no replication node runs. Start one with --node-type replication";

export interface AskedQuestionsParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly replicator: Pick<Replicator, "find">;
  readonly rules: Pick<Rules, "check">;
  /** Computes plans that need no connection to another server. */
  readonly plans: RulePlans;
  /** Settings for parsing. Read at each use, so that changed settings apply. */
  readonly config: Pick<ReplicatorConfig, "options" | "protocols">;
}

export class AskedQuestions {
  readonly #parts: AskedQuestionsParts;
  readonly #subscriptions: JobSubscriptions;

  constructor(parts: AskedQuestionsParts) {
    this.#parts = parts;
    this.#subscriptions = new JobSubscriptions(parts.runtime, parts.kv, parts.jobs);
  }

  /** Runs `ReplicationChecks.check` on a replication node. Throws a NoReplicationNodeError. */
  async check(
    database: string,
    { id, parent, body }: InteractiveEdit,
    { userName, roles, isAdmin, vouchedBy }: WriteContext,
    signal: AbortSignal,
  ): Promise<ReplicationCheck> {
    const writer = { userName, roles, isAdmin, vouchedBy };
    const question = { database, id, parent, text: body.text, writer };
    const answer = await this.#ask("check", question, CHECK_MS_MAX, signal);
    const { twinId, ...checked } = answer as unknown as CheckAnswer;
    const twin = twinId === undefined ? undefined : await this.#parts.replicator.find(twinId);
    return { ...checked, twin };
  }

  /**
   * Runs `RulePlans.ofPut` on a replication node, or on this node if the plan needs no connection.
   * Throws a NoReplicationNodeError.
   */
  async ofPut(
    name: string,
    members: Members,
    owner: Authority,
    signal: AbortSignal,
  ): Promise<RulePlan> {
    const { rules, plans, config } = this.#parts;
    const rule = parseRule(await rules.check(name, members), config);
    // A plan for copying security objects compares them with the security objects of the targets,
    // which might be on other servers.
    const needsConnection = rule.server !== undefined || rule.copiesSecurity;
    if (!needsConnection) return plans.ofPut(name, members, owner, signal);
    const question = { name, text: printJson(members), owner };
    const answer = await this.#ask("plan", question, LISTING_MS_MAX, signal);
    return answer as unknown as RulePlan;
  }

  ofRemoval(name: string): Promise<RulePlan | undefined> {
    return this.#parts.plans.ofRemoval(name);
  }

  async #ask(
    kind: QuestionKind,
    question: JobData,
    limitMs: number,
    signal: AbortSignal,
  ): Promise<JobData> {
    const { runtime, kv, jobs } = this.#parts;
    const name = { type: QUESTION_TYPE, id: randomHex(runtime.random) };
    await kv.transact(async (tx) => {
      if (!(await this.#isAnswered(tx))) throw new NoReplicationNodeError(NO_NODE);
      await jobs.add(tx, name, { askedMs: runtime.clock.nowMs() }, { request: { kind, question } });
    });
    const over = new AbortController();
    const unfollow = abortWith(signal, over);
    const lost = this.#untilUnanswered(over.signal).then(
      () => over.abort(new NoReplicationNodeError(NO_NODE)),
      (error: unknown) => over.abort(error),
    );
    try {
      const subscription = await this.#subscriptions.subscribe(name);
      const timeoutMs = limitMs + QUEUE_MS_MAX;
      const waiting = { state: "finished", timeoutMs, signal: over.signal } as const;
      const event = subscription && (await this.#subscriptions.wait([subscription], waiting));
      const job = event?.kind === "changed" ? event.job : subscription?.job;
      if (job?.state === "finished") return answered(job.data as unknown as QuestionAnswer);
    } finally {
      unfollow();
      over.abort(OVER);
      await lost;
      await kv.transact((tx) => jobs.remove(tx, name), { whenUnknown: "retry" });
    }
    const reason = `No replication node has answered within ${(limitMs + QUEUE_MS_MAX) / 1000} s`;
    throw new NoReplicationNodeError(reason);
  }

  /** Whether any node answers questions. */
  async #isAnswered(tx: ReadTransaction): Promise<boolean> {
    return (await this.#parts.jobs.workers.members(tx.snapshot, QUESTION_TYPE)).length > 0;
  }

  /** Settles when no node that answers questions is left. */
  async #untilUnanswered(signal: AbortSignal): Promise<void> {
    const { kv, jobs } = this.#parts;
    for (;;) {
      const { isAnswered, changed } = await kv.transact(async (tx) => ({
        isAnswered: await this.#isAnswered(tx),
        changed: jobs.workers.watch(tx),
      }));
      try {
        if (!isAnswered) return;
        await changed.fired(signal);
      } finally {
        changed.cancel();
      }
    }
  }
}

/** Abort reason, created once because creating an error is expensive. */
const OVER = new Error("Wait cancelled: its result is no longer needed");

/**
 * Stored result of a check. For a duplicate job, only the job's id is stored; the node that asked
 * reads the job.
 */
export type CheckAnswer = Omit<ReplicationCheck, "twin"> & { readonly twinId?: string };

function answered(answer: QuestionAnswer): JobData {
  if (answer.kind === "answered") return answer.answer;
  const { code, error, reason } = answer;
  throw code === "REPLICATOR_CHECKS_BUSY"
    ? new ChecksBusyError()
    : new EndpointError(error, reason);
}
