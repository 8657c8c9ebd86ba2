/** Operators make random decisions about jobs. At the end, no job is paused. */

import { errorCode } from "../../../../src/base/index.ts";
import { REPLICATION_JOB_TYPE } from "../../../../src/replicator/index.ts";
import { decodeJob } from "../../../../src/replicator/jobs/job-data-record.ts";
import type { SeededRandom } from "../../kernel/seeded-random.ts";
import type { Workload } from "../../workload.ts";
import type { Scene } from "../scene.ts";

const OPERATOR = "olga";
const COMMANDS = ["pause", "pause", "resume", "resume", "retry", "reset", "start-from", "cancel"];

export class Operators implements Workload {
  readonly #scene: Scene;
  readonly #random: SeededRandom;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#random = scene.random.fork("operators");
  }

  async start(untilMs: number): Promise<void> {
    const { world, client } = this.#scene;
    while (world.time.nowMs < untilMs) {
      await client.node.runtime.clock.sleep(this.#random.between(200, 4000));
      const jobs = await this.#jobs();
      if (jobs.length === 0) continue;
      await this.#command(this.#random.pick(jobs), this.#random.pick(COMMANDS)).catch(
        (error: unknown) => {
          if (!errorCode(error)?.startsWith("KV_")) throw error;
        },
      );
    }
  }

  async tend(): Promise<void> {
    for (const { id } of await this.#jobs()) {
      await this.#scene.client.node.replicator.commands.resume(id, { userName: OPERATOR });
    }
  }

  async #command(job: Awaited<ReturnType<Operators["jobsOf"]>>[number], command: string) {
    const { commands } = this.#scene.client.node.replicator;
    if (command === "pause") return commands.pause(job.id, { userName: OPERATOR });
    if (command === "resume") return commands.resume(job.id, { userName: OPERATOR });
    if (command === "retry") return commands.retry(job.id, { userName: OPERATOR });
    if (command === "cancel") return commands.cancel(job.id, { userName: OPERATOR });
    // A start sequence must not skip changes. The checkpoint's sequence does not, because
    // everything up to it has arrived. If a database was re-created, however, its sequences start
    // from the beginning.
    const { checkpointedSequence } = decodeJob(job);
    const isReset = command === "reset" || this.#scene.removed.size > 0;
    return commands.startFrom(job.id, isReset ? 0 : checkpointedSequence, { userName: OPERATOR });
  }

  async #jobs() {
    return this.jobsOf(this.#scene.client.node);
  }

  async jobsOf({ kv, jobs }: Scene["client"]["node"]) {
    const page = await kv.read((tx) => jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 }));
    return page.entries;
  }
}
