/**
 * A node of a simulated cluster. It can be
 *
 *   paused        nothing of it goes on; what it sent to the store before is carried out, and it learns of it on waking
 *   partitioned   nothing of it reaches the store and no answer reaches it
 *   crashed       it never goes on, and nobody tells it so
 *
 * and its clocks run fast or slow and show the wrong time.
 */
import type { Clock, Runtime } from "../../../src/base/index.ts";
import {
  type Engine,
  type EngineTransaction,
  KeyValueError,
  KeyValueStore,
  MemoryEngine,
  type Watch,
} from "../../../src/kv/index.ts";
import type { SeededRandom } from "./seeded-random.ts";
import { EPOCH_MS, type World } from "./world.ts";

export interface NodeTraits {
  /** Added to its wall clock. */
  readonly skewMs: number;
  /** Its seconds per second of the world. */
  readonly clockRate: number;
  /** One way to the store takes up to so long. */
  readonly delayMsMax: number;
  /** Commits that fail although nothing conflicts, and commits whose fate it does not learn. */
  readonly conflictRatio: number;
  readonly unknownRatio: number;
  readonly tooOldRatio: number;
}

const ORDINARY: NodeTraits = {
  skewMs: 0,
  clockRate: 1,
  delayMsMax: 0,
  conflictRatio: 0,
  unknownRatio: 0,
  tooOldRatio: 0,
};

export class SimulatedNode {
  readonly name: string;
  readonly random: SeededRandom;
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly #world: World;
  #traits: NodeTraits;
  #isCrashed = false;
  #announceCrash: () => void = () => {};
  /** While the engine is told to commit: that request goes its way also when the node pauses. */
  #isCommitting = false;
  readonly #awake = new Gate();
  readonly #reachable = new Gate();

  constructor(world: World, name: string, random: SeededRandom, traits: Partial<NodeTraits>) {
    this.#world = world;
    this.name = name;
    this.random = random;
    this.#traits = { ...ORDINARY, ...traits };
    this.runtime = world.runtime(name, this.#clock(), random);
    this.crashed = new Promise((resolve) => {
      this.#announceCrash = resolve;
    });
    this.kv = new KeyValueStore({ runtime: this.runtime, engine: this.#engine() });
  }

  /** Settles when it crashes: what it runs never does. */
  readonly crashed: Promise<void>;

  crash(): void {
    this.#isCrashed = true;
    this.pause();
    this.#announceCrash();
  }

  pause(): void {
    this.#awake.close();
  }

  resume(): void {
    if (!this.#isCrashed) this.#awake.open();
  }

  partition(): void {
    this.#reachable.close();
  }

  reconnect(): void {
    this.#reachable.open();
  }

  /** Goes on, has its network back, and a store that does as it should. */
  heal(): void {
    this.#traits = { ...this.#traits, conflictRatio: 0, unknownRatio: 0, tooOldRatio: 0 };
    this.reconnect();
    this.resume();
  }

  #clock(): Clock {
    const { time } = this.#world;
    const { skewMs, clockRate } = this.#traits;
    return {
      nowMs: () => EPOCH_MS + skewMs + time.nowMs * clockRate,
      monotonicMs: () => time.nowMs * clockRate,
      sleep: (durationMs, signal) => this.#whenAwake(time.sleep(durationMs / clockRate, signal)),
    };
  }

  /** Settles as `promise`, but not before the node is awake. */
  async #whenAwake<T>(promise: Promise<T>): Promise<T> {
    try {
      return await promise;
    } finally {
      await this.#awake.passed();
    }
  }

  /** One way between node and store. */
  async #travel(): Promise<void> {
    const { delayMsMax } = this.#traits;
    if (delayMsMax > 0) await this.#world.time.sleep(this.random.ratio() * delayMsMax);
    await this.#reachable.passed();
  }

  #engine(): Engine {
    const { time, storage } = this.#world;
    // The time of the store, which has clocks of its own.
    const clock: Clock = {
      nowMs: () => EPOCH_MS + time.nowMs,
      monotonicMs: () => time.nowMs,
      // The engine sleeps before it takes a snapshot and before it commits: that is the way to the store.
      sleep: () => (this.#isCommitting ? this.#travel() : this.#whenAwake(this.#travel())),
    };
    const faults = { random: this.random.fork("store"), delayMsMax: 1 };
    const runtime = { ...this.runtime, clock };
    const engine = new MemoryEngine({ runtime, storage, faults });
    return {
      name: engine.name,
      begin: () => this.#overNetwork(engine.begin()),
      close: () => engine.close(),
    };
  }

  #overNetwork(inner: EngineTransaction): EngineTransaction {
    const { transaction } = inner;
    const watch = transaction.watch.bind(transaction);
    transaction.watch = (key) => this.#gated(watch(key));
    return {
      transaction,
      effects: inner.effects,
      abandon: () => inner.abandon(),
      commit: () => this.#whenAwake(this.#commit(inner)),
    };
  }

  async #commit(inner: EngineTransaction) {
    const { conflictRatio, unknownRatio, tooOldRatio } = this.#traits;
    const draw = this.random.ratio();
    if (draw < conflictRatio) throw new KeyValueError("KV_CONFLICT", { injected: true });
    if (draw < conflictRatio + tooOldRatio)
      throw new KeyValueError("KV_TOO_OLD", { injected: true });
    const isUnknown = this.random.chance(unknownRatio);
    if (isUnknown && this.random.chance(0.5)) {
      throw new KeyValueError("KV_UNKNOWN_COMMIT", { injected: "lost" });
    }
    this.#isCommitting = true;
    const committing = inner.commit();
    this.#isCommitting = false;
    const commit = await committing;
    const isCutOff = !this.#reachable.isOpen;
    await this.#travel();
    if (isUnknown || isCutOff) {
      throw new KeyValueError("KV_UNKNOWN_COMMIT", { injected: "carried out" });
    }
    return commit;
  }

  #gated(watch: Watch): Watch {
    return {
      fired: (signal) => this.#whenAwake(watch.fired(signal)),
      cancel: () => watch.cancel(),
    };
  }
}

/** Open or closed; those that come while it is closed pass when it opens. */
class Gate {
  isOpen = true;
  #waiting: (() => void)[] = [];

  close(): void {
    this.isOpen = false;
  }

  open(): void {
    this.isOpen = true;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const pass of waiting) pass();
  }

  async passed(): Promise<void> {
    while (!this.isOpen) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
