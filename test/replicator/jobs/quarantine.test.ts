/** Quarantine of jobs, so that a job that kills nodes does not run again and again. */
import { beforeEach, expect, test } from "vitest";
import type { HeldJob, Job } from "../../../src/jobs/index.ts";
import { parseReplication, REPLICATION_JOB_TYPE } from "../../../src/replicator/index.ts";
import { HeldReplication } from "../../../src/replicator/run/held-replication.ts";
import { composeNode } from "../../support/compose-node.ts";
import { type Node, openNode } from "../../support/open-node.ts";

const USER = { userName: null, isAdmin: true };
const WORK = "9000000 bytes from http://far.example/films/_changes";

let node: Node;
let jobId: string;

beforeEach(async () => {
  node = await openNode();
  const replication = parseReplication({ source: "a", target: "b", continuous: true });
  jobId = await node.replicator.start(replication, USER);
});

/** Accepts the job and starts its next run, up to the check whether the job may run. */
async function nextRun() {
  const { held, accepted } = await node.kv.transact(async (tx) => {
    const options = { dueBySec: 2 ** 36, countMax: 1 };
    const acceptance = await node.jobs.accept(tx, REPLICATION_JOB_TYPE, options);
    if (acceptance.kind === "none-due") throw new Error("No job is due");
    return { held: acceptance.held[0] as HeldJob, accepted: acceptance.jobs[0] as Job };
  });
  const run = new HeldReplication(composeNode({ ...node, config: {} }), held, accepted);
  await run.readControl();
  const failure = await run.hazards.findQuarantine();
  return { run, held, failure };
}

/** Returns the job to the queue, as happens after its node has died. */
async function giveBack(held: HeldJob): Promise<void> {
  await node.kv.transact(async (tx) => {
    await node.jobs.resubmit(tx, held, 0);
    const job = await node.jobs.get(tx, held);
    await node.jobs.finish(tx, held, (job as Job).data);
  });
}

/** Simulates a run whose node dies, during `work` if given. */
async function dyingRun(work?: string): Promise<void> {
  const { run, held, failure } = await nextRun();
  expect(failure).toBeUndefined();
  if (work !== undefined) {
    await new Promise<void>((begun) => {
      void run.hazards.during(work, () => {
        begun();
        return new Promise<never>(() => {});
      });
    });
  }
  await giveBack(held);
}

test("a job is quarantined, with a reason, after two nodes died while processing responses for it", async () => {
  await dyingRun(WORK);
  await dyingRun(WORK);
  const { failure } = await nextRun();
  expect(failure).toEqual({
    error: "quarantined",
    reason: `2 nodes crashed while running this job, the last one while processing ${WORK}; retry the job to run it again`,
  });
});

test("a job is not quarantined if its nodes died during harmless work", async () => {
  for (let count = 0; count < 5; count++) await dyingRun();
  expect((await nextRun()).failure).toBeUndefined();
});

test("dangerous work that a node survives resets the count of dead nodes", async () => {
  await dyingRun(WORK);
  const { run, held } = await nextRun();
  await run.hazards.during(WORK, async () => {});
  await giveBack(held);
  await dyingRun(WORK);
  expect((await nextRun()).failure).toBeUndefined();
});

test("dangerous work that ends with an error also counts as survived", async () => {
  await dyingRun(WORK);
  const { run, held } = await nextRun();
  const failing = run.hazards.during(WORK, () => Promise.reject(new Error("answer_too_long")));
  await expect(failing).rejects.toThrow("answer_too_long");
  await giveBack(held);
  await dyingRun(WORK);
  expect((await nextRun()).failure).toBeUndefined();
});

test("several concurrent pieces of dangerous work count as one", async () => {
  const { run, held } = await nextRun();
  await Promise.all([1, 2, 3].map(() => run.hazards.during(WORK, async () => {})));
  await giveBack(held);
  await dyingRun(WORK);
  await dyingRun(WORK);
  expect((await nextRun()).failure).toMatchObject({ error: "quarantined" });
});

test("an operator's retry ends a job's quarantine", async () => {
  await dyingRun(WORK);
  await dyingRun(WORK);
  const { run, failure } = await nextRun();
  if (failure === undefined) throw new Error("The job is quarantined");
  await run.end({ kind: "quarantined", failure });
  expect((await node.replicator.find(jobId))?.state).toBe("failed");
  expect(await node.replicator.commands.retry(jobId, { userName: "ops" })).toBe("done");
  expect((await nextRun()).failure).toBeUndefined();
});
