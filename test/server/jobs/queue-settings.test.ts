/** Configuration of shares and of the activity timeout, and its effect on the queue. */
import { expect, test } from "vitest";
import { valuesNow } from "../../../src/base/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { Jobs } from "../../../src/jobs/index.ts";
import { KeyValueStore, MemoryEngine, Subspace } from "../../../src/kv/index.ts";
import {
  JobEventLog,
  JobIndex,
  REPLICATION_JOB_TYPE,
  Replicator,
} from "../../../src/replicator/index.ts";
import { Configuration } from "../../../src/server/settings/configuration.ts";
import { parseIni } from "../../../src/server/settings/ini.ts";
import { QueueSettings } from "../../../src/server/settings/queue-settings.ts";
import {
  REPLICATOR_SETTINGS,
  replicatorConfig,
} from "../../../src/server/settings/replicator-settings.ts";
import { deferred } from "../../support/deferred.ts";
import { askUntil } from "../../support/runner/patience.ts";

function open(ini: string): Configuration {
  const given = [parseIni(ini)];
  return new Configuration({ given, localFile: undefined, settings: REPLICATOR_SETTINGS });
}

test("shares and usage decay are read from the configuration, and shares are clamped to their limits", () => {
  const { shares, fairShare } = replicatorConfig(
    open(`
[replicator]
usage_coeff = 0.7
fair_share_interval_sec = 60
priority_coeff = 0.98
[replicator.shares]
team/_replicator = 200
bob = 0
alice = 5000
carol = many
`),
  );
  expect(valuesNow(fairShare)).toEqual({
    usageCoefficient: 0.7,
    intervalSec: 60,
    instalmentSec: 15,
  });
  const expected = { "team/_replicator": 200, bob: 1, alice: 1000, carol: 100 };
  expect(Object.fromEntries(shares)).toEqual(expected);
});

test.each([
  ["usage_coeff = 0", "[replicator] usage_coeff = 0: expected a number above 0 and at most 1"],
  ["usage_coeff = junk", "[replicator] usage_coeff = junk"],
  ["priority_coeff = 1.1", "[replicator] priority_coeff = 1.1"],
])("the setting %s is refused", (line, message) => {
  expect(() => open(`[replicator]\n${line}`)).toThrow(message);
});

/**
 * Returns a function. Each call of this function returns a promise that resolves at the next commit
 * of the store.
 */
function nextCommits(kv: KeyValueStore): () => Promise<void> {
  let next = deferred();
  const transact = kv.transact.bind(kv);
  kv.transact = async (...given) => {
    const result = await transact(...given);
    next.resolve();
    next = deferred();
    return result as never;
  };
  return () => next.promise;
}

test("a changed setting takes effect on the queue", async () => {
  const runtime = createSystemRuntime();
  const kv = new KeyValueStore({ runtime, engine: new MemoryEngine({ runtime }) });
  const jobs = new Jobs(runtime, Subspace.fromTuple(["jobs"]));
  const configuration = open("[replicator.shares]\nbob = 50");
  const config = replicatorConfig(configuration);
  const subspace = Subspace.fromTuple(["replicator"]);
  const index = new JobIndex(jobs, subspace, new JobEventLog(runtime.clock, subspace));
  const replicator = new Replicator({ runtime, kv, jobs, config, index } as never);
  const stopping = new AbortController();
  const commits = nextCommits(kv);
  const updater = new QueueSettings(configuration, replicator).run(stopping.signal);
  const shares = async (group: string): Promise<number> =>
    (await kv.read((tx) => jobs.groups.standing(tx, REPLICATION_JOB_TYPE, group))).shares;
  const once = <T>(ask: () => Promise<T>, expected: T): Promise<T> =>
    askUntil(String(expected), {
      ask,
      passes: (answer) => answer === expected,
      changed: () => {
        const committed = commits();
        return () => committed;
      },
    });
  const onceShares = (count: number) => once(() => shares("user:bob"), count);
  await onceShares(50);
  configuration.set("replicator.shares", "bob", "70");
  configuration.set("replicator", "usage_coeff", "0.9");
  await onceShares(70);
  const fairShare = await kv.read((tx) => jobs.groups.fairShare(tx, REPLICATION_JOB_TYPE));
  expect(fairShare).toMatchObject({ usageCoefficient: 0.9, generation: 1 });
  const timeoutSec = (): Promise<number | undefined> =>
    kv.read((tx) => jobs.getTypeTimeout(tx, REPLICATION_JOB_TYPE));
  expect(await timeoutSec()).toBe(61);
  configuration.set("replicator", "activity_timeout_sec", "30");
  await once(timeoutSec, 30);
  configuration.delete("replicator.shares", "bob");
  // After the setting is removed, the value in the file applies again.
  await onceShares(50);
  stopping.abort();
  await updater;
  await kv.close();
});
