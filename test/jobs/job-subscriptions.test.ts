/** Properties of subscriptions that CouchDB's tests (`couch-jobs.test.ts`) do not cover. */
import { expect, test } from "vitest";
import { JobSubscriptions, Jobs } from "../../src/jobs/index.ts";
import { Subspace } from "../../src/kv/index.ts";
import { World } from "../simulation/kernel/world.ts";

const NAME = { type: "test", id: "job" };

test("a subscriber is notified of a run that began and ended between its reads, even if the job is pending again", async () => {
  const world = new World("subscriptions");
  const { kv, runtime } = world.openNode();
  const jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  const subscriptions = new JobSubscriptions(runtime, kv, jobs);
  await world.until(kv.transact((tx) => jobs.setTypeTimeout(tx, NAME.type, 60)));
  await world.until(kv.transact((tx) => jobs.add(tx, NAME, { ran: false })));
  const subscription = await world.until(subscriptions.subscribe(NAME));
  const acceptance = await world.until(
    kv.transact((tx) => jobs.accept(tx, NAME.type, { dueBySec: 0, countMax: 1 })),
  );
  if (acceptance.kind === "none-due") throw new Error("No job is due");
  for (const held of acceptance.held) {
    await world.until(kv.transact((tx) => jobs.resubmit(tx, held, 100)));
    await world.until(kv.transact((tx) => jobs.finish(tx, held, { ran: true })));
  }
  const event = await world.until(
    subscriptions.wait(subscription === undefined ? [] : [subscription], { timeoutMs: 1000 }),
  );
  expect(event).toMatchObject({ kind: "changed", job: { state: "pending", data: { ran: true } } });
});
