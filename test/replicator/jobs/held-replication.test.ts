/** The transaction that ends a run, concurrent with an operator's commands. */
import { beforeEach, describe, expect, test } from "vitest";
import type { HeldJob, Job } from "../../../src/jobs/index.ts";
import {
  KeyValueStore,
  MemoryEngine,
  MemoryStorage,
  type Transaction,
} from "../../../src/kv/index.ts";
import {
  type JobCommands,
  parseReplication,
  REPLICATION_JOB_TYPE,
} from "../../../src/replicator/index.ts";
import { NEVER_SEC } from "../../../src/replicator/jobs/decide.ts";
import { decodeJob } from "../../../src/replicator/jobs/job-data-record.ts";
import { HeldReplication } from "../../../src/replicator/run/held-replication.ts";
import { composeNode } from "../../support/compose-node.ts";
import { type Node, openNode } from "../../support/open-node.ts";

/** Pause after a failure. It is so long that tests can distinguish it from other delays. */
const PENALTY_SEC = 100_000;
const REPLICATION = parseReplication({ source: "a", target: "b", continuous: true });

/** A store that runs a callback between the reads of a transaction and its commit. */
class RacedStore extends KeyValueStore {
  meanwhile: (() => Promise<unknown>) | undefined;

  override transact<T>(
    body: (tx: Transaction) => Promise<T>,
    options?: Parameters<KeyValueStore["transact"]>[1],
  ): Promise<T> {
    return super.transact(async (tx) => {
      const result = await body(tx);
      const meanwhile = this.meanwhile;
      this.meanwhile = undefined;
      await meanwhile?.();
      return result;
    }, options);
  }
}

let node: Node;
let store: RacedStore;
let job: HeldReplication;
/** Accepts the next due job, and returns it. */
let accept: () => Promise<HeldReplication>;
/** The same job as `job`, with parts that report that the job's database has been deleted. */
let doomed: HeldReplication;

beforeEach(async () => {
  const storage = new MemoryStorage();
  node = await openNode({ storage });
  const { runtime } = node;
  const config = { penaltySecMin: PENALTY_SEC, penaltySecMax: PENALTY_SEC };
  store = new RacedStore({ runtime, engine: new MemoryEngine({ runtime, storage }) });
  const parts = composeNode({ runtime, kv: store, config });
  await node.replicator.start(REPLICATION, { userName: null, isAdmin: true });
  const acceptNext = async (): Promise<readonly [HeldJob, Job]> =>
    store.transact(async (tx) => {
      const options = { dueBySec: 2 ** 36, countMax: 1 };
      const acceptance = await node.jobs.accept(tx, REPLICATION_JOB_TYPE, options);
      if (acceptance.kind === "none-due") throw new Error("No job is due");
      return [acceptance.held[0] as HeldJob, acceptance.jobs[0] as Job];
    });
  accept = async () => new HeldReplication(parts, ...(await acceptNext()));
  const accepted = await acceptNext();
  job = new HeldReplication(parts, ...accepted);
  const removedDatabases = { has: async () => true, removeHalted: async () => {} };
  doomed = new HeldReplication({ ...parts, removedDatabases }, ...accepted);
  await job.readControl();
});

const nowSec = (): number => node.runtime.clock.nowMs() / 1000;

async function dueInSec(): Promise<number> {
  const stored = await node.kv.read((tx) => node.jobs.get(tx, job.held));
  expect(stored?.state).toBe("pending");
  return (stored?.scheduledAtSec ?? 0) - nowSec();
}

const FAILURE = { error: "db_not_found", reason: "could not open a" };
const CAUSE = { class: "not_found", phase: "open", side: "source", host: undefined } as const;
const ENDINGS: readonly (readonly [string, () => Promise<void>])[] = [
  ["given back", () => job.end({ kind: "stopped" })],
  ["stalled", () => job.end({ kind: "stalled", reason: "nothing moved" })],
  [
    "crashed",
    () => job.end({ kind: "crashed", failure: FAILURE, cause: CAUSE, unreachable: undefined }),
  ],
];

describe.each(ENDINGS)("a job that is %s", (name, end) => {
  const decide = (command: (commands: JobCommands) => Promise<string>): void => {
    store.meanwhile = async () => expect(await command(node.replicator.commands)).toBe("done");
  };

  test("the job is due at the time that follows from the run's result, unless an operator decides otherwise", async () => {
    await end();
    const dueSec = await dueInSec();
    if (name === "crashed") expect(dueSec).toBeGreaterThan(PENALTY_SEC / 2);
    else expect(dueSec).toBeLessThanOrEqual(0);
  });

  test("the job is paused if an operator paused it during the run", async () => {
    decide((commands) => commands.pause(job.held.id, { userName: "ops" }));
    await end();
    expect(await dueInSec()).toBeGreaterThan(NEVER_SEC / 2);
  });

  test("the job is due immediately if an operator reset it during the run", async () => {
    decide((commands) => commands.startFrom(job.held.id, 0, { userName: "ops" }));
    await end();
    expect(await dueInSec()).toBeLessThanOrEqual(0);
  });
});

test("if a short run starts during an update of the job, the update does not record the start", async () => {
  await job.begin({ id: "id" });
  await job.end({ kind: "stopped" });
  const again = await accept();
  store.meanwhile = () => again.begin({ id: "id" }, { isShort: true });
  await again.update();
  const lastEvent = async (): Promise<string | undefined> => {
    const stored = await node.kv.read((tx) => node.jobs.get(tx, again.held));
    return stored && decodeJob(stored).history[0]?.type;
  };
  expect(await lastEvent()).toBe("pending");
  await again.storeStart();
  expect(await lastEvent()).toBe("started");
});

test("a job whose database is deleted is stopped before it begins", async () => {
  await expect(doomed.readControl()).rejects.toMatchObject({ code: "JOBS_HALTED" });
});
