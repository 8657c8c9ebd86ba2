/**
 * Several processes on one LMDB store. Run the stress test after each upgrade of lmdb: with lmdb
 * 3.x, two writing processes corrupt the store within seconds (docs/decisions/0010-lmdb-2.md).
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSystemRuntime, openLmdbEngine } from "../../src/host/index.ts";
import { KeyValueStore } from "../../src/kv/index.ts";
import { bytes } from "../../src/library/kv-conformance/fixture.ts";
import { Ledger } from "../support/kv/ledger.ts";

/** Number of kills. Set `TANDEM_KILLS=200` for a longer test. */
const KILL_COUNT = Number(process.env.TANDEM_KILLS ?? 6);
const STRESS_TRANSACTION_COUNT = Number(process.env.TANDEM_STRESS ?? 4_000);

async function withLedger(
  options: { readonly laneCount: number; readonly keyCount: number },
  body: (ledger: Ledger) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "tandem-kv-"));
  const ledger = await Ledger.open({ directory, ...options });
  try {
    await body(ledger);
  } finally {
    await ledger.close();
    await rm(directory, { recursive: true });
  }
}

test(`two processes that write concurrently do not lose updates (${STRESS_TRANSACTION_COUNT} transactions)`, async () => {
  await withLedger({ laneCount: 16, keyCount: 20_000 }, async (ledger) => {
    await Promise.all([ledger.start("a"), ledger.start("b")]);
    while (ledger.acknowledgedCount < STRESS_TRANSACTION_COUNT) {
      await Promise.all([ledger.progress("a", 50), ledger.progress("b", 50)]);
      await ledger.check();
    }
    await Promise.all([ledger.stop("a"), ledger.stop("b")]);
    const { transactionCount } = await ledger.check();
    expect(transactionCount).toBe(ledger.acknowledgedCount);
  });
});

test(`all acknowledged commits survive kill -9 of a writer completely (${KILL_COUNT} kills)`, async () => {
  await withLedger({ laneCount: 8, keyCount: 2_000 }, async (ledger) => {
    const names = ["a", "b", "c"];
    await Promise.all(names.map((name) => ledger.start(name)));
    for (let kill = 0; kill < KILL_COUNT; kill++) {
      const victim = names[kill % names.length] as string;
      // Waits for a random number of acknowledgements, so that the kills hit every phase of a group
      // commit.
      await ledger.progress(victim, 1 + Math.floor(Math.random() * 20));
      await ledger.kill(victim);
      const others = names.filter((name) => name !== victim);
      await Promise.all(others.map((name) => ledger.progress(name, 5)));
      await ledger.check();
      await ledger.start(victim);
    }
    await Promise.all(names.map((name) => ledger.stop(name)));
    const { transactionCount } = await ledger.check();
    expect(transactionCount).toBeGreaterThanOrEqual(ledger.acknowledgedCount);
    const count = `${ledger.acknowledgedCount} transactions acknowledged, ${transactionCount} found`;
    process.stdout.write(`${KILL_COUNT} kills: ${count}\n`);
  });
}, 1_200_000);

test("the first conflict check of a process covers earlier commits of other processes", async () => {
  const directory = await mkdtemp(join(tmpdir(), "tandem-kv-"));
  const runtime = createSystemRuntime();
  const quiet = await openLmdbEngine({ runtime, directory });
  const busyKv = new KeyValueStore({
    runtime,
    engine: await openLmdbEngine({ runtime, directory }),
  });
  const write = (name: string) => busyKv.transact(async (tx) => tx.set(bytes(name), bytes(name)));
  const begin = async (name: string) => {
    const attempt = quiet.begin();
    await attempt.transaction.get(bytes(name));
    attempt.transaction.set(bytes(`${name} was read`), bytes(""));
    return attempt;
  };
  try {
    const outdated = await begin("changed");
    const current = await begin("unchanged");
    for (const name of ["a", "changed", "b"]) await write(name);
    await (await begin("c")).commit();
    await write("d");
    await expect(outdated.commit()).rejects.toMatchObject({ code: "KV_CONFLICT" });
    await current.commit();
    await (await begin("changed")).commit();
  } finally {
    await busyKv.close();
    await quiet.close();
    await rm(directory, { recursive: true });
  }
});
