/**
 * The in-memory store, for simulations and tests. It is deterministic and can inject faults from a
 * seed. The nodes of a simulated cluster share one `MemoryStorage`, each through its own engine.
 */
import {
  assert,
  type Clock,
  compareBytes,
  EMPTY_BYTES,
  type Page,
  type Random,
  type Runtime,
} from "../../base/index.ts";
import type { Engine, EngineTransaction } from "../engine.ts";
import { copyBytes, keyFromText, keyText } from "../key-bytes.ts";
import { KeyValueError } from "../kv-error.ts";
import { CLEARED_KEYS_MAX, NET_CLEARED_KEYS_MAX, READ_VERSION_AGE_MS_MAX } from "../limits.ts";
import {
  applyAtomic,
  type CommitRequest,
  completeVersionstamped,
  type Mutation,
  type TextInterval,
  writeVersionstamp,
} from "../mutation.ts";
import type { Key, KeyValue, Value, Watch } from "../transaction.ts";
import { VERSIONSTAMP_BYTES, Versionstamp } from "../versionstamp.ts";
import { WatchRegistry } from "../watch-registry.ts";
import { BufferedTransaction, type StoreCommit } from "./buffered-transaction.ts";
import type { PageOptions, StoreSnapshot } from "./read-view.ts";
import { Resolver } from "./resolver.ts";
import { SortedMap } from "./sorted-map.ts";

/** Injected faults. */
export interface MemoryFaults {
  readonly random: Random;
  /** Fraction of commits that fail with KV_CONFLICT although nothing conflicts. */
  readonly conflictRatio?: number;
  /** Fraction of commits that fail with KV_UNKNOWN_COMMIT; half of them are applied. */
  readonly unknownRatio?: number;
  /** Fraction of commits, and of first reads of transactions, that fail with KV_TOO_OLD. */
  readonly tooOldRatio?: number;
  /** Longest delay of a first read or a commit. */
  readonly delayMsMax?: number;
}

/**
 * Time for which writes are kept to detect conflicts. Slightly longer than the lifetime of
 * transactions that can conflict with them.
 */
const HISTORY_MS = READ_VERSION_AGE_MS_MAX + 1_000;

export class MemoryEngine implements Engine {
  readonly name = "memory";
  readonly #clock: Clock;
  readonly #faults: MemoryFaults | undefined;
  readonly #storage: MemoryStorage;
  readonly #watches = new WatchRegistry();
  #closed = false;

  constructor({
    runtime,
    faults,
    storage = new MemoryStorage(),
  }: {
    readonly runtime: Runtime;
    readonly faults?: MemoryFaults | undefined;
    readonly storage?: MemoryStorage;
  }) {
    this.#clock = runtime.clock;
    this.#faults = faults;
    this.#storage = storage;
  }

  get clearsRangesAtOnce(): boolean {
    return this.#storage.clearsRangesAtOnce;
  }

  begin(): EngineTransaction {
    if (this.#closed) throw new KeyValueError("KV_CLOSED", { closed: "store" });
    const faults = this.#faults;
    return new BufferedTransaction({
      clock: this.#clock,
      ...(faults === undefined ? {} : { beforeSnapshot: () => this.#misbehave(faults) }),
      snapshot: () => this.#storage.snapshot(),
      commit: (request) => this.#commit(request),
      watch: (key, version) => this.#watch(key, version),
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#watches.close();
  }

  async #commit(request: CommitRequest): Promise<StoreCommit> {
    const faults = this.#faults;
    if (faults === undefined) {
      // Commits must be asynchronous, as on every engine.
      await undefined;
      return this.#carryOut(request);
    }
    await this.#misbehave(faults);
    const draw = faults.random.ratio();
    const conflictRatio = faults.conflictRatio ?? 0;
    const unknownRatio = faults.unknownRatio ?? 0;
    if (draw < conflictRatio) throw new KeyValueError("KV_CONFLICT", { injected: true });
    if (draw < conflictRatio + unknownRatio) {
      if (draw < conflictRatio + unknownRatio / 2) this.#carryOut(request);
      throw new KeyValueError("KV_UNKNOWN_COMMIT", { injected: true });
    }
    return this.#carryOut(request);
  }

  #carryOut(request: CommitRequest): StoreCommit {
    if (this.#closed) throw new KeyValueError("KV_CLOSED", { closed: "store" });
    return this.#storage.commit(request, this.#clock.monotonicMs());
  }

  async #misbehave({ random, delayMsMax = 0, tooOldRatio = 0 }: MemoryFaults): Promise<void> {
    if (delayMsMax > 0) await this.#clock.sleep(random.ratio() * delayMsMax);
    if (tooOldRatio > 0 && random.ratio() < tooOldRatio) {
      throw new KeyValueError("KV_TOO_OLD", { injected: true });
    }
  }

  #watch(key: Key, version: number): Watch {
    const watch = this.#watches.arm(key);
    this.#storage.watched.add(this.#watches);
    const interval = { begin: keyText(key), end: undefined };
    if (this.#closed) this.#watches.close();
    else if (this.#storage.isWrittenAfter(version, interval)) this.#watches.announce([interval]);
    return watch;
  }
}

/**
 * Stored rows, indexed by key text, and the writes of the last seconds. The bytes of keys are not
 * stored.
 */
export class MemoryStorage {
  /**
   * Registries that currently have watches. A commit checks no other registries, because only a few
   * of a thousand simulated nodes have watches at a time.
   */
  readonly watched = new Set<WatchRegistry>();
  readonly #rows = new SortedMap<Value>();
  readonly #resolver = new Resolver(0);
  #version = 0;
  /** Snapshot of the current version, shared by its readers. */
  #frozen: SortedMap<Value> | undefined;
  /**
   * Whether ranges of any size can be cleared, as in FoundationDB. If not, ranges above LMDB's
   * limit are refused.
   */
  readonly clearsRangesAtOnce: boolean;

  constructor({ clearsRangesAtOnce = false }: { readonly clearsRangesAtOnce?: boolean } = {}) {
    this.clearsRangesAtOnce = clearsRangesAtOnce;
  }

  snapshot(): StoreSnapshot {
    this.#frozen ??= this.#rows.clone();
    return new MemorySnapshot(this.#version, this.#frozen);
  }

  isWrittenAfter(version: number, interval: TextInterval): boolean {
    return this.#resolver.judge(version, [interval]) !== "free";
  }

  commit({ readVersion, reads, writes, mutations }: CommitRequest, nowMs: number): StoreCommit {
    this.#resolver.forgetBefore(nowMs - HISTORY_MS);
    if (readVersion !== undefined) {
      const verdict = this.#resolver.judge(readVersion, reads);
      if (verdict === "conflict") throw new KeyValueError("KV_CONFLICT");
      if (verdict === "too-old") throw new KeyValueError("KV_TOO_OLD");
    }
    this.#version++;
    this.#frozen = undefined;
    const written = [...writes];
    const sizeBefore = this.#rows.size;
    for (const mutation of mutations) written.push(this.#apply(mutation));
    assert(
      sizeBefore - this.#rows.size <= NET_CLEARED_KEYS_MAX || this.clearsRangesAtOnce,
      "A transaction must not clear more than the maximum number of keys",
    );
    this.#resolver.record(this.#version, nowMs, { count: written.length, read: () => written });
    for (const watches of this.watched) {
      watches.announce(written);
      if (watches.isEmpty) this.watched.delete(watches);
    }
    const stamp = new Uint8Array(VERSIONSTAMP_BYTES);
    writeVersionstamp(stamp, 0, this.#version, 0);
    return { version: this.#version, versionstamp: Versionstamp.fromBytes(stamp) };
  }

  /** Applies a mutation and returns the interval that it wrote. */
  #apply(mutation: Mutation): TextInterval {
    switch (mutation.kind) {
      case "set":
        return this.#set(mutation.key, mutation.value);
      case "clear":
        this.#rows.delete(mutation.key);
        return { begin: mutation.key, end: undefined };
      case "clearRange": {
        const { begin, end } = mutation;
        const keyCount = this.#rows.deleteRange(begin, end);
        assert(
          keyCount <= CLEARED_KEYS_MAX || this.clearsRangesAtOnce,
          "A transaction must not clear a range of more than the maximum number of keys",
        );
        return { begin, end };
      }
      case "setVersionstampedKey": {
        const stamped = { bytes: keyFromText(mutation.key), offset: mutation.offset };
        const key = completeVersionstamped(stamped, this.#version, 0);
        return this.#set(keyText(key), mutation.value);
      }
      case "setVersionstampedValue":
        return this.#set(mutation.key, completeVersionstamped(mutation.value, this.#version, 0));
      default: {
        const stored = this.#rows.get(mutation.key);
        return this.#set(mutation.key, applyAtomic(mutation.kind, stored, mutation.operand));
      }
    }
  }

  #set(text: string, value: Value): TextInterval {
    this.#rows.set(text, value.length === 0 ? EMPTY_BYTES : value);
    return { begin: text, end: undefined };
  }
}

class MemorySnapshot implements StoreSnapshot {
  readonly version: number;
  readonly #rows: SortedMap<Value>;

  constructor(version: number, rows: SortedMap<Value>) {
    this.version = version;
    this.#rows = rows;
  }

  get(key: Key): Value | undefined {
    const value = this.#rows.get(keyText(key));
    return value && copyBytes(value);
  }

  page(begin: Key, end: Key, { reverse, rowCountMax, byteCountMax }: PageOptions): Page<KeyValue> {
    const entries: KeyValue[] = [];
    let byteCount = 0;
    let stoppedBy: Page<KeyValue>["stoppedBy"] = "exhausted";
    const visit = (text: string, value: Value): boolean => {
      if (entries.length >= rowCountMax) stoppedBy = "row-limit";
      else if (byteCount >= byteCountMax) stoppedBy = "byte-limit";
      else {
        entries.push({ key: keyFromText(text), value: copyBytes(value) });
        byteCount += text.length + value.length;
        return true;
      }
      return false;
    };
    if (compareBytes(begin, end) < 0) {
      if (reverse) this.#rows.scanReverse(keyText(begin), keyText(end), visit);
      else this.#rows.scan(keyText(begin), keyText(end), visit);
    }
    return { entries, stoppedBy };
  }

  release(): void {}
}
