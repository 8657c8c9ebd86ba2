/**
 * Two writing processes compared with one. Each process runs 32 concurrent transactions, which read
 * and write four of 20,000 keys.
 *
 * Measured 2026-11-21, Node.js 20, two busy cores, ext4 on a virtual disk. In two runs, the median
 * rate of two processes together was 0.80 and 0.82 of the rate of one. The slower process reached
 * 0.87 of the rate of the faster one.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Subspace } from "../../dist/kv/index.js";
import { median, openStore, print, rate, withDirectory } from "./bench-store.mjs";

const rows = Subspace.fromTuple(["row"]);
const KEY_COUNT = 20_000;
const [role, directoryOfRole] = process.argv.slice(2);

if (role === "writer") await write(directoryOfRole);
else await main();

async function write(directory) {
  const kv = await openStore(directory);
  print("ready");
  await once(process.stdin, "data");
  const perSecond = await rate(32, 4_000, () =>
    kv.transact(async (tx) => {
      for (let part = 0; part < 4; part++) {
        const key = rows.pack([Math.floor(Math.random() * KEY_COUNT)]);
        await tx.get(key);
        tx.set(key, new Uint8Array(600));
      }
    }),
  );
  print(String(perSecond));
  await kv.close();
  process.exit(0);
}

async function main() {
  await withDirectory(async (directory) => {
    const kv = await openStore(directory);
    for (let first = 0; first < KEY_COUNT; first += 5_000) {
      await kv.transact(async (tx) => {
        for (let key = first; key < first + 5_000; key++)
          tx.set(rows.pack([key]), new Uint8Array(600));
      });
    }
    const rates = { 1: [], 2: [] };
    const shares = [];
    for (let round = 0; round < 3; round++) {
      for (const count of [1, 2]) {
        const found = await run(directory, count);
        rates[count].push(found.reduce((sum, each) => sum + each, 0));
        if (count === 2) shares.push(Math.min(...found) / Math.max(...found));
      }
    }
    const [one, two] = [median(rates[1]), median(rates[2])];
    print(
      `two writing processes against one: ${(two / one).toFixed(2)} (${Math.round(two)}/s against ${Math.round(one)}/s; ` +
        `the slower of the two gets ${median(shares).toFixed(2)} of the faster)`,
    );
    await kv.close();
  });
}

async function run(directory, count) {
  const children = Array.from({ length: count }, () =>
    spawn(process.execPath, [fileURLToPath(import.meta.url), "writer", directory], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  const lines = children.map((child) =>
    createInterface({ input: child.stdout })[Symbol.asyncIterator](),
  );
  await Promise.all(lines.map((line) => line.next()));
  for (const child of children) child.stdin.write("go\n");
  const found = await Promise.all(lines.map(async (line) => Number((await line.next()).value)));
  await Promise.all(children.map((child) => child.exitCode ?? once(child, "exit")));
  return found;
}
