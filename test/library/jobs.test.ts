/** The queue for the caller's job types, in separate stores and in a node's store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { JobHaltedError, type JobHandler, openQueue } from "../../src/library/entries/jobs.ts";
import { openKeyValueStore, type Store, Subspace } from "../../src/library/entries/kv.ts";
import { deferred } from "../support/deferred.ts";
import { LibraryNodes } from "./library.fixture.ts";

const closing: (() => unknown)[] = [];
afterAll(async () => {
  for (const close of closing.toReversed()) await close();
});

async function openStore(): Promise<Store> {
  const store = await openKeyValueStore("memory");
  closing.push(() => store.close());
  return store;
}

const MAIL = { type: "mail", id: "1" };
const RECORDS = new Subspace().subspace("records");

test("a job and other data are written together or not at all", async () => {
  const store = await openStore();
  const queue = openQueue(store);
  await store.transact((tx) => queue.register(tx, "mail"));
  const key = RECORDS.pack(["order"]);
  const failing = store.transact(async (tx) => {
    tx.set(key, new Uint8Array(1));
    await queue.add(tx, MAIL, { to: "a" });
    throw new Error("not now");
  });
  await expect(failing).rejects.toThrow("not now");
  expect(await store.read((tx) => queue.get(tx, MAIL))).toBeUndefined();
  await store.transact(async (tx) => {
    tx.set(key, new Uint8Array(1));
    await queue.add(tx, MAIL, { to: "a" });
  });
  const [job, record] = await store.read((tx) => Promise.all([queue.get(tx, MAIL), tx.get(key)]));
  expect(job).toMatchObject({ state: "pending", data: { to: "a" } });
  expect(record).toBeDefined();
});

test("the queue accepts and updates jobs, and refuses to finish a removed job", async () => {
  const store = await openStore();
  const queue = openQueue(store);
  await store.transact(async (tx) => {
    await queue.register(tx, "mail");
    await queue.add(tx, MAIL, {});
    await queue.add(tx, { type: "mail", id: "later" }, {}, { scheduledAtSec: 99_999_999_999 });
  });
  const { jobs } = await store.transact((tx) => queue.accept(tx, "mail", { limit: 10 }));
  expect(jobs.map(({ id }) => id)).toEqual(["1"]);
  const [{ held } = { held: { ...MAIL, lock: "" } }] = jobs;
  const none = await store.transact((tx) => queue.accept(tx, "mail"));
  expect(none).toMatchObject({ jobs: [], firstDueSec: 99_999_999_999 });
  await store.transact((tx) => queue.update(tx, held, { half: true }));
  expect(await store.read((tx) => queue.counts(tx, "mail"))).toEqual({
    pending: 1,
    running: 1,
    finished: 0,
  });
  await store.transact((tx) => queue.remove(tx, MAIL));
  const late = store.transact((tx) => queue.finish(tx, held, { done: true }));
  await expect(late).rejects.toBeInstanceOf(JobHaltedError);
  none.enqueued?.cancel();
});

test("a worker runs jobs within its concurrency, and reports changes", async () => {
  const store = await openStore();
  const queue = openQueue(store);
  const stopping = new AbortController();
  let running = 0;
  let runningMax = 0;
  const release = deferred<void>();
  const handler: JobHandler = {
    type: "mail",
    concurrency: 2,
    async run({ id, data, transact }) {
      runningMax = Math.max(runningMax, ++running);
      if (runningMax === 2) release.resolve();
      await release.promise;
      running--;
      if (id !== "3") return { sent: data.to };
      await transact(async (tx, job) => {
        tx.set(RECORDS.pack([id]), new Uint8Array(1));
        await job.finish({ sent: "in its transaction" });
      });
      return undefined;
    },
  };
  const worker = queue.run([handler], { signal: stopping.signal });
  const names = ["1", "2", "3", "4"].map((id) => ({ type: "mail", id }));
  await store.transact(async (tx) => {
    await queue.register(tx, "mail");
    for (const name of names) await queue.add(tx, name, { to: `to ${name.id}` });
  });
  const last = await Promise.all(
    names.map(async (name) => {
      let data: unknown;
      for await (const change of queue.subscribe(name)) {
        if (change.kind === "changed") data = change.job.data;
      }
      return data;
    }),
  );
  expect(last).toEqual([
    { sent: "to 1" },
    { sent: "to 2" },
    { sent: "in its transaction" },
    { sent: "to 4" },
  ]);
  expect(runningMax).toBe(2);
  stopping.abort();
  await worker;
});

test("a failed run is repeated, and a stopped worker returns its jobs", async () => {
  const store = await openStore();
  const queue = openQueue(store);
  await store.transact(async (tx) => {
    await queue.register(tx, "mail");
    await queue.add(tx, MAIL, {});
  });
  const stopping = new AbortController();
  const errors: unknown[] = [];
  const hanging = deferred<void>();
  let runCount = 0;
  const handler: JobHandler = {
    type: "mail",
    retrySec: 0,
    onError: (error) => errors.push(error),
    async run({ signal }) {
      if (++runCount === 1) throw new Error("no route");
      hanging.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      signal.throwIfAborted();
      return undefined;
    },
  };
  const worker = queue.run([handler], { signal: stopping.signal });
  await hanging.promise;
  stopping.abort(new Error("stop"));
  await worker;
  expect(errors).toEqual([new Error("no route")]);
  expect(await store.read((tx) => queue.get(tx, MAIL))).toMatchObject({ state: "pending" });
});

test("groups have shares and limits", async () => {
  const store = await openStore();
  const queue = openQueue(store);
  const accept = async () =>
    (await store.transact((tx) => queue.accept(tx, "mail", { limit: 5 }))).jobs.length;
  await store.transact(async (tx) => {
    await queue.register(tx, "mail");
    await queue.setGroupLimit(tx, "mail", "nora", 2);
    await queue.setShares(tx, "mail", "nora", 300);
    for (const id of ["1", "2", "3"]) {
      await queue.add(tx, { type: "mail", id }, {}, { group: "nora" });
    }
  });
  expect(await accept()).toBe(2);
  expect(await accept()).toBe(0);
  await store.transact((tx) => queue.setGroupLimit(tx, "mail", "nora", undefined));
  expect(await accept()).toBe(1);
  const wrong = store.transact((tx) => queue.setShares(tx, "mail", "nora", 0));
  await expect(wrong).rejects.toThrow("shares 0: expected an integer of 1 to 1000");
});

test("a node runs job types of the caller in its own store", async () => {
  const nodes = new LibraryNodes();
  const directory = mkdtempSync(join(tmpdir(), "tandem-library-"));
  closing.push(() => nodes.close().then(() => rmSync(directory, { recursive: true })));
  const done = deferred<unknown>();
  const handler: JobHandler = {
    type: "mail",
    async run({ request, data }) {
      done.resolve({ request, data });
      return undefined;
    },
  };
  const store = { kind: "lmdb", directory: join(directory, "data") } as const;
  const node = await nodes.open({ store, types: [handler] });
  await node.store.transact(async (tx) => {
    await node.jobs.register(tx, "mail");
    await node.jobs.add(tx, MAIL, { to: "a" }, { request: { secret: "word" } });
  });
  expect(await done.promise).toEqual({ request: { secret: "word" }, data: { to: "a" } });
  const own = node.store.transact((tx) => node.jobs.add(tx, { type: "replication", id: "x" }, {}));
  await expect(own).rejects.toThrow("job type replication is reserved for the node");
});

test("a store of another package is rejected", () => {
  expect(() => openQueue({} as Store)).toThrow("expected a store");
});
