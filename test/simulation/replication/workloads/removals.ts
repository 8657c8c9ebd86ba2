/**
 * Databases are deleted and re-created: sources, targets, and a `_replicator` database with its
 * jobs.
 */
import type { ReadTransaction } from "../../../../src/kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../../../../src/replicator/index.ts";
import { decodeJob } from "../../../../src/replicator/jobs/job-data-record.ts";
import type { SeededRandom } from "../../kernel/seeded-random.ts";
import type { Workload } from "../../workload.ts";
import { jobOptions } from "../knobs.ts";
import type { Scene } from "../scene.ts";
import { place } from "../topology.ts";

const SPARE_JOBS = "spare/_replicator";
const JOBS_MAX = 5;

export class Removals implements Workload {
  readonly #scene: Scene;
  readonly #random: SeededRandom;
  readonly #removable: readonly string[];
  #isOver = false;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#random = scene.random.fork("removals");
    const chosen = scene.topology.databases.filter(() => this.#random.chance(0.3));
    this.#removable = [SPARE_JOBS, SPARE_JOBS, ...chosen];
    for (const name of chosen) scene.removed.add(name);
  }

  async setup(): Promise<void> {
    await this.#addJobs();
  }

  async start(untilMs: number): Promise<void> {
    const { world, client } = this.#scene;
    const { clock } = client.node.runtime;
    while (world.time.nowMs < untilMs) {
      await clock.sleep(this.#random.between(1000, 10_000));
      const name = this.#random.pick(this.#removable);
      await client.removeDatabase(name);
      await clock.sleep(this.#random.between(0, 5000));
      await client.createDatabases([name]);
      if (name === SPARE_JOBS) await this.#addJobs();
    }
  }

  /**
   * Removes the spare jobs, if this has not been done yet. The simulation cannot end while they
   * exist.
   */
  async tend(): Promise<void> {
    if (!this.#isOver) await this.#scene.client.removeDatabase(SPARE_JOBS);
    this.#isOver = true;
  }

  async lacking(tx: ReadTransaction): Promise<readonly string[]> {
    const { entries } = await this.#scene.observer.jobs.list(tx, REPLICATION_JOB_TYPE, {
      limit: 1000,
    });
    return entries
      .filter((job) => decodeJob(job).document?.database === SPARE_JOBS)
      .map(({ id }) => `${id} is there, and its database is not`);
  }

  async #addJobs(): Promise<void> {
    const { client, topology } = this.#scene;
    await client.createDatabases([SPARE_JOBS]);
    for (let number = this.#random.integer(JOBS_MAX); number >= 0; number--) {
      const source = place(this.#random, this.#random.pick(topology.databases));
      const body = { ...jobOptions(this.#random), source, target: "spare", create_target: true };
      const continuous = this.#random.chance(0.7);
      await client.put(SPARE_JOBS, `spare-${number}`, { ...body, continuous });
    }
  }
}
