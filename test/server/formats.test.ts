/**
 * Nodes of four versions share a store: they start, stop, are killed, are paused in the middle of a
 * write, and enable formats, in any order. No node writes a format that a living node cannot read,
 * and no node writes to a store whose format it does not support.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Clock, errorCode } from "../../src/base/index.ts";
import { createSystemRuntime } from "../../src/host/index.ts";
import { type Program, type Worker, Workers } from "../../src/jobs/index.ts";
import {
  KeyValueStore,
  MemoryEngine,
  MemoryStorage,
  type ReadTransaction,
  StoreFormat,
  Subspace,
} from "../../src/kv/index.ts";
import { FORMATS, Formats, PROGRAM } from "../../src/server/formats.ts";
import { LAYOUT_KEY, SUBSPACES } from "../../src/server/layout.ts";

const LEASE_MS = 5_000;
const VERSIONS_MAX = 4;
const ROWS = Subspace.fromTuple(["rows"]);
const STORED = new StoreFormat(LAYOUT_KEY);
const system = createSystemRuntime();

/** Returns the program of a version. Each version supports two formats. */
function programOf(version: number): Program {
  return { version: String(version), formats: { min: version, max: version + 1 } };
}

interface Sabotage {
  /** Disables the check of the format in transactions. */
  readonly noFence?: boolean;
  /** Enables a format regardless of the formats that the nodes support. */
  readonly ignoresNodes?: boolean;
}

class BlindWorkers extends Workers {
  override async members(): Promise<Worker[]> {
    return [];
  }
}

interface Node {
  readonly program: Program;
  readonly kv: KeyValueStore;
  readonly formats: Formats;
  worker: Worker | undefined;
  isPaused: boolean;
  /** Continues the write that the pause interrupted. */
  resume: () => void;
  writing: Promise<unknown> | undefined;
}

/**
 * A store and its nodes. A step of a history is one event, and has no effect if the event is
 * impossible.
 */
class Cluster {
  readonly #storage = new MemoryStorage();
  readonly #workers: Workers;
  readonly #observer: KeyValueStore;
  readonly #nodes: Node[] = [];
  readonly #sabotage: Sabotage;
  #nowMs = 0;
  #rowCount = 0;
  #format = 0;

  constructor(sabotage: Sabotage) {
    this.#sabotage = sabotage;
    this.#workers = new Workers(system, SUBSPACES.jobs);
    this.#observer = this.#open();
  }

  #open(): KeyValueStore {
    const engine = new MemoryEngine({ runtime: system, storage: this.#storage });
    return new KeyValueStore({ runtime: system, engine });
  }

  async start(version: number, enablesAlone: boolean): Promise<void> {
    const program = programOf(version);
    const kv = this.#open();
    const { noFence, ignoresNodes } = this.#sabotage;
    if (noFence === true) kv.fence = () => {};
    const clock: Clock = {
      ...system.clock,
      monotonicMs: () => this.#nowMs,
      // While a node waits, the others renew their leases.
      sleep: async (durationMs) => {
        this.#nowMs += durationMs;
        for (const node of this.#nodes) if (!node.isPaused) await this.#renew(node);
      },
    };
    const runtime = { ...system, clock };
    const workers =
      ignoresNodes === true ? new BlindWorkers(system, SUBSPACES.jobs) : this.#workers;
    const formats = new Formats({ runtime, kv, workers, enablesAlone, program });
    const isLiving = this.#nodes.some(({ isPaused }) => !isPaused);
    try {
      await formats.join();
    } catch (error) {
      expect(errorCode(error)).toBe("KV_UNUSABLE");
      // A program is refused only if it does not support the stored format.
      expect(supports(program, this.#format)).toBe(false);
      expect(this.#format > program.formats.max || isLiving).toBe(true);
      return;
    }
    const node: Node = {
      ...{ program, kv, formats, isPaused: false, resume: () => {} },
      ...{ worker: undefined, writing: undefined },
    };
    this.#nodes.push(node);
    await this.#register(node);
  }

  async #register(node: Node): Promise<void> {
    const { kv, program } = node;
    const described = { node: "n", processId: "1", types: [], leaseMs: LEASE_MS, program };
    node.worker = await this.#unlessRefused(node, () =>
      kv.transact(async (tx) => this.#workers.register(tx, described)),
    );
  }

  async #renew(node: Node): Promise<void> {
    const { worker } = node;
    const isMember =
      worker !== undefined && (await node.kv.transact((tx) => this.#workers.renew(tx, worker.id)));
    // An expelled node registers again.
    if (!isMember) await this.#register(node);
  }

  /**
   * Performs a write, and removes the node if the write is refused. A write may be refused only if
   * the stored format is newer than the node's program.
   */
  async #unlessRefused<T>(node: Node, write: () => Promise<T>): Promise<T | undefined> {
    try {
      return await write();
    } catch (error) {
      expect(errorCode(error)).toBe("KV_UNUSABLE");
      expect(await this.#stored()).toBeGreaterThan(node.program.formats.max);
      expect(errorCode(await node.kv.failed)).toBe("KV_UNUSABLE");
      this.#remove(node);
      return undefined;
    }
  }

  #remove(node: Node): void {
    this.#nodes.splice(this.#nodes.indexOf(node), 1);
  }

  /** Writes a row in the newest enabled format that the node supports, as all layers do. */
  write(node: Node, begun: () => Promise<void> = async () => {}): Promise<unknown> {
    const row = ROWS.pack([this.#rowCount++]);
    return this.#unlessRefused(node, async () => {
      const written = await node.kv.transact(async (tx) => {
        let { min: format } = node.program.formats;
        const { max } = node.program.formats;
        while (format < max && (await node.formats.stored.includes(tx, format + 1))) format++;
        await begun();
        tx.set(row, new Uint8Array([format]));
        return format;
      });
      // No step runs during a commit. The stored format has therefore not changed since the commit.
      expect(written).toBe(await this.#stored());
    });
  }

  async pause(node: Node): Promise<void> {
    if (node.isPaused) return;
    node.isPaused = true;
    const paused = new Promise<void>((resolve) => {
      node.resume = resolve;
    });
    await new Promise<void>((resolve) => {
      const begun = async (): Promise<void> => {
        resolve();
        await paused;
      };
      node.writing = this.write(node, begun).then(
        () => undefined,
        (error: unknown) => error,
      );
      void node.writing.then(() => resolve());
    });
  }

  async resume(node: Node): Promise<void> {
    if (!node.isPaused) return;
    node.isPaused = false;
    node.resume();
    const error = await node.writing;
    if (error !== undefined) throw error;
    if (this.#nodes.includes(node)) await this.#renew(node);
  }

  async kill(node: Node): Promise<void> {
    if (!node.isPaused) this.#remove(node);
  }

  async leave(node: Node): Promise<void> {
    const { worker } = node;
    if (node.isPaused) return;
    this.#remove(node);
    if (worker !== undefined) await node.kv.transact((tx) => this.#workers.expel(tx, worker.id));
  }

  /** Ends the lease of every dead or paused node. */
  async expelSilent(): Promise<void> {
    const living = new Set(
      this.#nodes.filter(({ isPaused }) => !isPaused).map(({ worker }) => worker?.id),
    );
    await this.#observer.transact(async (tx) => {
      for (const { id } of await this.#workers.members(tx)) {
        if (!living.has(id)) await this.#workers.expel(tx, id);
      }
    });
  }

  async enable(node: Node): Promise<void> {
    if (node.isPaused) return;
    await this.#unlessRefused(node, async () => {
      try {
        await node.formats.enable();
      } catch (error) {
        if (errorCode(error) !== "FORMAT_NOT_ENABLED") throw error;
      }
    });
  }

  node(index: number): Node | undefined {
    return this.#nodes[index % this.#nodes.length];
  }

  async check(): Promise<void> {
    const { format, members } = await this.#observer.read(async (tx) => {
      return { format: await this.#read(tx), members: await this.#workers.members(tx) };
    });
    expect(format).toBeGreaterThanOrEqual(this.#format);
    this.#format = format;
    const living = this.#nodes.filter(({ isPaused }) => !isPaused);
    for (const { worker, program } of living) {
      const isMember = members.some(({ id }) => id === worker?.id);
      if (isMember) expect(supports(program, format)).toBe(true);
    }
  }

  async end(): Promise<void> {
    for (const node of [...this.#nodes]) await this.resume(node);
    for (const node of [...this.#nodes]) await this.write(node);
    await this.#observer.close();
  }

  #stored(): Promise<number> {
    return this.#observer.read((tx) => this.#read(tx));
  }

  async #read(tx: ReadTransaction): Promise<number> {
    return (await STORED.read(tx)) ?? 0;
  }
}

function supports({ formats }: Program, format: number): boolean {
  return format >= formats.min && format <= formats.max;
}

const STEP = fc.oneof(
  fc.record({
    kind: fc.constant("start" as const),
    version: fc.integer({ min: 1, max: VERSIONS_MAX }),
    enablesAlone: fc.boolean(),
  }),
  fc.record({ kind: fc.constant("expelSilent" as const) }),
  fc.record({
    kind: fc.constantFrom("write", "pause", "resume", "kill", "leave", "enable"),
    node: fc.nat({ max: 5 }),
  }),
);

function histories(sabotage: Sabotage) {
  return fc.asyncProperty(fc.array(STEP, { minLength: 10, maxLength: 40 }), async (steps) => {
    const cluster = new Cluster(sabotage);
    for (const step of steps) {
      if (step.kind === "start") await cluster.start(step.version, step.enablesAlone);
      else if (step.kind === "expelSilent") await cluster.expelSilent();
      else {
        const node = cluster.node(step.node);
        if (node !== undefined && (step.kind !== "write" || !node.isPaused)) {
          await cluster[step.kind](node);
        }
      }
      await cluster.check();
    }
    await cluster.end();
  });
}

const RUNS = { numRuns: 300 };

test("in every history, a node writes only formats that this node and all living nodes support", async () => {
  await fc.assert(histories({}), RUNS);
});

test.each<Sabotage>([{ noFence: true }, { ignoresNodes: true }])(
  "the histories detect a broken negotiation: %j",
  async (sabotage) => {
    const { failed, errorInstance } = await fc.check(histories(sabotage), {
      ...RUNS,
      numRuns: 2_000,
    });
    expect(failed).toBe(true);
    // The run failed because an invariant was violated.
    expect(errorInstance).toMatchObject({ name: "AssertionError" });
  },
);

/**
 * Returns a store of format 2 that still contains the registration of a killed node of this
 * version.
 */
async function afterKill(version: number): Promise<KeyValueStore> {
  const kv = new KeyValueStore({ runtime: system, engine: new MemoryEngine({ runtime: system }) });
  const program = version === 0 ? undefined : programOf(version);
  await kv.transact(async (tx) => {
    STORED.write(tx, 2);
    const description = { node: "n", processId: "7", types: [], leaseMs: LEASE_MS, program };
    new Workers(system, SUBSPACES.jobs).register(tx, description);
  });
  return kv;
}

function formatsOf(kv: KeyValueStore, enablesAlone: boolean) {
  let nowMs = 0;
  const sleep = async (durationMs: number): Promise<void> => {
    nowMs += durationMs;
  };
  const runtime = { ...system, clock: { ...system.clock, monotonicMs: () => nowMs, sleep } };
  const workers = new Workers(system, SUBSPACES.jobs);
  return { formats: new Formats({ runtime, kv, workers, enablesAlone }), workers };
}

test.each([true, false])(
  "once the lease of a killed node has ended, a node enables the newest format only if `enablesAlone` is set: %s",
  async (enablesAlone) => {
    const kv = await afterKill(0);
    const { formats } = formatsOf(kv, enablesAlone);
    await formats.join();
    expect(await formats.status()).toMatchObject({ format: 2, can_enable: null });
    await expect(formats.enable()).rejects.toMatchObject({
      code: "FORMAT_NOT_ENABLED",
      details: { reason: expect.stringContaining("n (process 7)") },
    });
    const over = new AbortController();
    const seen: (number | null)[] = [];
    const onEnabled = async (): Promise<void> => {
      seen.push((await formats.status()).format);
      if (seen.length === (enablesAlone ? 2 : 1)) over.abort(new Error("over"));
    };
    await expect(formats.run(over.signal, onEnabled)).rejects.toThrow("over");
    expect(seen).toEqual(enablesAlone ? [2, 3] : [2]);
    await kv.close();
  },
);

test("a program whose formats are all newer replaces a killed node, but not a living one", async () => {
  const killed = await afterKill(2);
  const store = await afterKill(2);
  for (const kv of [killed, store]) await kv.transact(async (tx) => STORED.write(tx, 1));
  const alone = formatsOf(killed, false);
  await alone.formats.join();
  expect(await alone.formats.status()).toMatchObject({ format: 2, nodes: [] });
  const { formats, workers } = formatsOf(store, true);
  const [living] = await store.read((tx) => workers.members(tx));
  const seen = formats.join();
  await store.transact((tx) => workers.renew(tx, living?.id ?? ""));
  await expect(seen).rejects.toMatchObject({
    code: "KV_UNUSABLE",
    details: { reason: expect.stringMatching(/^the store has format 1, .*stop n \(process 7\)/) },
  });
  for (const kv of [killed, store]) await kv.close();
});

test("the table lists all formats up to the newest one that the program supports", () => {
  const { min, max } = PROGRAM.formats;
  expect(FORMATS.map(({ number }) => number)).toEqual(
    Array.from({ length: max }, (_, at) => at + 1),
  );
  expect(max - min).toBe(1);
});
