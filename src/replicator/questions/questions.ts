/** Answers questions of API-only nodes from the queue, on a replication node. */
import { abortWith, errorCode, type JsonText, runTogether, Utf8Text } from "../../base/index.ts";
import type { Authority, WriteContext } from "../../databases/index.ts";
import {
  type HeldJob,
  type Job,
  type JobData,
  JobHaltedError,
  type SlotlessJobsParts,
  type SlotlessJobType,
} from "../../jobs/index.ts";
import { describeFailure } from "../failures/failure.ts";
import { QUESTION_TYPE } from "../job-watching/parked-jobs.ts";
import type { ReplicationChecks } from "../replication-checks.ts";
import { replicationMembers } from "../request/parse-fields.ts";
import type { RulePlans } from "../rules/rule-plans.ts";
import type { CheckAnswer } from "./asked-questions.ts";
import type { QuestionAnswer, QuestionKind } from "./question.ts";

/**
 * Age at which unclaimed questions and answers are deleted. Computing an answer never takes this
 * long.
 */
const AGE_MS_MAX = 120_000;
/** Maximum number of unclaimed answers deleted along with each question. */
const FORGOTTEN_MAX = 100;

export interface QuestionsParts extends SlotlessJobsParts {
  readonly checks: Pick<ReplicationChecks, "check">;
  readonly rulePlans: Pick<RulePlans, "ofPut">;
}

interface CheckQuestion {
  readonly database: string;
  readonly id: string;
  readonly parent: string | undefined;
  readonly text: string;
  readonly writer: WriteContext;
}

interface PlanQuestion {
  readonly name: string;
  readonly text: JsonText;
  readonly owner: Authority;
}

export class Questions implements SlotlessJobType {
  readonly type = QUESTION_TYPE;
  readonly #parts: QuestionsParts;

  constructor(parts: QuestionsParts) {
    this.#parts = parts;
  }

  async run(held: HeldJob, { data }: Pick<Job, "data">, signal: AbortSignal): Promise<void> {
    const { runtime, kv, jobs } = this.#parts;
    const ageMs = runtime.clock.nowMs() - Number(data.askedMs ?? 0);
    try {
      const answer = ageMs > AGE_MS_MAX ? undefined : await this.#answer(held, signal);
      await kv.transact(
        async (tx) => {
          if (answer === undefined) await jobs.remove(tx, held);
          else await jobs.finish(tx, held, { askedMs: data.askedMs, ...answer });
          await this.#forget(tx);
        },
        { whenUnknown: "retry" },
      );
    } catch (error) {
      // The job is lost: another node has answered, or the asker has cancelled.
      if (errorCode(error) === "JOBS_HALTED") return;
      runtime.trace.event("replication.question-lost", { error: String(error) });
    }
  }

  /** Answers a question. Stops when the asker cancels. */
  async #answer(held: HeldJob, signal: AbortSignal): Promise<QuestionAnswer> {
    const { kv, jobs } = this.#parts;
    const job = await kv.read((tx) => jobs.get(tx, held));
    if (job?.request === undefined) throw new JobHaltedError(held);
    const { kind, question } = job.request as {
      readonly kind: QuestionKind;
      readonly question: JobData;
    };
    let answer: QuestionAnswer | undefined;
    const over = new AbortController();
    await runTogether(signal, [
      async (taskSignal) => {
        try {
          answer = { kind: "answered", answer: await this.#ask(kind, question, taskSignal) };
        } catch (error) {
          taskSignal.throwIfAborted();
          answer = { kind: "failed", code: errorCode(error) ?? null, ...describeFailure(error) };
        } finally {
          over.abort(OVER);
        }
      },
      async (taskSignal) => {
        const unfollow = abortWith(taskSignal, over);
        const watch = await kv.transact((tx) => jobs.watchHeld(tx, held));
        await watch.fired(over.signal).catch(() => {});
        watch.cancel();
        unfollow();
        if (answer === undefined && !over.signal.aborted) throw new JobHaltedError(held);
      },
    ]);
    if (answer === undefined) throw new JobHaltedError(held);
    return answer;
  }

  async #ask(kind: QuestionKind, question: JobData, signal: AbortSignal): Promise<JobData> {
    const { checks, rulePlans } = this.#parts;
    if (kind === "plan") {
      const { name, text, owner } = question as unknown as PlanQuestion;
      return { ...(await rulePlans.ofPut(name, replicationMembers(text), owner, signal)) };
    }
    const { database, id, parent, text, writer } = question as unknown as CheckQuestion;
    const body = Utf8Text.of(text);
    const edit = {
      mode: "interactive",
      id,
      parent,
      deleted: false,
      body,
      attachments: [],
    } as const;
    const { twin, ...checked } = await checks.check(database, edit, writer, signal);
    const answer: CheckAnswer = twin === undefined ? checked : { ...checked, twinId: twin.jobId };
    return { ...answer };
  }

  /** Deletes answers that no node is waiting for any more. */
  async #forget(
    tx: Parameters<Parameters<SlotlessJobsParts["kv"]["transact"]>[0]>[0],
  ): Promise<void> {
    const { jobs, runtime } = this.#parts;
    const page = await jobs.list(tx, QUESTION_TYPE, { limit: FORGOTTEN_MAX });
    for (const job of page.entries) {
      const ageMs = runtime.clock.nowMs() - Number(job.data.askedMs ?? 0);
      if (job.state === "finished" && ageMs > AGE_MS_MAX) await jobs.remove(tx, job);
    }
  }
}

/** Abort reason, created once: creating the default one costs more than the abort itself. */
const OVER = new Error("The question has been answered");
