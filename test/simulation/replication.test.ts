/**
 * Convergence, the checkpoint rule and exclusivity under faults. `SEEDS=1000-1999 npx vitest run test/simulation/replication.test.ts`
 * runs other seeds.
 */
import { expect, test, vi } from "vitest";
import { MemoryStorage } from "../../src/kv/index.ts";
import { type Endpoint, type Endpoints, ReplicationOwnership } from "../../src/replicator/index.ts";
import { runReplicationCluster } from "./replication-cluster.ts";

const [firstSeed = 0, lastSeed = 199] = (process.env.SEEDS ?? "0-99").split("-").map(Number);

test("targets become what their sources are, no checkpoint passes what did not arrive, and one node at a time writes", async () => {
  const counts = {
    checkpointCount: 0,
    takeoverCount: 0,
    refusedCount: 0,
    faultCount: 0,
    passedOverCount: 0,
  };
  for (let seed = firstSeed; seed <= lastSeed; seed++) {
    const outcome = await runReplicationCluster(seed);
    counts.checkpointCount += outcome.checkpointCount;
    counts.takeoverCount += outcome.takeoverCount;
    counts.refusedCount += outcome.refusedCount;
    counts.faultCount += outcome.faultCount;
    counts.passedOverCount += outcome.passedOverCount;
    const again = `SEEDS=${seed}-${seed} npx vitest run test/simulation/replication.test.ts`;
    expect(outcome.problems, `Again with: ${again}`).toEqual([]);
  }
  if (lastSeed - firstSeed > 10) {
    for (const count of Object.values(counts)) expect(count).toBeGreaterThan(0);
  }
}, 3_600_000);

test("a seed gives the same run each time", async () => {
  const first = await runReplicationCluster(firstSeed);
  const second = await runReplicationCluster(firstSeed);
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
