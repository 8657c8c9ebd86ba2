/**
 * Data loss, duplicates and lasting problems after faults of the environment. One store on its own
 * disk, with an API process and two that replicate, another node behind a faulty network, writers,
 * continuous jobs and one-shot jobs.
 *
 *   npm run build && node bench/load/faults.mjs [ROUNDS] [SEED] [NAME]
 *
 * Each round has all faults of the table below, or those whose names begin with NAME, in a seeded
 * order. Within `HEAL_MS_MAX` after each fault, every continuous job must run and have copied
 * everything, the one-shot job started during the fault must have ended, and every acknowledged
 * write must exist. A checkpoint must never move back, as it would if a process wrote after it had
 * lost its job. Processes that exit are restarted. Prints the effect of each fault; the exit code
 * is 1 if a check failed. Linux only; needs root, for the disk, and a C compiler, for the clock.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { FaultyNetwork } from "./faulty-network.mjs";
import { Checkpoints, Ledger, missingOf, otherStateOf, patiently } from "./ledger.mjs";
import { ask, drawsOf, endProcess, openProcess } from "./node-process.mjs";
import { Supervised } from "./supervised.mjs";

const ROUNDS = Number(process.argv[2] ?? 1);
const SEED = Number(process.argv[3] ?? 1);
const NAME = process.argv[4] ?? "";
const DATABASES = ["a", "b"];
const DISK_MIB = 256;
const HEAL_MS_MAX = 240_000;
const API = 0;
const REPLICATION = 1;
const HOST = "there.test";
const INI = `[replicator]
connection_timeout = 2000
min_backoff_penalty_sec = 1
max_backoff_penalty_sec = 3
`;

const draw = drawsOf(SEED);
const directory = mkdtempSync(join(tmpdir(), "tandem-bench-"));
const here = (name) => join(directory, name);
const disk = here("disk");
const store = here("mounted");
const names = here("names");
const clock = here("clock");
const counts = { faults: 0 };
const checkpoints = new Checkpoints();

const FAULTS = {
  "kill of the API process": async () => processes.signal(API, "SIGKILL"),
  "kill of a replication process": async () => processes.signal(REPLICATION, "SIGKILL"),
  "pause of a replication process beyond its lease": async () => {
    processes.signal(REPLICATION, "SIGSTOP");
    await pause(9_000);
    processes.signal(REPLICATION, "SIGCONT");
  },
  "full disk": async () => {
    fill();
    await expectRefused();
    await pause(4_000);
    rmSync(join(store, "filler"));
  },
  "full disk and a kill": async () => {
    fill();
    await pause(2_000);
    processes.signal(API, "SIGKILL");
    processes.signal(REPLICATION, "SIGKILL");
    await pause(4_000);
    rmSync(join(store, "filler"));
  },
  "read-only disk": async () => {
    // Aborts the file system, as the kernel does after an error: writes fail until the next mount.
    execFileSync("mount", ["-o", "remount,abort", store], { stdio: "ignore" });
    await pause(4_000);
    await processes.hold();
    await unmount();
    // Not checked: the exit code only shows whether something was repaired.
    spawnSync("e2fsck", ["-p", "-f", disk]);
    mount();
    processes.resume();
  },
  "folder away": async () => {
    renameSync(join(store, "data"), join(store, "away"));
    await pause(5_000);
    renameSync(join(store, "away"), join(store, "data"));
  },
  "clock an hour ahead": () => stepClock(3_600),
  "clock an hour back": () => stepClock(-3_600),
  "black hole": async () => {
    network.setBlackHole(true);
    await pause(6_000);
    network.setBlackHole(false);
  },
  "half-open connections": async () => network.loseHalf(),
  "unknown host": async () => {
    rmSync(names);
    network.cutAll();
    await pause(5_000);
    writeFileSync(names, "");
  },
};

mkdirSync(store);
execFileSync("truncate", ["-s", `${DISK_MIB}M`, disk]);
execFileSync("mkfs.ext4", ["-q", "-F", disk]);
mount();
writeFileSync(names, "");
writeFileSync(clock, Buffer.alloc(8));
writeFileSync(here("tandem.ini"), INI);
let there;
let network;
let processes;
let ledger;
const faults = [];
const startMs = performance.now();
try {
  mkdirSync(here("there"));
  there = await openProcess(here("there"));
  network = await FaultyNetwork.open(Number(new URL(there.url).port));
  processes = await openStore();
  const url = processes.url(API);
  await setUp(url);
  ledger = new Ledger(url, DATABASES);
  ledger.start();
  await heal(url, "before the first fault", []);
  for (let round = 1; round <= ROUNDS; round++) {
    for (const name of shuffled(Object.keys(FAULTS))) {
      if (name.startsWith(NAME)) await strike(url, round, name);
    }
  }
  await ledger.stop();
  await heal(url, "at the end", []);
  report();
} finally {
  await ledger?.stop();
  await processes?.hold();
  if (there !== undefined) await endProcess(there, "SIGKILL");
  network?.close();
  await unmount();
  rmSync(directory, { recursive: true, force: true });
}
process.exit(faults.length === 0 ? 0 : 1);

function mount() {
  execFileSync("mount", ["-o", "loop", disk, store]);
}

/** Unmounts the store. Retries, because a killed process releases its files with a delay. */
async function unmount() {
  for (let attempt = 1; spawnSync("umount", [store]).status !== 0; attempt++) {
    if (attempt === 50) throw new Error(`${store} cannot be unmounted`);
    await pause(200);
  }
}

async function openStore() {
  const library = here("clock-steps.so");
  const source = fileURLToPath(new URL("clock-steps.c", import.meta.url));
  const resolver = fileURLToPath(new URL("../../test/support/faults/resolve.mjs", import.meta.url));
  execFileSync("cc", ["-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"]);
  const options = {
    flags: ["--config", here("tandem.ini")],
    environment: {
      LD_PRELOAD: library,
      CLOCK_STEP: clock,
      NODE_OPTIONS: `--import ${resolver}`,
      RESOLVED_NAMES: names,
    },
  };
  const types = ["api_frontend", "replication", "replication"];
  return Supervised.open(
    store,
    types.map((type) => ({ ...options, type })),
  );
}

async function setUp(url) {
  for (const name of DATABASES) {
    await must(url, "PUT", `/${name}`);
    const remote = `http://${HOST}:${network.port}/${name}`;
    const base = { create_target: true, continuous: true };
    const jobs = {
      copy: { ...base, source: name, target: `${name}-copy` },
      push: { ...base, source: name, target: remote },
      pull: { ...base, source: remote, target: `${name}-back`, create_target: true },
    };
    for (const [job, body] of Object.entries(jobs)) {
      await must(url, "PUT", `/_replicator/${job}-${name}`, body);
    }
  }
}

async function strike(url, round, name) {
  const beganMs = performance.now();
  const { refused, unanswered } = ledger.counts;
  const { endCount } = processes;
  counts.faults++;
  const once = `once-${counts.faults}`;
  await FAULTS[name]();
  // Adding the job is retried, because the disk can still be full or the API process down.
  const job = { source: "a", target: once, create_target: true };
  await patiently(() => mustInTime(url, "PUT", `/_replicator/${once}`, job));
  await heal(url, `${name}, round ${round}`, [once]);
  const tookSec = (performance.now() - beganMs) / 1000;
  process.stdout.write(
    `${name}: healed after ${tookSec.toFixed(1)} s; ${ledger.counts.refused - refused} responses 503, ${ledger.counts.unanswered - unanswered} requests without a response, ${processes.endCount - endCount} process exits, ${faults.length + ledger.faults.length} failed checks so far\n`,
  );
}

/** Waits until every check passes or its time is up. Records the checks that failed. */
async function heal(url, when, documents) {
  const untilMs = performance.now() + HEAL_MS_MAX;
  const wrong = (what) => {
    faults.push(`${when}: ${what}`);
    process.stdout.write(`${when}: ${what}\n`);
  };
  try {
    for (const name of DATABASES) {
      const targets = [
        ["copy", url, `${name}-copy`],
        ["push", there.url, name],
        ["pull", url, `${name}-back`],
      ];
      for (const [job, copyUrl, copy] of targets) {
        const document = `${job}-${name}`;
        const state = await patiently(() =>
          otherStateOf({ url, document, state: "running", untilMs }),
        );
        if (state !== undefined) wrong(`${document} is ${state}`);
        const lack = await patiently(() => missingOfSome({ url, name, copyUrl, copy, untilMs }));
        if (lack !== undefined) wrong(`${copy} lacks ${lack}`);
        const setBack = await checkpoints.check(url, document);
        if (setBack !== undefined) wrong(setBack);
      }
    }
    for (const document of documents) {
      const state = await patiently(() =>
        otherStateOf({ url, document, state: "completed", untilMs }),
      );
      if (state !== undefined) wrong(`${document} is ${state}`);
    }
    await ledger.lookUp(when);
  } catch (error) {
    wrong(String(error));
  }
}

/**
 * Writes a document and waits until it has arrived in `copy`. Returns `undefined`, or what is
 * missing if that takes too long. The databases are never equal while the writers run, so they are
 * compared completely only at the end.
 */
async function missingOfSome({ url, name, copyUrl, copy, untilMs }) {
  if (ledger.isOver) return missingOf({ url, database: name, copyUrl, copy, untilMs });
  const id = `mark-${counts.faults}-${copy}`;
  await mustInTime(url, "PUT", `/${name}/${id}?new_edits=false`, { _rev: "1-a" });
  for (;;) {
    const { status } = await ask(copyUrl, "GET", `/${copy}/${id}`);
    if (status === 200) return undefined;
    if (performance.now() > untilMs) return id;
    await pause(200);
  }
}

function fill() {
  const file = openSync(join(store, "filler"), "w");
  const block = Buffer.alloc(65_536);
  try {
    for (;;) writeSync(file, block);
  } catch (error) {
    if (error.code !== "ENOSPC") throw error;
  } finally {
    closeSync(file);
  }
}

/** Checks that a large write is rejected. Small ones might still fit into the file. */
async function expectRefused() {
  const large = { text: "x".repeat(4_000_000) };
  const { status } = await ask(processes.url(API), "PUT", `/a-copy/large-${counts.faults}`, large);
  if (status !== 503) faults.push(`a large document on a full disk received status ${status}`);
}

/** Steps the clock of all processes of the store together, whatever they are doing. */
async function stepClock(seconds) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(seconds));
  const file = openSync(clock, "r+");
  writeSync(file, bytes, 0, 8, 0);
  closeSync(file);
  await pause(2_000);
}

function report() {
  faults.push(...ledger.faults);
  const { refused, unanswered, checked } = ledger.counts;
  const seconds = (performance.now() - startMs) / 1000;
  process.stdout.write(
    `seed ${SEED}: ${counts.faults} faults in ${seconds.toFixed(0)} s, ${processes.endCount} process exits; ${ledger.writeCount} writes to ${ledger.documentCount} documents, ${checked} look-ups, ${unanswered} requests without a response, ${refused} responses 503, ${checkpoints.checkCount} checkpoint checks\n` +
      `${faults.length} failed checks\n`,
  );
  for (const fault of faults.slice(0, 30)) process.stdout.write(`  ${fault}\n`);
}

function shuffled(list) {
  const rest = [...list];
  return list.map(() => rest.splice(Math.floor(draw() * rest.length), 1)[0]);
}

async function must(url, method, path, body) {
  const { status, body: answer } = await ask(url, method, path, body);
  if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
}

/** Like `must`, but repeats the request until it succeeds or `HEAL_MS_MAX` has passed. */
async function mustInTime(url, method, path, body) {
  const untilMs = performance.now() + HEAL_MS_MAX;
  for (;;) {
    try {
      // 409: an earlier attempt succeeded, but its response was lost.
      const { status } = await ask(url, method, path, body);
      if (status < 300 || status === 409) return;
    } catch {}
    if (performance.now() > untilMs) throw new Error(`${method} ${path} never succeeded`);
    await pause(200);
  }
}
