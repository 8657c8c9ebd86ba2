/**
 * A node of a simulated cluster. It can be
 *
 *   paused     nothing of it goes on; what it sent to the store before is carried out, and it learns of it on waking
 *   cut off    its requests do not reach the store or a server, or the answers do not reach it, until that is healed
 *   crashed    it never goes on, and nobody tells it so
 *
 * and its clocks run fast or slow and show the wrong time, and its wall clock is set.
 */
import type { Clock, Runtime } from "../../../src/base/index.ts";
import {
  type Engine,
  type EngineTransaction,
  KeyValueError,
  KeyValueStore,
  MemoryEngine,
  type RetryPolicy,
  type Watch,
} from "../../../src/kv/index.ts";
import { type Cut, Gate, Link } from "./link.ts";
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
  /** How it repeats transactions. */
  readonly retry: Partial<RetryPolicy>;
}

const ORDINARY: NodeTraits = {
  skewMs: 0,
  clockRate: 1,
  delayMsMax: 0,
  conflictRatio: 0,
  unknownRatio: 0,
  tooOldRatio: 0,
  retry: {},
};

/** What becomes of the commits of a node that crashed before they reached the store. */
const CRASH_FATES = ["carried out", "late", "lost"] as const;
type CrashFate = (typeof CRASH_FATES)[number];
const LATE_MS_MAX = 4000;

export class SimulatedNode {
  readonly name: string;
  readonly random: SeededRandom;
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  /** Between it and the store. */
  readonly store = new Link();
  readonly #links = new Map<string, Link>();
  readonly #world: World;
  #traits: NodeTraits;
  #afterCrash: CrashFate | undefined;
  #announceCrash: () => void = () => {};
  #strikeCount = 0;
  #struckAtMs = Number.NEGATIVE_INFINITY;
  /** Added to its wall clock, beside its skew. */
  #steppedMs = 0;
  readonly #awake = new Gate();
  /** The engine sleeps before it commits, too; the way of a commit is `#commit`. */
  #isCommitting = false;

  constructor(world: World, name: string, random: SeededRandom, traits: Partial<NodeTraits>) {
    this.#world = world;
    this.name = name;
    this.random = random;
    this.#traits = { ...ORDINARY, ...traits };
    this.runtime = world.runtime(name, this.#clock(), random);
    this.crashed = new Promise((resolve) => {
      this.#announceCrash = resolve;
    });
    const { retry } = this.#traits;
    this.kv = new KeyValueStore({ runtime: this.runtime, engine: this.#engine(), retry });
  }

  /** Settles when it crashes: what it runs never does. */
  readonly crashed: Promise<void>;

  get isCrashed(): boolean {
    return this.#afterCrash !== undefined;
  }

  /** How often something happened to it that may cost it what it holds. */
  get strikeCount(): number {
    return this.#strikeCount;
  }

  /** When something happened to it last, or was over. */
  get struckAtMs(): number {
    return this.#struckAtMs;
  }

  /** Between it and a server: what happens there is no reason to lose anything. */
  linkTo(host: string): Link {
    const link = this.#links.get(host) ?? new Link();
    this.#links.set(host, link);
    return link;
  }

  strike(): void {
    this.#strikeCount++;
    this.#struckAtMs = this.#world.time.nowMs;
  }

  /** Commits that are on their way arrive, or arrive late, or never. */
  crash(): void {
    this.strike();
    this.#afterCrash = this.random.pick(CRASH_FATES);
    this.#awake.close();
    this.#announceCrash();
  }

  /** The function that is returned lets it go on. */
  pause(): () => void {
    return this.#struck(this.#awake.close());
  }

  /** Sets its wall clock, forward or back; the function that is returned sets it right. */
  stepClock(stepMs: number): () => void {
    this.#steppedMs += stepMs;
    return () => {
      this.#steppedMs -= stepMs;
    };
  }

  /** Cuts it off from the store; the function that is returned heals that. */
  cutOff(cut: Cut): () => void {
    return this.#struck(this.store.cut(cut));
  }

  #struck(heal: () => void): () => void {
    this.strike();
    return () => {
      this.strike();
      heal();
    };
  }

  /** Goes on, has its network back, and a store that does as it should. */
  heal(): void {
    this.#traits = { ...this.#traits, conflictRatio: 0, unknownRatio: 0, tooOldRatio: 0 };
    this.strike();
    for (const link of [this.store, ...this.#links.values()]) link.heal();
    if (!this.isCrashed) this.#awake.open();
  }

  #clock(): Clock {
    const { time } = this.#world;
    const { skewMs, clockRate } = this.#traits;
    return {
      nowMs: () => EPOCH_MS + skewMs + this.#steppedMs + time.nowMs * clockRate,
      monotonicMs: () => time.nowMs * clockRate,
      sleep: (durationMs, signal) => this.whenAwake(time.sleep(durationMs / clockRate, signal)),
    };
  }

  /** Settles as `promise`, but not before the node is awake. */
  async whenAwake<T>(promise: Promise<T>): Promise<T> {
    try {
      return await promise;
    } finally {
      await this.#awake.passed();
    }
  }

  /** One way between node and store. */
  async #travel(gate: Gate): Promise<void> {
    const slowMsMax = this.#world.condition.delayMsMax;
    const delayMsMax = this.#traits.delayMsMax + slowMsMax;
    if (slowMsMax > 0) this.strike();
    if (delayMsMax > 0) await this.#world.time.sleep(this.random.ratio() * delayMsMax);
    if (slowMsMax > 0) this.strike();
    await gate.passed();
  }

  #engine(): Engine {
    const { time, storage } = this.#world;
    // The time of the store, which has clocks of its own. The engine sleeps before it takes a snapshot: that is the way to the store.
    const clock: Clock = {
      nowMs: () => EPOCH_MS + time.nowMs,
      monotonicMs: () => time.nowMs,
      sleep: () => (this.#isCommitting ? Promise.resolve() : this.#readWay()),
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

  /** There and back: nothing is known before the answer. */
  #readWay(): Promise<void> {
    const { requests, answers } = this.store;
    return this.whenAwake(this.#travel(requests).then(() => answers.passed()));
  }

  #overNetwork(inner: EngineTransaction): EngineTransaction {
    const { transaction } = inner;
    const watch = transaction.watch.bind(transaction);
    transaction.watch = (key) => this.#gated(watch(key));
    return {
      transaction,
      effects: inner.effects,
      get hasWrites() {
        return inner.hasWrites;
      },
      cancel: () => inner.cancel(),
      commit: () => this.whenAwake(this.#commit(inner)),
    };
  }

  async #commit(inner: EngineTransaction) {
    const { conflictRatio, unknownRatio, tooOldRatio } = this.#traits;
    const draw = this.random.ratio();
    if (draw < conflictRatio) throw new KeyValueError("KV_CONFLICT", { injected: true });
    if (draw < conflictRatio + tooOldRatio)
      throw new KeyValueError("KV_TOO_OLD", { injected: true });
    const isUnknown = this.random.chance(unknownRatio);
    const { requests, answers } = this.store;
    const isCutOff = !requests.isOpen;
    await this.#travel(requests);
    if ((isUnknown || isCutOff) && this.random.chance(0.5)) throw unknown("lost");
    await this.#survived();
    const commit = await this.#carryOut(inner);
    const isUnheard = !answers.isOpen;
    await this.#travel(answers);
    if (isUnknown || isCutOff || isUnheard) throw unknown("carried out");
    return commit;
  }

  /** Whether what was sent before the node crashed arrives. */
  async #survived(): Promise<void> {
    if (this.#afterCrash === "lost") await new Promise<never>(() => {});
    if (this.#afterCrash === "late")
      await this.#world.time.sleep(this.random.between(0, LATE_MS_MAX));
  }

  async #carryOut(inner: EngineTransaction) {
    try {
      this.#world.condition.check();
    } catch (error) {
      this.strike();
      throw error;
    }
    this.#isCommitting = true;
    const committing = inner.commit();
    this.#isCommitting = false;
    return committing;
  }

  #gated(watch: Watch): Watch {
    return {
      fired: (signal) => this.whenAwake(this.#heard(watch.fired(signal), signal)),
      cancel: () => watch.cancel(),
    };
  }

  /** The store tells of a change as it answers. */
  async #heard(fired: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    await fired;
    const { answers } = this.store;
    if (answers.isOpen) return;
    await Promise.race([answers.passed(), rejectedBy(signal)]);
  }
}

function rejectedBy(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** No reason to lose anything. */
function unknown(injected: string): KeyValueError {
  return new KeyValueError("KV_UNKNOWN_COMMIT", { injected });
}
