/**
 * Deleted documents are purged after their time to live. The tests use simulated nodes in virtual
 * time, and some nodes crash during a purge.
 */
import { describe, expect, test } from "vitest";
import { Utf8Text } from "../../src/base/index.ts";
import { DatabaseRegistry, type DocumentEdit } from "../../src/databases/index.ts";
import { Subspace } from "../../src/kv/index.ts";
import { AutoPurger } from "../../src/server/auto-purger.ts";
import { autoPurgeSettings } from "../../src/server/settings/auto-purge-settings.ts";
import { SETTINGS } from "../../src/server/settings/config.ts";
import { Configuration } from "../../src/server/settings/configuration.ts";
import { TimeRecorder } from "../../src/server/time-recorder.ts";
import { persistently } from "../simulation/kernel/persistently.ts";
import type { NodeTraits, SimulatedNode } from "../simulation/kernel/simulated-node.ts";
import { World } from "../simulation/kernel/world.ts";
import { ADMIN } from "../support/open-node.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const ROOT = Subspace.fromTuple(["auto purge"]);

interface Purged {
  readonly database: string;
  readonly documentCount: number;
  readonly isDryRun: boolean;
}

/** A world with nodes that purge, and one node that only writes. */
class PurgingWorld {
  readonly world: World;
  readonly purged: Purged[] = [];
  readonly writer: SimulatedNode;
  readonly configuration = new Configuration({
    given: [],
    localFile: undefined,
    settings: SETTINGS,
  });
  readonly #databases: DatabaseRegistry;

  constructor(seed: string) {
    this.world = new World(seed);
    this.world.listeners.push((name, fields) => {
      if (name === "databases.tombstones-purged") this.purged.push(fields as unknown as Purged);
    });
    this.writer = this.world.openNode();
    this.#databases = new DatabaseRegistry({ runtime: this.writer.runtime, root: ROOT });
  }

  set(section: string, key: string, value: string): void {
    this.configuration.set(section, key, value, { persist: false });
  }

  enable(): void {
    this.set("couch_scanner_plugins", "couch_auto_purge_plugin", "true");
  }

  /** Starts a node. `onStep` is called before each transaction of a purge. */
  open(traits: Partial<NodeTraits> = {}, onStep: () => void = () => {}): SimulatedNode {
    const node = this.world.openNode(traits);
    const { runtime, kv } = node;
    const databases = new DatabaseRegistry({ runtime, root: ROOT });
    const live = autoPurgeSettings(this.configuration);
    const settings = new Proxy(live, {
      get(target, name) {
        if (name === "isEnabled") onStep();
        return Reflect.get(target, name);
      },
    });
    const parts = { runtime, kv, databases, settings };
    const { signal } = new AbortController();
    for (const service of [new TimeRecorder(parts), new AutoPurger(parts)]) {
      void service.run(signal);
    }
    return node;
  }

  async pass(durationMs: number): Promise<void> {
    await this.world.time.run(this.world.time.nowMs + durationMs);
  }

  create(name: string): Promise<unknown> {
    return this.#write((tx) => this.#databases.create(tx, name));
  }

  edit(name: string, ...edits: readonly DocumentEdit[]): Promise<unknown> {
    return this.#write(async (tx) =>
      (await this.#databases.open(tx, name)).writeMany(tx, edits, ADMIN),
    );
  }

  setTtl(name: string, ttl: string): Promise<unknown> {
    return this.#write(async (tx) =>
      (await this.#databases.open(tx, name)).tombstones.setTtl(tx, ttl),
    );
  }

  #write<T>(body: Parameters<typeof persistently<T>>[1]): Promise<T> {
    return this.world.until(persistently(this.writer, body));
  }

  /** Returns, for each document id, the `deleted` flags of the document's leaves. */
  async documents(name: string): Promise<ReadonlyMap<string, readonly boolean[]>> {
    const reading = this.writer.kv.read(async (tx) => {
      const { changes } = await this.#databases.open(tx, name);
      return (await changes.page(tx, {})).entries;
    });
    const entries = await this.world.until(reading);
    return new Map(entries.map(({ id, leaves }) => [id, leaves.map(({ deleted }) => deleted)]));
  }
}

function edit(id: string, path: readonly string[], deleted: boolean): DocumentEdit {
  const revisions = {
    start: Number.parseInt(path[0] as string, 10),
    hashes: path.map((revision) => revision.slice(revision.indexOf("-") + 1)),
  };
  return { mode: "replicated", id, revisions, deleted, body: Utf8Text.of("{}"), attachments: [] };
}

const tombstone = (id: string) => edit(id, [`1-${id}`], true);

describe("documents are purged by age", () => {
  test("only in databases with a time to live, and only after the purge is enabled", async () => {
    const purging = new PurgingWorld("enabled");
    const names = ["default", "kept", "short", "skipped", "unlimited"];
    for (const name of names) {
      await purging.create(name);
      await purging.edit(name, tombstone("a"));
    }
    await purging.setTtl("short", "6_hours");
    await purging.setTtl("unlimited", "infinity");
    purging.set("couch_auto_purge_plugin", "deleted_document_ttl", "1_day");
    purging.set("couch_auto_purge_plugin.skip_dbs", "mine", "^ski");
    purging.open();
    const left = async () => {
      const found: string[] = [];
      for (const name of names) if ((await purging.documents(name)).size > 0) found.push(name);
      return found;
    };
    await purging.pass(12 * HOUR_MS);
    expect(await left()).toEqual(names);
    purging.enable();
    await purging.pass(1);
    expect(purging.purged).toEqual([{ database: "short", documentCount: 1, isDryRun: false }]);
    await purging.setTtl("kept", "30_days");
    await purging.pass(DAY_MS);
    expect(await left()).toEqual(["kept", "skipped", "unlimited"]);
    purging.set("couch_auto_purge_plugin.skip_dbs", "mine", "(");
    await purging.setTtl("kept", "1_hour");
    await purging.pass(HOUR_MS);
    expect(await left()).toEqual(["kept", "skipped", "unlimited"]);
    purging.set("couch_auto_purge_plugin.skip_dbs", "mine", "unlimited");
    await purging.pass(HOUR_MS);
    expect(await left()).toEqual(["unlimited"]);
  });

  test("a dry run counts the documents once, and purges nothing", async () => {
    const purging = new PurgingWorld("dry");
    await purging.create("films");
    const ids = Array.from({ length: 230 }, (_, index) => `d${index}`);
    await purging.edit("films", ...ids.map(tombstone));
    await purging.setTtl("films", "1_hour");
    purging.set("couch_auto_purge_plugin", "dry_run", "true");
    purging.enable();
    purging.open();
    await purging.pass(DAY_MS);
    const expected = { database: "films", documentCount: 230 };
    expect(purging.purged).toEqual([{ ...expected, isDryRun: true }]);
    expect((await purging.documents("films")).size).toBe(230);
    purging.set("couch_auto_purge_plugin", "dry_run", "false");
    await purging.pass(HOUR_MS);
    expect(purging.purged[1]).toEqual({ ...expected, isDryRun: false });
    expect((await purging.documents("films")).size).toBe(0);
  });

  test("a document whose revisions exceed a value of the store is purged in several steps", async () => {
    const purging = new PurgingWorld("large");
    await purging.create("films");
    const hashes = Array.from({ length: 300 }, (_, index) => `${index}`.padEnd(500, "h"));
    for (let start = 0; start < hashes.length; start += 20) {
      const slice = hashes.slice(start, start + 20);
      await purging.edit("films", ...slice.map((hash) => edit("a", [`1-${hash}`], true)));
    }
    await purging.setTtl("films", "1_hour");
    purging.enable();
    purging.open();
    await purging.pass(DAY_MS);
    expect(purging.purged).toEqual([{ database: "films", documentCount: 1, isDryRun: false }]);
    expect((await purging.documents("films")).size).toBe(0);
  });

  test("a database that is removed during a purge round does not end the round", async () => {
    const purging = new PurgingWorld("removed");
    for (const name of ["a", "b"]) {
      await purging.create(name);
      await purging.edit(name, tombstone("x"));
      await purging.setTtl(name, "1_hour");
    }
    purging.enable();
    let isRemoved = false;
    purging.open({}, () => {
      if (isRemoved || purging.world.time.nowMs < HOUR_MS) return;
      isRemoved = true;
      void persistently(purging.writer, (tx) =>
        new DatabaseRegistry({ runtime: purging.writer.runtime, root: ROOT }).remove(tx, "a"),
      );
    });
    await purging.pass(3 * HOUR_MS);
    expect(isRemoved).toBe(true);
    expect(purging.purged.at(-1)).toMatchObject({ database: "b", documentCount: 1 });
  });
});

const TTL_MS = 6 * HOUR_MS;
/**
 * Time after which a deleted document must have been purged. This is longer than the time to live
 * for two reasons. The entries of a database's time table are up to a fifth of their age apart. A
 * database claimed by a node that crashed waits for the next round.
 */
const PURGED_AFTER_MS = 1.25 * TTL_MS + HOUR_MS;

interface Expected {
  /** Start of the last deletion; undefined while the document has a leaf that is not deleted. */
  deletedAtMs: number | undefined;
  generation: number;
}

describe.each(["1", "2", "3"])("with crashing nodes and wrong clocks, seed %s", (seed) => {
  test("old tombstones are purged, but newer tombstones and live documents are not", async () => {
    const purging = new PurgingWorld(`crashes ${seed}`);
    const { world } = purging;
    const random = world.random.fork("test");
    await purging.create("films");
    await purging.setTtl("films", "6_hours");
    purging.enable();
    let crashCount = 0;
    const openCrashing = (): void => {
      let stepsLeft = 2 + random.integer(150);
      const traits = {
        skewMs: random.integer(50_000) - 25_000,
        delayMsMax: 20,
        conflictRatio: 0.02,
        unknownRatio: 0.05,
      };
      const node = purging.open(traits, () => {
        if (--stepsLeft > 0) return;
        stepsLeft = Number.POSITIVE_INFINITY;
        node.crash();
      });
      void node.crashed.then(() => {
        crashCount++;
        openCrashing();
      });
    };
    openCrashing();
    openCrashing();
    const documents = new Map<string, Expected>();
    let nextId = 0;
    const check = async (): Promise<void> => {
      const nowMs = world.time.nowMs;
      const stored = await purging.documents("films");
      for (const [id, { deletedAtMs }] of documents) {
        const leaves = stored.get(id);
        if (deletedAtMs === undefined) expect([id, leaves?.includes(false)]).toEqual([id, true]);
        else if (leaves === undefined) {
          expect(nowMs - deletedAtMs).toBeGreaterThanOrEqual(TTL_MS);
          documents.delete(id);
        } else {
          expect(leaves).not.toContain(false);
          expect(nowMs - deletedAtMs).toBeLessThan(PURGED_AFTER_MS);
        }
      }
    };
    for (let step = 0; step < 50; step++) {
      await purging.pass(random.integer(HOUR_MS));
      await check();
      const edits: DocumentEdit[] = [];
      const beganMs = world.time.nowMs;
      const add = (id: string, path: readonly string[], deleted: boolean, isLast = true): void => {
        edits.push(edit(id, path, deleted));
        const generation = Number.parseInt(path[0] as string, 10);
        if (isLast) documents.set(id, { deletedAtMs: deleted ? beganMs : undefined, generation });
      };
      const newCount = random.integer(10) === 0 ? 150 : random.integer(4);
      for (let count = 0; count < newCount; count++) {
        add(`d${nextId++}`, ["1-a"], random.integer(4) > 0);
      }
      for (const [id, { generation, deletedAtMs }] of [...documents].slice(0, 400)) {
        if (random.integer(60) > 0) continue;
        const next = `${generation + 1}-a`;
        const kind = random.integer(3);
        if (kind === 0) add(id, [next, `${generation}-a`], deletedAtMs === undefined);
        // A conflict: the document keeps a leaf that is not deleted.
        else if (kind === 1 && deletedAtMs === undefined) add(id, [`${generation}-z`], true, false);
      }
      if (edits.length > 0) await purging.edit("films", ...edits);
    }
    await purging.pass(PURGED_AFTER_MS);
    await check();
    expect(crashCount).toBeGreaterThan(0);
    expect(
      purging.purged.reduce((sum, { documentCount }) => sum + documentCount, 0),
    ).toBeGreaterThan(50);
  });
});
