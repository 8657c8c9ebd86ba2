/**
 * Continuous replications. In the end, every target equals its source. Until then, no checkpoint
 * passes undelivered documents.
 */
import type { ReadTransaction } from "../../../../src/kv/index.ts";
import { REPLICATION_JOB_TYPE } from "../../../../src/replicator/index.ts";
import { decodeJob } from "../../../../src/replicator/jobs/job-data-record.ts";
import type { Workload } from "../../workload.ts";
import {
  type CheckedLink,
  checkAttachments,
  checkCheckpoints,
  checkCounters,
  checkOwners,
  contentOf,
  isPast,
} from "../checks.ts";
import { TWIN } from "../copies.ts";
import { baseIdOf, JOBS_DATABASE, openIfExists, type Scene } from "../scene.ts";

export class Convergence implements Workload {
  readonly #scene: Scene;
  readonly #checked: readonly CheckedLink[];
  #replacementCount = 0;

  constructor(scene: Scene) {
    this.#scene = scene;
    this.#checked = scene.topology.links
      // If a replication has a filter function, its id depends on the function's code.
      .filter(({ body }) => body.filter === undefined)
      .map((link) => ({ ...link, baseId: baseIdOf(scene, link.body) }));
  }

  async setup(): Promise<void> {
    const { client, random, topology } = this.#scene;
    for (const [number, { body }] of topology.links.entries()) {
      await client.put(JOBS_DATABASE, `job-${number}`, body);
      // Adds a second job with the same replication. At most one of the two may run at a time.
      if (random.chance(0.5)) await client.put(JOBS_DATABASE, `${TWIN}-${number}`, body);
    }
  }

  /** Creates cancelled jobs again. */
  async tend(): Promise<void> {
    const { client, observer, topology } = this.#scene;
    const alive = await observer.kv.read(async (tx) => {
      const { entries } = await observer.jobs.list(tx, REPLICATION_JOB_TYPE, { limit: 1000 });
      return entries
        .filter(({ state }) => state !== "finished")
        .map((job) => targetOf(decodeJob(job).replication?.target));
    });
    for (const { target, body } of topology.links) {
      if (alive.includes(target)) continue;
      await client.put(JOBS_DATABASE, `again-${this.#replacementCount++}`, body);
    }
  }

  async watch(tx: ReadTransaction): Promise<readonly string[]> {
    const { observer, removed } = this.#scene;
    return [
      ...(await checkCheckpoints(tx, observer, this.#checked, removed)),
      ...(await checkOwners(tx, observer.jobs)),
    ];
  }

  async lacking(tx: ReadTransaction): Promise<readonly string[]> {
    const { observer, topology, removed } = this.#scene;
    const lacking: string[] = [];
    for (const { source, target, selects } of topology.links) {
      const from = await openIfExists(tx, observer.databases, source);
      const to = await openIfExists(tx, observer.databases, target);
      if (from === undefined || to === undefined) return [`${source} or ${target}`];
      const wanted = await contentOf(tx, from, selects);
      const found = await contentOf(tx, to, selects);
      for (const [revision, content] of wanted) {
        const there = found.get(revision);
        if (there === content || (there === undefined && (await isPast(tx, to, revision))))
          continue;
        lacking.push(`${target} has ${there} as ${revision}: ${content}`);
      }
      // A target keeps documents that were copied from a database that was later deleted, and an
      // edited target has additional documents.
      if (removed.size > 0 || topology.edited.includes(target)) continue;
      for (const revision of found.keys()) {
        if (!wanted.has(revision)) lacking.push(`${target} has ${revision}, and ${source} has not`);
      }
    }
    return lacking;
  }

  async check(tx: ReadTransaction): Promise<readonly string[]> {
    const { observer, topology } = this.#scene;
    const { databases, kv, attachments, runtime } = observer;
    const problems: string[] = [];
    for (const name of topology.databases) {
      const database = await databases.open(tx, name);
      problems.push(...(await checkCounters(tx, database)));
      problems.push(
        ...(await checkAttachments(kv, attachments, database, (bytes) =>
          runtime.digests.md5(bytes),
        )),
      );
    }
    for (const { target, selects } of topology.links.filter((link) =>
      topology.isSink(link.target),
    )) {
      const strays = await contentOf(tx, await databases.open(tx, target), (id) => !selects(id));
      for (const revision of strays.keys()) {
        problems.push(`${target} has ${revision}, which no filter selected`);
      }
    }
    return problems;
  }
}

/** Returns the name of the target database, whether the target is local or remote. */
export function targetOf(
  target: { kind: "local"; database: string } | { kind: "http"; url: string } | undefined,
): string | undefined {
  if (target === undefined) return undefined;
  return target.kind === "local" ? target.database : new URL(target.url).pathname.split("/")[1];
}
