/**
 * One-shot replications, persistent and transient. Each replication ends, and has then copied the
 * documents that existed when it was requested. Documents that were changed later are not checked,
 * because their changes can be beyond the run's upper bound.
 */
import { errorCode } from "../../../../src/base/index.ts";
import type { ReadTransaction } from "../../../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../../src/replicator/index.ts";
import { hasEnded } from "../../../../src/replicator/jobs/job-data.ts";
import { decodeJob } from "../../../../src/replicator/jobs/job-data-record.ts";
import type { SeededRandom } from "../../kernel/seeded-random.ts";
import type { Workload } from "../../workload.ts";
import { contentOf, isPast } from "../checks.ts";
import { jobOptions } from "../knobs.ts";
import { baseIdOf, JOBS_DATABASE, openIfExists, type Scene } from "../scene.ts";
import { place } from "../topology.ts";
import { targetOf } from "./convergence.ts";

const USER = { userName: "alice", isAdmin: true };

interface OneShot {
  readonly baseId: string;
  readonly source: string;
  readonly target: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly isPersistent: boolean;
  /** Id of the replication's job. It is undefined until it is known. */
  jobId?: string;
  /**
   * State of the source when the pending run was first requested: its content, by id and revision,
   * and its sequence.
   */
  asked?: { readonly content: ReadonlySet<string>; readonly sequence: string };
  /**
   * Whether a run was accepted since the last request. Until then, an announced end can belong to
   * the previous run, because nodes store the end of a run before they announce it.
   */
  hasRun: boolean;
  hasCompleted: boolean;
}

export class OneShots implements Workload {
  readonly #scene: Scene;
  readonly #random: SeededRandom;
  readonly #oneShots: readonly OneShot[];
  #askedCount = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#random = scene.random.fork("one-shots");
    const random = this.#random;
    this.#oneShots = Array.from({ length: 1 + random.integer(3) }, (_, number) => {
      const source = random.pick(scene.topology.edited);
      const target = `once-${number}`;
      const places = { source: place(random, source), target: place(random, target) };
      const body = { ...places, ...jobOptions(random), create_target: true };
      const isPersistent = random.chance(0.5);
      const baseId = baseIdOf(scene, body);
      return { baseId, source, target, body, isPersistent, hasRun: false, hasCompleted: false };
    });
    scene.world.listeners.push((name, fields = {}) => {
      const isEnd = name === "replication.ended" && fields.state === "completed";
      if (!isEnd && name !== "replication.accepted") return;
      for (const oneShot of this.#oneShots) {
        const isIts =
          fields.jobId === oneShot.jobId || String(fields.jobId).endsWith(`|${oneShot.target}`);
        if (!isIts) continue;
        if (isEnd) oneShot.hasCompleted = oneShot.hasRun;
        else oneShot.hasRun = true;
      }
    });
  }

  async start(untilMs: number): Promise<void> {
    const { world, client } = this.#scene;
    while (world.time.nowMs < untilMs) {
      await client.node.runtime.clock.sleep(this.#random.between(500, 8000));
      await this.#ask(this.#random.pick(this.#oneShots));
    }
  }

  /** Requests inactive replications again if their targets lack documents. */
  async tend(): Promise<void> {
    const { observer } = this.#scene;
    for (const oneShot of this.#oneShots) {
      const isDue = await observer.kv.read(
        async (tx) => !(await this.#isActive(tx, oneShot)) && (await this.#lacks(tx, oneShot)),
      );
      if (!isDue) continue;
      await this.#retryFailures(oneShot);
      await this.#ask(oneShot);
    }
  }

  /**
   * Requests a retry, because failed documents of a transient job are not retried automatically.
   */
  async #retryFailures({ isPersistent, jobId }: OneShot): Promise<void> {
    const { replicator } = this.#scene.client.node;
    const entry = isPersistent || jobId === undefined ? undefined : await replicator.find(jobId);
    if (entry?.data.state !== "completed") return;
    await replicator.failures.retry(entry, undefined, new AbortController().signal);
  }

  async lacking(tx: ReadTransaction): Promise<readonly string[]> {
    const lacking: string[] = [];
    for (const oneShot of this.#oneShots) {
      if (await this.#isActive(tx, oneShot)) lacking.push(`${oneShot.target} is being written`);
      if (await this.#lacks(tx, oneShot)) lacking.push(`${oneShot.target} lacks something`);
    }
    return lacking;
  }

  /**
   * Checks each completed run: the documents that existed when it was requested must have been
   * copied, or be listed as failed.
   */
  async watch(tx: ReadTransaction): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const oneShot of this.#oneShots) {
      const { asked, hasCompleted, target } = oneShot;
      oneShot.hasCompleted = false;
      if (!hasCompleted || asked === undefined) continue;
      for (const revision of await this.#failures(tx, oneShot, asked)) {
        problems.push(`${target} was completed without ${revision}`);
      }
    }
    return problems;
  }

  async #failures(
    tx: ReadTransaction,
    { source, target, baseId }: OneShot,
    asked: NonNullable<OneShot["asked"]>,
  ): Promise<readonly string[]> {
    const { databases, failureLists } = this.#scene.observer;
    const from = await openIfExists(tx, databases, source);
    const to = await openIfExists(tx, databases, target);
    if (this.#scene.removed.has(source) || from === undefined || to === undefined) return [];
    const { entries } = await failureLists.page(tx, baseId, { limit: 1000 });
    const listed = new Set(entries.map(({ id, revision }) => `${id} ${revision}`));
    const left: string[] = [];
    const changes = await from.changes.page(tx, { since: asked.sequence });
    const changed = new Set(changes.entries.map(({ id }) => id));
    const isKept = (id: string): boolean => !changed.has(id);
    // Documents that were replaced after the request need not have arrived.
    for (const revision of (await contentOf(tx, from, isKept)).keys()) {
      if (!asked.content.has(revision) || listed.has(revision)) continue;
      if (!(await isPast(tx, to, revision))) left.push(revision);
    }
    return left;
  }

  async #noteAsked(oneShot: OneShot): Promise<void> {
    const { observer } = this.#scene;
    await observer.kv.read(async (tx) => {
      if (await this.#isActive(tx, oneShot)) return;
      const source = await openIfExists(tx, observer.databases, oneShot.source);
      if (source === undefined) delete oneShot.asked;
      else {
        const content = new Set((await contentOf(tx, source, () => true)).keys());
        oneShot.asked = { content, sequence: await source.changes.lastSequence(tx) };
      }
      oneShot.hasRun = false;
      oneShot.hasCompleted = false;
    });
  }

  async #ask(oneShot: OneShot): Promise<void> {
    const { client } = this.#scene;
    const { body, isPersistent, target } = oneShot;
    await this.#noteAsked(oneShot);
    if (isPersistent) {
      await client.put(JOBS_DATABASE, target, { ...body, asked: this.#askedCount++ });
      return;
    }
    const { replicator } = client.node;
    const replication = parseReplication(body);
    oneShot.jobId = replicator.transientId(replication, USER);
    await replicator.start(replication, USER).catch((error: unknown) => {
      // After an error of the store, which might be unavailable or unable to report the outcome,
      // the request is repeated later.
      if (!errorCode(error)?.startsWith("KV_")) throw error;
    });
  }

  async #isActive(tx: ReadTransaction, { source, target }: OneShot): Promise<boolean> {
    const { jobs } = this.#scene.observer;
    const { entries } = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
    // If the source was re-created, its lost documents stay on the failure list and are requested
    // repeatedly. The job is then not finished even after its run has ended.
    const endsWithList = this.#scene.removed.has(source);
    return entries.some((job) => {
      const { replication, state: outcome } = decodeJob(job);
      const isOver = job.state === "finished" || (endsWithList && hasEnded(outcome));
      return !isOver && targetOf(replication?.target) === target;
    });
  }

  async #lacks(tx: ReadTransaction, { source, target }: OneShot): Promise<boolean> {
    const { databases } = this.#scene.observer;
    const from = await openIfExists(tx, databases, source);
    const to = await openIfExists(tx, databases, target);
    if (from === undefined) return false;
    if (to === undefined) return true;
    const found = await contentOf(tx, to, () => true);
    const wanted = await contentOf(tx, from, () => true);
    return [...wanted].some(([revision, content]) => found.get(revision) !== content);
  }
}
