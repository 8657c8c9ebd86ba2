/**
 * CouchDB's tests of `couch_jobs` (CouchDB 4), with their names. These tests have no counterpart
 * here:
 *
 *   type_timeouts_and_server, dead_notifier_restarts_jobs_server, bad_cast/bad_call/bad_info (9):
 *     about Erlang processes, which do not exist here; types and their timeouts are tested in
 *     `type_timeouts`
 *   check_get_jobs: a debugging aid of the reference
 *   metadata_version_bump: the directory layer is not used, so keys do not move
 */
import { beforeEach, expect, test } from "vitest";
import { randomHex } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import {
  type Acceptance,
  ActivityMonitor,
  type HeldJob,
  type Job,
  JobHaltedError,
  type JobSubscription,
  JobSubscriptions,
  Jobs,
  type SubscriptionEvent,
  UnknownJobTypeError,
} from "../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, Subspace, type Transaction } from "../../src/kv/index.ts";

const TYPE = "t1";
const J1 = { type: TYPE, id: "j1" };
const J2 = { type: TYPE, id: "j2" };
const FOR_EVER = 2 ** 36;
/** Time to wait for an event that must not occur. */
const SILENCE_MS = 50;
const runtime = createSystemRuntime();

let kv: KeyValueStore;
let jobs: Jobs;
let subscriptions: JobSubscriptions;

beforeEach(async () => {
  kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  subscriptions = new JobSubscriptions(runtime, kv, jobs);
  await kv.transact((tx) => jobs.setTypeTimeout(tx, TYPE, 1));
  return () => kv.close();
});

const transact = <T>(body: (tx: Transaction) => Promise<T>): Promise<T> => kv.transact(body);
const get = (name: { type: string; id: string }) => kv.read((tx) => jobs.get(tx, name));
const add = (name: { type: string; id: string }, data = {}, scheduledAtSec = 0) =>
  transact((tx) => jobs.add(tx, name, data, { scheduledAtSec }));
const update = (held: HeldJob, data?: Record<string, unknown>) =>
  transact((tx) => jobs.update(tx, held, data));
const finish = (held: HeldJob, data?: Record<string, unknown>) =>
  transact((tx) => jobs.finish(tx, held, data));
const remove = (name: { type: string; id: string }) => transact((tx) => jobs.remove(tx, name));

function accept(dueBySec = FOR_EVER): Promise<Acceptance> {
  return transact((tx) => jobs.accept(tx, TYPE, { dueBySec, countMax: 1 }));
}

async function acceptOne(dueBySec?: number): Promise<{ held: HeldJob; job: Job }> {
  const acceptance = await accept(dueBySec);
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  return { held: acceptance.held[0] as HeldJob, job: acceptance.jobs[0] as Job };
}

async function acceptBlocking(): Promise<{ held: HeldJob; job: Job }> {
  for (;;) {
    const acceptance = await accept();
    if (acceptance.kind === "accepted") return acceptOneOf(acceptance);
    await acceptance.enqueued.fired();
  }
}

function acceptOneOf(acceptance: Acceptance & { kind: "accepted" }) {
  return { held: acceptance.held[0] as HeldJob, job: acceptance.jobs[0] as Job };
}

async function subscribe(name: { type: string; id: string }): Promise<JobSubscription> {
  const subscription = await subscriptions.subscribe(name);
  if (subscription === undefined) throw new Error("There is no such job");
  return subscription;
}

const next = (...of: JobSubscription[]) => subscriptions.wait(of);
const silence = (...of: JobSubscription[]) => subscriptions.wait(of, { timeoutMs: SILENCE_MS });
const changed = (job: Partial<Job>): object => ({ kind: "changed", job });

test("add_remove_pending", async () => {
  await add(J1, { x: 42 });
  expect(await get(J1)).toMatchObject({ state: "pending", data: { x: 42 } });
  expect(await remove(J1)).toBe(true);
  expect(await get(J1)).toBeUndefined();
});

test("add_remove_errors", async () => {
  expect(await remove({ type: TYPE, id: "nobody" })).toBe(false);
  await expect(add({ type: "untimed", id: "x" })).rejects.toThrow(UnknownJobTypeError);
  await expect(add(J1, { x: 1n })).rejects.toThrow(TypeError);
  await add(J1);
  await add(J1);
});

test("add_with_the_same_scheduled_time", async () => {
  await add(J1, { n: 1 }, 5);
  let versionstamp: unknown = "unset";
  await transact(async (tx) => {
    await jobs.add(tx, J1, { n: 1 }, { scheduledAtSec: 5 });
    tx.afterCommit((commit) => {
      versionstamp = commit.versionstamp;
    });
  });
  expect(versionstamp).toBeUndefined();
});

test("get_job_data_and_state", async () => {
  await add(J1, { x: 1 });
  expect(await get(J1)).toMatchObject({ state: "pending", data: { x: 1 } });
  await remove(J1);
  expect(await get(J1)).toBeUndefined();
});

test("type_timeouts", async () => {
  await transact((tx) => jobs.setTypeTimeout(tx, "t3", 8));
  expect(await kv.read((tx) => jobs.getTypeTimeout(tx, "t3"))).toBe(8);
  await transact((tx) => jobs.clearTypeTimeout(tx, "t3"));
  expect(await kv.read((tx) => jobs.getTypeTimeout(tx, "t3"))).toBeUndefined();
});

test("resubmit_as_job_creator", async () => {
  await add(J1, {}, 15);
  await add(J1, {}, 16);
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 16 });
  const { held } = await acceptOne();
  await add(J1, {}, 17);
  expect(await get(J1)).toMatchObject({ state: "running", scheduledAtSec: 17 });
  expect(await kv.read((tx) => jobs.isResubmitted(tx, held))).toBe(true);
  await finish(held);
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 17 });
  await finish((await acceptOne()).held);
  expect(await get(J1)).toMatchObject({ state: "finished", scheduledAtSec: 17 });
  await add(J1, {}, 18);
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 18 });
});

test("basic_accept_and_finish", async () => {
  await add(J1);
  const { held } = await acceptOne();
  expect((await get(J1))?.state).toBe("running");
  await expect(finish(held, { bad: 1n })).rejects.toThrow(TypeError);
  await finish(held, { x: 1 });
  expect(await get(J1)).toMatchObject({ state: "finished", data: { x: 1 } });
});

test("accept_blocking", async () => {
  const first = acceptBlocking();
  await add(J1);
  expect((await first).job.id).toBe("j1");
  const second = acceptBlocking();
  await add(J2);
  expect((await second).job.id).toBe("j2");
});

test("job_processor_update", async () => {
  await add(J1);
  const { held } = await acceptOne();
  await update(held, { n: 1 });
  await update(held);
  await expect(update(held, { n: 1n })).rejects.toThrow(TypeError);
  expect(await get(J1)).toMatchObject({ state: "running", data: { n: 1 } });
  await finish(held, { n: 2 });
  expect(await get(J1)).toMatchObject({ state: "finished", data: { n: 2 } });
});

test("resubmit_enqueues_job", async () => {
  await add(J1);
  const { held } = await acceptOne();
  await transact((tx) => jobs.resubmit(tx, held, 6));
  await finish(held);
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 6 });
  await finish((await acceptOne()).held);
  expect((await get(J1))?.state).toBe("finished");
});

test("resubmit_finished_updates_job_data", async () => {
  await add(J1, { n: 1 });
  await finish((await acceptOne()).held);
  await transact((tx) => jobs.resubmit(tx, J1, 6, { n: 2 }));
  expect((await acceptOne()).job).toMatchObject({ scheduledAtSec: 6, data: { n: 2 } });
});

test("resubmit_running_updates_job_data: only the next run gets the new data (CouchDB drops the new data)", async () => {
  await add(J1, { n: 1 });
  const { held } = await acceptOne();
  await transact((tx) => jobs.resubmit(tx, J1, 6, { n: 2 }));
  expect((await get(J1))?.data).toEqual({ n: 1 });
  await finish(held, { n: 3 });
  expect((await acceptOne()).job).toMatchObject({ scheduledAtSec: 6, data: { n: 2 } });
});

test("resubmit_custom_schedtime", async () => {
  await add(J1, {}, 7);
  const { held } = await acceptOne();
  await transact((tx) => jobs.resubmit(tx, held, 9));
  await finish(held);
  expect(await get(J1)).toMatchObject({ state: "pending", scheduledAtSec: 9 });
});

test("add_pending_updates_job_data", async () => {
  await add(J1, { n: 1 });
  await add(J1, { n: 2 }, 6);
  expect((await acceptOne()).job.data).toEqual({ n: 2 });
});

test("add_finished_updates_job_data", async () => {
  await add(J1, { n: 1 });
  await finish((await acceptOne()).held);
  await add(J1, { n: 2 });
  expect((await acceptOne()).job.data).toEqual({ n: 2 });
});

test("add_running_updates_job_data: only the next run gets the new data (CouchDB drops the new data)", async () => {
  await add(J1, { n: 1 });
  const { held } = await acceptOne();
  await add(J1, { n: 2 });
  expect((await get(J1))?.data).toEqual({ n: 1 });
  await finish(held);
  expect((await acceptOne()).job.data).toEqual({ n: 2 });
});

test("accept_max_schedtime", async () => {
  await add(J1, {}, 5000);
  await add(J2, {}, 3000);
  expect((await accept(1000)).kind).toBe("none-due");
  expect((await acceptOne(3000)).job.id).toBe("j2");
  expect((await acceptOne(9000)).job.id).toBe("j1");
});

test("accept_no_schedule", async () => {
  const anywhere = { noSchedule: true, countMax: 1 };
  const late = transact((tx) => jobs.accept(tx, TYPE, { ...anywhere, dueBySec: 1 }));
  await expect(late).rejects.toThrow("Jobs without a schedule must be due at 0");
  const ids = Array.from({ length: 25 }, () => randomHex(runtime.random));
  for (const id of ids) await add({ type: TYPE, id });
  const accepted: string[] = [];
  for (;;) {
    const acceptance = await transact((tx) => jobs.accept(tx, TYPE, { ...anywhere, dueBySec: 0 }));
    if (acceptance.kind === "none-due") break;
    accepted.push(...acceptance.held.map(({ id }) => id));
  }
  expect(accepted.toSorted()).toEqual(ids.toSorted());
});

test("subscribe", async () => {
  expect(await subscriptions.subscribe({ type: "other", id: "j1" })).toBeUndefined();
  expect(await subscriptions.subscribe(J1)).toBeUndefined();
  await add(J1, { n: 0 });
  const left = await subscribe(J1);
  left.unsubscribe();
  const subscription = await subscribe(J1);
  expect(subscription.job).toMatchObject({ state: "pending", data: { n: 0 } });
  const { held } = await acceptOne();
  expect(await next(subscription)).toMatchObject(changed({ state: "running", data: { n: 0 } }));
  await update(held, { n: 1 });
  expect(await next(subscription)).toMatchObject(changed({ state: "running", data: { n: 1 } }));
  await finish(held, { n: 2 });
  const finished = await subscriptions.wait([subscription], { state: "finished" });
  expect(finished).toMatchObject(changed({ state: "finished", data: { n: 2 } }));
  expect(await silence(subscription)).toBeUndefined();
  expect(await silence(left)).toBeUndefined();
  const late = await subscribe(J1);
  expect(late.job).toMatchObject({ state: "finished", data: { n: 2 } });
  expect(late.ended.aborted).toBe(true);
  await remove(J1);
  expect(await subscriptions.subscribe(J1)).toBeUndefined();
});

test.each(["pending", "running"])("remove_when_subscribed_and_%s", async (state) => {
  await add(J1);
  if (state === "running") await acceptOne();
  const subscription = await subscribe(J1);
  const event = next(subscription);
  await remove(J1);
  expect(await event).toEqual({ kind: "removed", name: J1 });
  expect(await silence(subscription)).toBeUndefined();
});

test("subscribe_wait_multiple", async () => {
  await add(J1);
  await add(J2);
  const both = [await subscribe(J1), await subscribe(J2)];
  const heldJobs: HeldJob[] = [];
  for (let count = 0; count < 2; count++) {
    const { held, job } = await acceptOne();
    heldJobs.push(held);
    expect(await next(...both)).toMatchObject(changed({ id: job.id, state: "running" }));
    expect(await silence(...both)).toBeUndefined();
  }
  for (const held of heldJobs) await update(held, { updated: true });
  const events = [await next(...both), await next(...both)] as (SubscriptionEvent & {
    kind: "changed";
  })[];
  expect(events.map(({ job }) => job.id).toSorted()).toEqual(["j1", "j2"]);
  await finish(heldJobs[0] as HeldJob);
  const finished = await subscriptions.wait(both, { state: "finished" });
  expect(finished).toMatchObject(changed({ id: heldJobs[0]?.id as string, state: "finished" }));
  const waiting = next(...both);
  for (const subscription of both) subscription.unsubscribe();
  expect(await waiting).toBeUndefined();
});

test("enqueue_inactive", async () => {
  await add(J1, { n: 1 });
  const { held } = await acceptOne();
  const subscription = await subscribe(J1);
  const stopping = new AbortController();
  const monitor = new ActivityMonitor(runtime, kv, jobs, TYPE).run(stopping.signal);
  const event = await subscriptions.wait([subscription], { timeoutMs: 20_000 });
  stopping.abort(new Error("The test is over"));
  await monitor;
  expect(event).toMatchObject(changed({ state: "pending", data: { n: 1 } }));
  await expect(update(held)).rejects.toThrow(JobHaltedError);
  await expect(finish(held)).rejects.toThrow(JobHaltedError);
});

test("remove_running_job", async () => {
  await add(J1);
  const { held } = await acceptOne();
  expect(await remove(J1)).toBe(true);
  expect(await remove(J1)).toBe(false);
  await expect(update(held)).rejects.toThrow(JobHaltedError);
  await expect(finish(held)).rejects.toThrow(JobHaltedError);
});

test("use_fabric_transaction_object: one transaction changes a job and other keys", async () => {
  const key = Subspace.fromTuple(["elsewhere"]).pack([1]);
  await transact(async (tx) => {
    tx.set(key, new Uint8Array([1]));
    await jobs.add(tx, J1, {});
    expect((await jobs.get(tx, J1))?.state).toBe("pending");
  });
  const { held } = await acceptOne();
  await transact(async (tx) => {
    tx.set(key, new Uint8Array([2]));
    await jobs.finish(tx, held);
  });
  expect(await kv.read((tx) => tx.get(key))).toEqual(new Uint8Array([2]));
  expect((await get(J1))?.state).toBe("finished");
});
