/**
 * A cluster in one process, under virtual time. A seed determines its run. Nodes with their own
 * clocks share one in-memory store, over a network that can be slow or down. A node runs the real
 * code, and only the clock, the network and the store are simulated.
 *
 * A run is repeatable: `fingerprint` changes if any announced event changes.
 */
import type { Runtime, Trace } from "../../../src/base/index.ts";
import { createSystemRuntime } from "../../../src/host/index.ts";
import { MemoryStorage } from "../../../src/kv/index.ts";
import { hash, SeededRandom } from "./seeded-random.ts";
import { type NodeTraits, SimulatedNode } from "./simulated-node.ts";
import { StoreCondition } from "./simulated-store.ts";
import { SYNCHRONOUS_COMPRESSION } from "./synchronous-compression.ts";
import { VirtualTime } from "./virtual-time.ts";

/** Time of the wall clock when a world begins: 2026-01-01. */
export const EPOCH_MS = Date.UTC(2026, 0, 1);

export type EventListener = (
  name: string,
  fields: Readonly<Record<string, unknown>>,
  node: string,
) => void;

export class World {
  readonly random: SeededRandom;
  readonly time = new VirtualTime();
  readonly storage: MemoryStorage;
  readonly condition = new StoreCondition();
  readonly nodes: SimulatedNode[] = [];
  /** Functions that are called with every event of every node. */
  readonly listeners: EventListener[] = [];
  #fingerprint = 0;
  #eventCount = 0;
  #nodeCount = 0;

  constructor(seed: string, storage = new MemoryStorage()) {
    this.random = new SeededRandom(seed);
    this.storage = storage;
  }

  get fingerprint(): string {
    return `${this.#eventCount}-${this.#fingerprint.toString(16)}-${this.time.nowMs.toFixed(3)}`;
  }

  openNode(traits: Partial<NodeTraits> = {}): SimulatedNode {
    const name = `node-${this.#nodeCount++}`;
    const node = new SimulatedNode(this, name, this.random.fork(name), traits);
    this.nodes.push(node);
    return node;
  }

  /**
   * Advances time until `promise` settles. Rejects if `promise` does not settle within `timeoutMs`.
   */
  async until<T>(promise: Promise<T>, timeoutMs = 3_600_000): Promise<T> {
    let isSettled = false;
    const settle = (): void => {
      isSettled = true;
    };
    promise.then(settle, settle);
    if (await this.time.run(this.time.nowMs + timeoutMs, () => isSettled)) return promise;
    throw new Error(`Nothing happened within ${timeoutMs} ms of virtual time`);
  }

  /**
   * Returns the runtime of a simulated process. Digests are computed as usual. Compression is
   * synchronous, because virtual time cannot wait for real threads.
   */
  runtime(name: string, clock: Runtime["clock"], random: SeededRandom): Runtime {
    const trace: Trace = { event: (event, fields) => this.announce(name, event, fields) };
    const compression = SYNCHRONOUS_COMPRESSION;
    return { ...createSystemRuntime(trace), compression, clock, random };
  }

  /**
   * Notifies all listeners. `node` can also be the world, and `name` can be a finding of the
   * simulation.
   */
  announce(node: string, name: string, fields: Readonly<Record<string, unknown>>): void {
    this.#eventCount++;
    const line = `${this.time.nowMs} ${node} ${name} ${JSON.stringify(fields)}`;
    this.#fingerprint = hash(line, this.#fingerprint);
    for (const listener of this.listeners) listener(name, fields, node);
  }
}
