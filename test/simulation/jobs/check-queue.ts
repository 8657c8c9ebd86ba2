/**
 * Reads every row of a queue and reports inconsistencies: rows without a job, jobs that cannot be
 * found, and wrong counters.
 */
import { decodePlace, type Place } from "../../../src/jobs/group-record.ts";
import type { Jobs, JobType } from "../../../src/jobs/index.ts";
import type { JobFacts } from "../../../src/jobs/job.ts";
import { type JobKeys, jobKeys, readyKey } from "../../../src/jobs/job-keys.ts";
import { decodeFacts } from "../../../src/jobs/job-record.ts";
import { type Queue, queueOf, typeOfQueue } from "../../../src/jobs/labels.ts";
import { keyText, type ReadTransaction, type Subspace } from "../../../src/kv/index.ts";

export async function checkQueue(
  tx: ReadTransaction,
  jobs: Jobs,
  subspace: Subspace,
  type: JobType,
): Promise<string[]> {
  const keys = jobKeys(subspace);
  const problems: string[] = [];
  const facts = new Map<string, JobFacts>();
  for await (const { key, value } of tx.getRange(keys.job.range({ type }))) {
    facts.set(keys.job.unpack(key).id, decodeFacts(value));
  }
  const groups = new Set([...facts.values()].flatMap(({ group }) => group ?? []));
  const queues = new Map<string, Queue>([[JSON.stringify(type), type]]);
  for (const { labels } of facts.values()) {
    queues.set(JSON.stringify(queueOf(type, labels)), queueOf(type, labels));
  }
  // Adds the queues of all index rows. A job whose labels were changed might have left a row in its
  // former queue.
  for await (const { key } of tx.getRange(keys.place.range())) {
    const { queue } = keys.place.unpack(key);
    if (typeOfQueue(queue) === type) queues.set(JSON.stringify(queue), queue);
  }

  // Expected rows by key.
  const expected = new Map<string, string>();
  const expect = (key: Uint8Array, what: string) => expected.set(keyText(key), what);
  const earliest = new Map<string, number>();
  for (const [id, job] of facts) {
    const name = { type, id };
    const { group, scheduledAtSec, labels } = job;
    const queue = queueOf(type, labels);
    if (job.state === "pending" && group === undefined) {
      expect(keys.pending.key({ queue, id, scheduledAtSec }), `pending ${id}`);
    } else if (job.state === "pending" && group !== undefined) {
      expect(
        keys.groupPending.key({ queue, id, group, scheduledAtSec }),
        `pending ${id} of ${group}`,
      );
      const lane = JSON.stringify([queue, group]);
      earliest.set(lane, Math.min(earliest.get(lane) ?? Infinity, scheduledAtSec));
    } else if (job.state === "running") {
      expect(keys.activity.key({ type, versionstamp: job.activity }), `activity of ${id}`);
      if (job.worker !== undefined)
        expect(keys.held.key({ worker: job.worker, ...name }), `${id} of its worker`);
    }
  }
  const lanes = [...groups].flatMap((group) =>
    [...queues.values()].map((queue) => ({ queue, group })),
  );
  for (const { queue, group } of lanes) {
    const value = await tx.get(keys.place.key({ queue, group }));
    const place: Place = value === undefined ? { kind: "none" } : decodePlace(value);
    const dueAtSec = earliest.get(JSON.stringify([queue, group]));
    if (place.kind === "ready") {
      expect(readyKey(keys, queue, await jobs.groups.standing(tx, type, group), group), group);
      if (typeof queue !== "string") {
        expect(keys.readyQueue.key({ type, group, queue }), `ready ${group} in ${queue}`);
      }
    } else if (place.kind === "later") {
      expect(keys.later.key({ queue, dueAtSec: place.dueAtSec, group }), group);
      if (dueAtSec !== undefined && place.dueAtSec > dueAtSec) {
        problems.push(`group ${group} is due at ${dueAtSec}, and found at ${place.dueAtSec}`);
      }
    }
    if ((place.kind === "none") !== (dueAtSec === undefined)) {
      problems.push(`group ${group} is ${place.kind}, its first job due at ${dueAtSec}`);
    }
  }

  const always = Number.MAX_SAFE_INTEGER;
  // Ranges of the stored rows, which are compared with the expected rows.
  const ranges = [
    ...[...queues.values()].flatMap((queue) => [
      keys.pending.rangeUntil({ queue, scheduledAtSec: always }),
      keys.ready.range({ queue }),
      keys.later.range({ queue }),
    ]),
    keys.activity.range({ type }),
    keys.readyQueue.range({ type }),
    ...lanes.map((lane) => keys.groupPending.range(lane)),
  ];
  const see = (key: Uint8Array): void => {
    if (!expected.delete(keyText(key))) problems.push(`a row too many: ${subspace.unpack(key)}`);
  };
  for (const range of ranges) {
    for await (const { key } of tx.getRange(range)) see(key);
  }
  // A worker's range also contains its jobs of other types, which are skipped.
  for (const range of await heldRanges(tx, jobs, keys, facts)) {
    for await (const { key } of tx.getRange(range))
      if (keys.held.unpack(key).type === type) see(key);
  }
  problems.push(...[...expected.values()].map((what) => `a row is missing: ${what}`));

  for (const group of [undefined, ...groups]) {
    const [counted, recounted] = [
      JSON.stringify(await jobs.counts.read(tx, type, group)),
      JSON.stringify(await jobs.counts.recount(tx, type, group)),
    ];
    if (counted !== recounted)
      problems.push(`counter of ${group} is ${counted}, but recounting gives ${recounted}`);
  }
  return problems;
}

/**
 * Returns the ranges of the held jobs of each worker that is registered, is being cleared, or is
 * named by a job.
 */
async function heldRanges(
  tx: ReadTransaction,
  jobs: Jobs,
  keys: JobKeys,
  facts: ReadonlyMap<string, JobFacts>,
) {
  const named = [...facts.values()].flatMap((job) =>
    job.state === "running" && job.worker !== undefined ? [job.worker] : [],
  );
  const members = (await jobs.workers.members(tx)).map(({ id }) => id);
  const expelled = await jobs.workers.expelled(tx);
  return [...new Set([...named, ...members, ...expelled])].map((id) =>
    keys.held.range({ worker: id }),
  );
}
