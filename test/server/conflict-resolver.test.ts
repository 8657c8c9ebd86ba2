/**
 * Conflicts are resolved in the background. The tests use simulated nodes in virtual time, and some
 * nodes crash while they resolve conflicts.
 */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import {
  type Database,
  DatabaseRegistry,
  type DocumentEdit,
  RESOLUTIONS_MAX,
  type Resolution,
} from "../../src/databases/index.ts";
import { DesignCodes, type UndoSelection, undoResolutions } from "../../src/documents/index.ts";
import { type ReadTransaction, Subspace, type Transaction } from "../../src/kv/index.ts";
import { ConflictResolver } from "../../src/server/conflict-resolver.ts";
import { persistently } from "../simulation/kernel/persistently.ts";
import type { NodeTraits, SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";
import { SYNCHRONOUS_SANDBOX } from "../simulation/network/synchronous-sandbox.ts";
import { ADMIN } from "../support/open-node.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const ROOT = Subspace.fromTuple(["conflicts"]);
const NAME = "films";

class ResolvingWorld {
  readonly world: World;
  readonly left: string[] = [];
  readonly writer: SimulatedNode;
  readonly #databases: DatabaseRegistry;

  constructor(seed: string) {
    this.world = new World(seed);
    this.world.listeners.push((name, fields) => {
      if (name === "databases.conflict-left") this.left.push(String(fields.documentId));
    });
    this.writer = this.world.openNode();
    this.#databases = new DatabaseRegistry({ runtime: this.writer.runtime, root: ROOT });
  }

  partsOf({ runtime, kv }: SimulatedNode) {
    const databases = new DatabaseRegistry({ runtime, root: ROOT });
    const codes = new DesignCodes();
    const functions = { runtime, sandbox: SYNCHRONOUS_SANDBOX, timeoutMs: 1_000, codes };
    return { runtime, kv, databases, functions };
  }

  open(traits: Partial<NodeTraits> = {}): SimulatedNode {
    const node = this.world.openNode(traits);
    void new ConflictResolver(this.partsOf(node)).run(new AbortController().signal);
    return node;
  }

  async pass(durationMs: number): Promise<void> {
    await this.world.time.run(this.world.time.nowMs + durationMs);
  }

  write<T>(body: (tx: Transaction, database: Database) => Promise<T>): Promise<T> {
    const writing = persistently(this.writer, async (tx) =>
      body(tx, await this.#databases.open(tx, NAME)),
    );
    return this.world.until(writing);
  }

  read<T>(body: (tx: ReadTransaction, database: Database) => Promise<T>): Promise<T> {
    const reading = this.writer.kv.read(async (tx) =>
      body(tx, await this.#databases.open(tx, NAME)),
    );
    return this.world.until(reading);
  }

  async create(): Promise<void> {
    await this.world.until(persistently(this.writer, (tx) => this.#databases.create(tx, NAME)));
  }

  setPolicy(policy: object): Promise<void> {
    const text = JSON.stringify(policy);
    return this.write((tx, { resolutions }) => resolutions.setPolicy(tx, text));
  }

  /** Writes a leaf for each time. The last leaf is CouchDB's winner. */
  async conflict(id: string, times: readonly number[]): Promise<void> {
    const edits = times.map((at, index): DocumentEdit => {
      const revisions = { start: 1, hashes: [String(index).padStart(4, "0")] };
      const body = Utf8Text.of(JSON.stringify({ at }));
      return { mode: "replicated", id, revisions, deleted: false, body, attachments: [] };
    });
    await this.write((tx, database) => database.writeMany(tx, edits, ADMIN));
  }

  conflictCount(): Promise<number> {
    return this.read(async (tx, { conflicts }) => (await conflicts.count(tx)).count);
  }

  log(): Promise<readonly Resolution[]> {
    return this.read(async (tx, { resolutions }) => {
      return (await resolutions.page(tx, { limit: RESOLUTIONS_MAX })).entries;
    });
  }

  /** Returns the bodies of the leaves that are not deleted. */
  async live(id: string): Promise<string[]> {
    const leaves = await this.read((tx, { documents }) => documents.readLeaves(tx, id));
    return leaves.filter(({ deleted }) => !deleted).map(({ body }) => body.text);
  }
}

const LAST_WRITE = { resolve: "last_write", field: "at" };

describe.each(["1", "2", "3"])("with crashing nodes and wrong clocks, seed %s", (seed) => {
  test("each conflict is resolved once, and an undo restores all leaves", async () => {
    const resolving = new ResolvingWorld(`crashes ${seed}`);
    const { world } = resolving;
    const random = world.random.fork("test");
    await resolving.create();
    await resolving.setPolicy(LAST_WRITE);
    let crashCount = 0;
    let isOver = false;
    const openCrashing = (): void => {
      const node = resolving.open({
        skewMs: random.integer(50_000) - 25_000,
        delayMsMax: 20,
        conflictRatio: 0.05,
        unknownRatio: 0.05,
      });
      const lifeMs = 5_000 + random.integer(2 * MINUTE_MS);
      void node.runtime.clock.sleep(lifeMs).then(() => {
        if (!isOver) node.crash();
      });
      void node.crashed.then(() => {
        crashCount++;
        openCrashing();
      });
    };
    openCrashing();
    openCrashing();
    const expected = new Map<string, readonly number[]>();
    for (let count = 0; count < 120; count++) {
      const times = Array.from(
        { length: 2 + random.integer(3) },
        (_, at) => at * 10 + random.integer(10),
      );
      if (random.integer(2) === 0) times.reverse();
      expected.set(`d${count}`, times);
      await resolving.conflict(`d${count}`, times);
      if (random.integer(10) === 0) await resolving.pass(random.integer(MINUTE_MS));
    }
    await resolving.pass(20 * MINUTE_MS);
    isOver = true;
    expect(crashCount).toBeGreaterThan(3);
    expect(await resolving.conflictCount()).toBe(0);
    for (const [id, times] of expected) {
      expect([id, await resolving.live(id)]).toEqual([id, [`{"at":${Math.max(...times)}}`]]);
    }
    const log = await resolving.log();
    expect(log.map(({ id }) => id).sort()).toEqual([...expected.keys()].sort());
    const undone = await world.until(
      undoResolutions(resolving.partsOf(resolving.writer), NAME, {}),
    );
    expect(undone).toMatchObject({ resolutions: expected.size, lost: 0, kept: 0, next: undefined });
    for (const [id, times] of expected) {
      const bodies = times.map((at) => `{"at":${at}}`);
      expect([id, (await resolving.live(id)).sort()]).toEqual([id, bodies.sort()]);
    }
    await resolving.pass(HOUR_MS);
    expect(await resolving.conflictCount()).toBe(expected.size);
  });
});

test("a document with hundreds of leaves is resolved in steps", async () => {
  const resolving = new ResolvingWorld("many leaves");
  await resolving.create();
  await resolving.setPolicy(LAST_WRITE);
  const times = Array.from({ length: 150 }, (_, at) => (at * 7) % 150);
  await resolving.conflict("many", times);
  resolving.open();
  await resolving.pass(MINUTE_MS);
  expect(await resolving.live("many")).toEqual(['{"at":149}']);
});

test("an unresolved conflict is tried again after an hour, or when the policy changes", async () => {
  const resolving = new ResolvingWorld("left");
  await resolving.create();
  await resolving.setPolicy(LAST_WRITE);
  for (const id of ["_design/a", "b"]) await resolving.conflict(id, [1, 2]);
  resolving.open();
  resolving.open();
  await resolving.pass(10 * MINUTE_MS);
  expect(resolving.left).toEqual(["_design/a"]);
  expect(await resolving.conflictCount()).toBe(1);
  await resolving.pass(HOUR_MS);
  expect(resolving.left.length).toBe(2);
  await resolving.setPolicy({ resolve: "longest_history" });
  await resolving.pass(MINUTE_MS);
  expect(resolving.left.length).toBe(3);
  // A new conflict does not have to wait for an hour.
  await resolving.conflict("c", [1, 2]);
  await resolving.pass(2 * MINUTE_MS);
  expect(await resolving.live("c")).toEqual(['{"at":2}']);
});

test("conflicts stay unresolved in a database that has no policy, or whose policy was removed", async () => {
  const resolving = new ResolvingWorld("none");
  await resolving.create();
  resolving.open();
  await resolving.conflict("a", [1, 2]);
  await resolving.pass(HOUR_MS);
  expect(await resolving.conflictCount()).toBe(1);
  await resolving.setPolicy(LAST_WRITE);
  await resolving.write((tx, { resolutions }) => resolutions.setPolicy(tx, undefined));
  await resolving.pass(HOUR_MS);
  expect(await resolving.conflictCount()).toBe(1);
  expect(await resolving.log()).toEqual([]);
});

test("a leaf cannot be restored after 30 days", async () => {
  const resolving = new ResolvingWorld("lost");
  await resolving.create();
  await resolving.setPolicy(LAST_WRITE);
  await resolving.conflict("a", [1, 2]);
  resolving.open();
  await resolving.pass(MINUTE_MS);
  const nowMs = resolving.writer.runtime.clock.nowMs();
  const sweep = (beforeMs: number) =>
    resolving.write((tx, { oldBodies }) => oldBodies.sweep(tx, beforeMs));
  expect(await sweep(nowMs + 29 * 24 * HOUR_MS)).toMatchObject({ bodyCount: 0 });
  expect(await sweep(nowMs + 30 * 24 * HOUR_MS)).toMatchObject({ bodyCount: 1 });
  const undoing = undoResolutions(resolving.partsOf(resolving.writer), NAME, {});
  const undone = await resolving.world.until(undoing);
  expect(undone).toMatchObject({ resolutions: 1, revisions: 0, lost: 1 });
  expect(await resolving.live("a")).toEqual(['{"at":2}']);
});

test("an undo that takes several calls visits each resolution once", async () => {
  const resolving = new ResolvingWorld("visits");
  await resolving.create();
  await resolving.setPolicy(LAST_WRITE);
  for (const id of ["a", "b"]) await resolving.conflict(id, [1, 2]);
  resolving.open();
  await resolving.pass(MINUTE_MS);
  // Adds newer entries to the log. An undo leaves them in the log, because their documents do not
  // exist.
  const record = { resolve: LAST_WRITE.resolve, kept: "1-a", result: "1-a", removed: [] };
  await resolving.write(async (tx, { resolutions }) => {
    for (let number = 0; number < 1_200; number++) {
      await resolutions.append(tx, { ...record, id: `gone${number}` });
    }
  });
  const parts = resolving.partsOf(resolving.writer);
  const undo = (selection: UndoSelection) =>
    resolving.world.until(undoResolutions(parts, NAME, selection));
  const first = await undo({});
  expect(first).toMatchObject({ resolutions: 0, kept: 1_000, next: expect.any(Number) });
  const second = await undo({ before: first.next });
  expect(second).toMatchObject({ resolutions: 2, kept: 200, next: undefined });
  expect(await resolving.conflictCount()).toBe(2);
});
