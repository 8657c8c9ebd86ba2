/**
 * A node of a simulated cluster. The node can be in these conditions:
 *
 *   paused     It makes no progress. Its earlier requests to the store are carried out, and it
 *              receives the results when it resumes.
 *   cut off    Its requests do not reach the store or a server, or it does not receive the
 *              responses, until the cut is healed.
 *   crashed    It stops permanently, without notice.
 *
 * Its clocks run fast or slow and show the wrong time, and its wall clock can be set.
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
  /** Offset of the node's wall clock. */
  readonly skewMs: number;
  /** Seconds of the node's clock per second of the world. */
  readonly clockRate: number;
  /** Maximum one-way delay between node and store. */
  readonly delayMsMax: number;
  /** Fraction of commits that fail as if they conflicted, although they do not. */
  readonly conflictRatio: number;
  /** Fraction of commits whose outcome is not reported to the node. */
  readonly unknownRatio: number;
  /** Fraction of commits that fail as if their snapshot were too old. */
  readonly tooOldRatio: number;
  /** The node's policy for retrying transactions. */
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

/** Possible outcomes of a commit request that was in flight when its node crashed. */
const CRASH_FATES = ["carried out", "late", "lost"] as const;
type CrashFate = (typeof CRASH_FATES)[number];
const LATE_MS_MAX = 4000;

export class SimulatedNode {
  readonly name: string;
  readonly random: SeededRandom;
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  /** Connection to the store. */
  readonly store = new Link();
  readonly #links = new Map<string, Link>();
  readonly #world: World;
  #traits: NodeTraits;
  #afterCrash: CrashFate | undefined;
  #announceCrash: () => void = () => {};
  #strikeCount = 0;
  #struckAtMs = Number.NEGATIVE_INFINITY;
  /** Adjustment of the node's wall clock, in addition to its skew. */
  #steppedMs = 0;
  readonly #awake = new Gate();
  /**
   * True while the engine starts a commit, so that the engine's own sleep does not add to the delay
   * of `#commit`.
   */
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

  /** Settles when the node crashes. The promises of the node's own work then stay pending. */
  readonly crashed: Promise<void>;

  get isCrashed(): boolean {
    return this.#afterCrash !== undefined;
  }

  /** Number of faults that can cause the node to lose its jobs. */
  get strikeCount(): number {
    return this.#strikeCount;
  }

  /** Time when the node's last fault began or ended. */
  get struckAtMs(): number {
    return this.#struckAtMs;
  }

  /**
   * Returns the connection to a server. A node must not lose a job because of a fault of this
   * connection.
   */
  linkTo(host: string): Link {
    const link = this.#links.get(host) ?? new Link();
    this.#links.set(host, link);
    return link;
  }

  strike(): void {
    this.#strikeCount++;
    this.#struckAtMs = this.#world.time.nowMs;
  }

  /** Crashes the node. Each commit in flight is applied, applied late, or lost. */
  crash(): void {
    this.strike();
    this.#afterCrash = this.random.pick(CRASH_FATES);
    this.#awake.close();
    this.#announceCrash();
  }

  /** Pauses the node. Returns a function that resumes it. */
  pause(): () => void {
    return this.#struck(this.#awake.close());
  }

  /** Moves the node's wall clock. Returns a function that restores the clock. */
  stepClock(stepMs: number): () => void {
    this.#steppedMs += stepMs;
    return () => {
      this.#steppedMs -= stepMs;
    };
  }

  /** Cuts the node off from the store. Returns a function that heals the cut. */
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

  /** Resumes the node, heals its links, and stops injecting commit failures. */
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

  /** Settles like `promise`, but not before a paused node resumes. */
  async whenAwake<T>(promise: Promise<T>): Promise<T> {
    try {
      return await promise;
    } finally {
      await this.#awake.passed();
    }
  }

  /** Waits while a message travels in one direction between node and store. */
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
    // Clock of the store's engine. The engine sleeps before it takes a snapshot. This sleep
    // simulates the network delay.
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

  /**
   * Waits for the duration of a request and its response. The node has the result of a read only
   * then.
   */
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

  /**
   * Resolves when the store receives a request that the node has sent. If the node has crashed, the
   * request can arrive late or never.
   */
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

  /**
   * Waits for a change that the store announces. A link that is cut for responses also delays this
   * announcement.
   */
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

/**
 * Returns an injected error with an unknown outcome. Such an error must not cost the node a job.
 */
function unknown(injected: string): KeyValueError {
  return new KeyValueError("KV_UNKNOWN_COMMIT", { injected });
}
