/**
 * Convergence, the checkpoint rule and exclusivity under faults. `SEEDS=1000-1999 npx vitest run test/simulation/replication.test.ts`
 * runs other seeds.
 */
import { expect, test, vi } from "vitest";
import { MemoryStorage } from "../../src/kv/index.ts";
import { type Endpoint, type Endpoints, ReplicationOwnership } from "../../src/replicator/index.ts";
import { runReplicationCluster } from "./replication/cluster.ts";

const [firstSeed = 0, lastSeed = 199] = (process.env.SEEDS ?? "0-99").split("-").map(Number);

/** What the seeds together have to come across. */
const SEEN = [
  "replication.checkpoint",
  "jobs.worker-expelled",
  "replication.refused",
  "passed over",
  "network.faults",
  "replication.crashed",
  "replication.controlled",
  "replication.cancelled",
  "replication.database-removed",
  "replication.outage-over",
];

test("targets become what their sources are, no checkpoint passes what did not arrive, and one node at a time writes", async () => {
  const seen = new Set<string>();
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    const again = `Again with: SEEDS=${seed}-${seed} npx vitest run test/simulation/replication.test.ts`;
    const outcome = await runReplicationCluster(seed).catch((cause: unknown) => {
      throw new Error(again, { cause });
    });
    for (const name of outcome.counts.keys()) seen.add(name);
    expect(outcome.problems, again).toEqual([]);
  }
  if (lastSeed - firstSeed > 10) expect([...seen]).toEqual(expect.arrayContaining(SEEN));
}, 3_600_000);

test.each([0, 1, 2])("seed %i gives the same run each time", async (seed) => {
  const first = await runReplicationCluster(seed);
  const second = await runReplicationCluster(seed);
  expect(second.fingerprint).toBe(first.fingerprint);
});

test("a target that loses one document in twenty and says nothing is found out", async () => {
  let count = 0;
  const losing = (endpoints: Endpoints): void => {
    const open = endpoints.open.bind(endpoints);
    endpoints.open = (...address) => {
      const endpoint: Endpoint = open(...address);
      const write = endpoint.writeDocuments.bind(endpoint);
      endpoint.writeDocuments = (documents, signal) =>
        write(
          documents.filter(() => ++count % 20 !== 0),
          signal,
        );
      return endpoint;
    };
  };
  const { problems } = await runReplicationCluster(1, { endpointsOver: losing });
  expect(problems.join("\n")).toMatch(/ passes /);
}, 120_000);

test("a check of ownership that grants every claim is found out", async () => {
  const claim = vi.spyOn(ReplicationOwnership.prototype, "claim");
  claim.mockResolvedValue({ kind: "owner" });
  const found: string[] = [];
  for (let seed = 0; seed < 20 && found.length === 0; seed++) {
    found.push(...(await runReplicationCluster(seed)).problems);
  }
  claim.mockRestore();
  expect(found.join("\n")).toMatch(/ both run /);
}, 300_000);

test("a store that forgets what transactions have read is found out", async () => {
  class ForgetfulStorage extends MemoryStorage {
    override commit(...[request, nowMs]: Parameters<MemoryStorage["commit"]>) {
      return super.commit({ ...request, reads: [] }, nowMs);
    }
  }
  const found: string[] = [];
  for (let seed = 0; seed < 5; seed++) {
    const { problems } = await runReplicationCluster(seed, { storage: new ForgetfulStorage() });
    found.push(...problems);
  }
  expect(found.join("\n")).toMatch(/former holder|counts|row too many| both run /);
}, 300_000);
