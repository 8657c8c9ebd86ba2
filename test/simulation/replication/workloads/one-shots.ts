/** One-shot replications, persistent and transient: each ends, and has then brought over what was there when it was asked for. */
import { errorCode } from "../../../../src/base/index.ts";
import type { ReadTransaction } from "../../../../src/kv/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../../src/replicator/index.ts";
import { fromJobData } from "../../../../src/replicator/job-data.ts";
import type { SeededRandom } from "../../kernel/seeded-random.ts";
import type { Workload } from "../../workload.ts";
import { contentOf } from "../checks.ts";
import { jobOptions } from "../knobs.ts";
import { JOBS_DATABASE, openIfThere, type Scene } from "../scene.ts";
import { place } from "../topology.ts";
import { targetOf } from "./convergence.ts";

const USER = { userName: "alice", isAdmin: true };

interface OneShot {
  readonly source: string;
  readonly target: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly isPersistent: boolean;
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
      return { source, target, body, isPersistent: random.chance(0.5) };
    });
  }

  async start(untilMs: number): Promise<void> {
    const { world, client } = this.#scene;
    while (world.time.nowMs < untilMs) {
      await client.node.runtime.clock.sleep(this.#random.between(500, 8000));
      await this.#ask(this.#random.pick(this.#oneShots));
    }
  }

  /** Asks once more for those that ended before their sources did. */
  async tend(): Promise<void> {
    const { observer } = this.#scene;
    for (const oneShot of this.#oneShots) {
      const isDue = await observer.kv.read(
        async (tx) => !(await this.#isActive(tx, oneShot)) && (await this.#lacks(tx, oneShot)),
      );
      if (isDue) await this.#ask(oneShot);
    }
  }

  async lacking(tx: ReadTransaction): Promise<readonly string[]> {
    const lacking: string[] = [];
    for (const oneShot of this.#oneShots) {
      if (await this.#isActive(tx, oneShot)) lacking.push(`${oneShot.target} is being written`);
      if (await this.#lacks(tx, oneShot)) lacking.push(`${oneShot.target} lacks something`);
    }
    return lacking;
  }

  async #ask({ body, isPersistent, target }: OneShot): Promise<void> {
    const { client } = this.#scene;
    if (isPersistent) {
      await client.put(JOBS_DATABASE, target, { ...body, asked: this.#askedCount++ });
      return;
    }
    await client.node.replicator.start(parseReplication(body), USER).catch((error: unknown) => {
      // The store was not there, or did not say; somebody asks again.
      if (!errorCode(error)?.startsWith("KV_")) throw error;
    });
  }

  async #isActive(tx: ReadTransaction, { target }: OneShot): Promise<boolean> {
    const { jobs } = this.#scene.observer;
    const { entries } = await jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
    return entries.some(
      ({ state, data }) =>
        state !== "finished" && targetOf(fromJobData(data).replication?.target) === target,
    );
  }

  async #lacks(tx: ReadTransaction, { source, target }: OneShot): Promise<boolean> {
    const { databases } = this.#scene.observer;
    const from = await openIfThere(tx, databases, source);
    const to = await openIfThere(tx, databases, target);
    if (from === undefined) return false;
    if (to === undefined) return true;
    const found = await contentOf(tx, to, () => true);
    const wanted = await contentOf(tx, from, () => true);
    return [...wanted].some(([revision, content]) => found.get(revision) !== content);
  }
}
