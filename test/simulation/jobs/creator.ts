/** Adds jobs, adds some of them again, and removes some of them. */
import type { Jobs } from "../../../src/jobs/index.ts";
import type { Transaction } from "../../../src/kv/index.ts";
import { persistently } from "../kernel/persistently.ts";
import type { SeededRandom } from "../kernel/seeded-random.ts";
import type { SimulatedNode } from "../kernel/simulated-node.ts";
import type { JobsKnobs } from "./knobs.ts";

export async function createJobs(
  node: SimulatedNode,
  jobs: Jobs,
  type: string,
  { jobCount, groups, labelSets }: JobsKnobs,
  random: SeededRandom,
): Promise<void> {
  const { clock } = node.runtime;
  const perform = (body: (tx: Transaction) => Promise<unknown>) => persistently(node, body);
  for (let number = 0; number < 1.5 * jobCount; number++) {
    const name = { type, id: `job-${random.integer(jobCount)}` };
    const nowSec = Math.floor(clock.nowMs() / 1000);
    const scheduledAtSec = random.chance(0.3) ? nowSec + random.integer(20) : 0;
    const draw = random.ratio();
    if (draw < 0.1) await perform((tx) => jobs.remove(tx, name));
    else if (draw < 0.15 && labelSets.length > 1) {
      const labels = random.pick(labelSets);
      await perform((tx) => jobs.setLabels(tx, name, labels));
    } else if (draw < 0.2) {
      const data = random.chance(0.5) ? { number } : undefined;
      await perform((tx) => jobs.resubmit(tx, name, scheduledAtSec, data));
    } else {
      const group = random.pick(groups);
      const labels = random.pick(labelSets);
      // Some jobs have data that does not fit into one value of the store.
      const padding = random.chance(0.05) ? { padding: "x".repeat(200_000) } : {};
      const data = { number, ...padding };
      await perform((tx) => jobs.add(tx, name, data, { scheduledAtSec, group, labels }));
    }
    await clock.sleep(random.between(0, 1000));
  }
}
