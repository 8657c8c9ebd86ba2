/**
 * Operations on jobs in commit order. Each transaction adds rows with the versionstamp of its
 * commit. The ledger reads only keys that the queue also reads, because additional conflicts would
 * hide faults. `replay` checks the ledger.
 */
import type { HeldJob, JobData, JobName, Jobs, Labels } from "../../../src/jobs/index.ts";
import { jobKeys } from "../../../src/jobs/job-keys.ts";
import { decodeJobId } from "../../../src/jobs/job-record.ts";
import {
  packTuple,
  type ReadTransaction,
  Subspace,
  type Transaction,
  unpackTuple,
  Versionstamp,
} from "../../../src/kv/index.ts";
import { hash } from "../kernel/seeded-random.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import type { World } from "../kernel/world.ts";

const LEDGER = Subspace.fromTuple(["ledger"]);

const SHOWN_LENGTH = 300;

/** One operation on a job. */
export type Operation =
  | {
      readonly kind: "add";
      readonly data: string;
      readonly dueAtSec: number;
      readonly labels: Labels;
    }
  | { readonly kind: "move"; readonly labels: Labels }
  | { readonly kind: "resubmit"; readonly data?: string | undefined; readonly dueAtSec: number }
  | {
      readonly kind: "accept";
      readonly lock: string;
      readonly node: string;
      readonly atMs: number;
      /** Labels of the node. */
      readonly labels: Labels;
    }
  | { readonly kind: "update"; readonly lock: string; readonly data?: string | undefined }
  | { readonly kind: "finish"; readonly lock: string; readonly data?: string | undefined }
  /**
   * `struckAtMs` is the time of each node's last fault, or null. `nowSec` is the time on the clock
   * of the node that detects the loss.
   */
  | {
      readonly kind: "requeue";
      readonly struckAtMs: Readonly<Record<string, number | null>>;
      readonly nowSec: number;
    }
  | { readonly kind: "remove" };

export interface Entry {
  readonly id: string;
  readonly operation: Operation;
}

/** Changes the queue so that it records the operations of `node`. `own` are the node's labels. */
export function recordJobs(
  jobs: Jobs,
  subspace: Subspace,
  { time, nodes }: World,
  node: SimulatedNode,
  own: Labels = [],
): Jobs {
  const keys = jobKeys(subspace);
  const { add, setLabels, resubmit, accept, update, finish, remove } = bound(jobs);
  const { requeueSilent, requeueHeldBy } = bound(jobs);
  const requeued = (): Operation => {
    const struckAtMs = Object.fromEntries(nodes.map(({ name, struckAtMs: at }) => [name, at]));
    const nowSec = Math.floor(node.runtime.clock.nowMs() / 1000);
    return { kind: "requeue", struckAtMs, nowSec };
  };
  return Object.assign(jobs, {
    async add(...args: Parameters<Jobs["add"]>) {
      const [tx, job, data, plan] = args;
      await add(...args);
      const { scheduledAtSec: dueAtSec = 0, labels = [] } = plan ?? {};
      enter(tx, job, { kind: "add", data: textOf(data), dueAtSec, labels });
    },
    async setLabels(...args: Parameters<Jobs["setLabels"]>) {
      const [tx, job, labels] = args;
      const isMoved = await setLabels(...args);
      if (isMoved) enter(tx, job, { kind: "move", labels });
      return isMoved;
    },
    async resubmit(...args: Parameters<Jobs["resubmit"]>) {
      const [tx, job, dueAtSec, data] = args;
      const exists = await resubmit(...args);
      if (exists) enter(tx, job, { kind: "resubmit", data: data && textOf(data), dueAtSec });
      return exists;
    },
    async accept(...args: Parameters<Jobs["accept"]>) {
      const acceptance = await accept(...args);
      if (acceptance.kind !== "accepted") return acceptance;
      for (const held of acceptance.held) {
        const { lock } = held;
        const facts = { lock, node: node.name, atMs: time.nowMs, labels: own };
        enter(args[0], held, { kind: "accept", ...facts });
      }
      return acceptance;
    },
    async update(tx: Transaction, held: HeldJob, data?: JobData) {
      await update(tx, held, data);
      enter(tx, held, { kind: "update", lock: held.lock, data: data && textOf(data) });
    },
    async finish(tx: Transaction, held: HeldJob, data?: JobData) {
      await finish(tx, held, data);
      enter(tx, held, { kind: "finish", lock: held.lock, data: data && textOf(data) });
    },
    async remove(tx: Transaction, job: JobName) {
      const existed = await remove(tx, job);
      if (existed) enter(tx, job, { kind: "remove" });
      return existed;
    },
    async requeueSilent(...args: Parameters<Jobs["requeueSilent"]>) {
      const [tx, type, until, limit] = args;
      const page = await tx.getRangePage(keys.activity.rangeUntil({ type, versionstamp: until }), {
        limit,
      });
      for (const { value } of page.entries) enter(tx, { type, id: decodeJobId(value) }, requeued());
      return requeueSilent(...args);
    },
    async requeueHeldBy(...args: Parameters<Jobs["requeueHeldBy"]>) {
      const [tx, worker, limit] = args;
      const page = await tx.getRangePage(keys.held.range({ worker }), { limit });
      for (const { key } of page.entries) enter(tx, keys.held.unpack(key), requeued());
      return requeueHeldBy(...args);
    },
  });
}

/** Returns the data as text, shortened to its start and a hash if it is long. */
export function textOf(data: JobData): string {
  const text = JSON.stringify(data);
  return text.length < SHOWN_LENGTH ? text : `${text.slice(0, SHOWN_LENGTH)}… ${hash(text)}`;
}

/** Returns the original methods, before they are replaced. */
function bound(jobs: Jobs) {
  return {
    add: jobs.add.bind(jobs),
    setLabels: jobs.setLabels.bind(jobs),
    resubmit: jobs.resubmit.bind(jobs),
    accept: jobs.accept.bind(jobs),
    update: jobs.update.bind(jobs),
    finish: jobs.finish.bind(jobs),
    remove: jobs.remove.bind(jobs),
    requeueSilent: jobs.requeueSilent.bind(jobs),
    requeueHeldBy: jobs.requeueHeldBy.bind(jobs),
  };
}

function enter(tx: Transaction, { id }: JobName, operation: Operation): void {
  const stamp = Versionstamp.incomplete(tx.nextUserVersion());
  const value = packTuple([JSON.stringify(operation)]);
  tx.setVersionstampedKey(LEDGER.packVersionstamped([id, stamp]), value);
}

/** Returns all operations of all jobs, each job's operations in order. */
export async function readLedger(tx: ReadTransaction): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const { key, value } of tx.getRange(LEDGER.range())) {
    const [id] = LEDGER.unpack(key);
    const [operation] = unpackTuple(value);
    entries.push({ id: id as string, operation: JSON.parse(operation as string) });
  }
  return entries;
}
