/**
 * Random histories of a rule, in virtual time: databases are created and deleted, the rule is
 * changed, and nodes crash. After the last change, the rule's jobs are those that the rule
 * requires. To run more histories: `RULE_SEEDS=1000 npx vitest run
 * test/replicator/rules-random.test.ts`.
 */
import { expect, test } from "vitest";
import { SeededRandom } from "../simulation/kernel/seeded-random.ts";
import { World } from "../simulation/kernel/world.ts";
import { indexProblems } from "../support/index-problems.ts";
import { openVirtualNode } from "../support/virtual-node.ts";

const SEEDS = Number(process.env.RULE_SEEDS ?? 6);
/** First seed. The message of a failure contains its seed. */
const FIRST = Number(process.env.RULE_FIRST ?? 0);
const STEPS = 40;
const ROOT = { userName: "root" };
/** Database names. All except `other` match at least one rule. */
const NAMES = ["user-a", "user-b", "user-c", "user-7", "team-a", "team-b", "other"];
const RULES = [
  { databases: ["user-*"], target: "copy-{db}", delete: "stop" },
  { databases: ["user-*", "team-*"], target: "copy-{db}", delete: "stop", security: true },
  {
    databases: ["*-a", "user-b"],
    except: ["team-*", "copy-*"],
    target: "copy-{db}",
    delete: "stop",
  },
  { databases: ["team-*"], target: "x{1}", delete: "stop", concurrency: 1 },
];

/**
 * A model of the rules, in the same order. Each function returns the name of the target, or
 * `undefined` if the rule does not copy the database. The functions do not use patterns.
 */
const COPIES: readonly ((name: string) => string | undefined)[] = [
  (name) => (name.startsWith("user-") ? `copy-${name}` : undefined),
  (name) => (/^(user|team)-/.test(name) ? `copy-${name}` : undefined),
  (name) => (name === "user-a" || name === "user-b" ? `copy-${name}` : undefined),
  (name) => (name.startsWith("team-") ? `x${name.slice(5)}` : undefined),
];

type Node = ReturnType<typeof openVirtualNode>;

async function history(seed: string): Promise<void> {
  const random = new SeededRandom(seed);
  const world = new World(seed);
  const open = async (): Promise<Node> => {
    const node = openVirtualNode({ world, config: { parkAfterSec: 2 } });
    await node.start();
    return node;
  };
  let node = await open();
  let other = await open();
  let rule: number | undefined;
  const there = new Set<string>();
  const run = <T>(work: Promise<T>) => world.until(work);
  for (let step = 0; step < STEPS; step++) {
    const { kv, databases, replicator } = node;
    const name = NAMES[random.integer(NAMES.length)] as string;
    switch (random.integer(6)) {
      case 0:
      case 1:
        if (there.has(name)) await run(kv.transact((tx) => databases.remove(tx, name)));
        else await node.createDatabase(name);
        if (!there.delete(name)) there.add(name);
        break;
      case 2:
        rule = random.integer(RULES.length);
        await run(replicator.rules.put("r", { source: "local", ...RULES[rule] }, ROOT));
        break;
      case 3:
        if (random.integer(3) > 0) break;
        await run(replicator.rules.remove("r", ROOT));
        rule = undefined;
        break;
      case 4:
        if (random.integer(3) > 0) break;
        other.simulated.crash();
        other = node;
        node = await open();
        break;
      default:
        await world.time.run(world.time.nowMs + random.integer(20_000));
    }
  }
  await world.time.run(world.time.nowMs + 150_000);
  const { kv, replicator } = node;
  const { entries } = await run(replicator.lists.page({ filter: {}, limit: 100 }));
  const copies = entries.map(({ data: { replication } }) => {
    if (replication?.source.kind !== "local" || replication.target.kind !== "local") return "?";
    return `${replication.source.database} ${replication.target.database}`;
  });
  const expected = rule === undefined ? [] : [...there].map((name) => [name, COPIES[rule]?.(name)]);
  const wanted = expected.flatMap(([name, copy]) =>
    copy === undefined ? [] : [`${name} ${copy}`],
  );
  expect([seed, copies.sort()]).toEqual([seed, wanted.sort()]);
  expect([seed, await run(kv.read((tx) => indexProblems(tx, node)))]).toEqual([seed, []]);
  if (rule !== undefined) {
    const shown = await run(replicator.rules.get("r"));
    expect([seed, shown?.summary.jobCount]).toEqual([seed, wanted.length]);
  }
  await node.stop();
  if (other !== node) await other.stop();
}

test("after any sequence of events, a rule has exactly the jobs that it requires", async () => {
  for (let number = FIRST; number < FIRST + SEEDS; number++) await history(`rules-${number}`);
});
