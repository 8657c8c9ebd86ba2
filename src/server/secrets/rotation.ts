/**
 * Changes the sealing key and reseals everything while the nodes are serving.
 *
 *   begin      the newest key of the source becomes the sealing key; if the operator has given no
 *              new key, one is generated and added to the key file
 *   sealing    everything unsealed, or sealed with a different key, is resealed, page by page
 *   waiting    until every node knows the sealing key
 *   checking   everything is scanned again, until all values are sealed with the new key
 *   done       no other key is needed; old keys are removed from the key file
 *
 * If a rotation is interrupted, the older keys stay in the record, and the next request continues
 * that rotation.
 */
import { forEachConcurrent, Notifier, OperationalError, type Runtime } from "../../base/index.ts";
import type { DatabaseRegistry } from "../../databases/index.ts";
import type { Jobs } from "../../jobs/index.ts";
import type { KeyValueStore, Transaction } from "../../kv/index.ts";
import {
  isReplicatorDatabase,
  REPLICATION_JOB_TYPE,
  splitJobData,
} from "../../replicator/index.ts";
import { FOLLOW_INTERVAL_MS } from "./key-follower.ts";
import { type KeyRecord, readKeyRecord, writeKeyRecord } from "./key-record.ts";
import type { KeyRing } from "./key-ring.ts";
import { addKey, describeSource, type KeySource, keepKeys } from "./key-source.ts";

/** Maximum number of database names, changes or jobs read per transaction. */
const PAGE_ROWS_MAX = 200;
/** Maximum number of documents and jobs resealed concurrently, each in its own transactions. */
const AT_ONCE_MAX = 16;
/**
 * Time to wait until all nodes use the new key: longer than a node needs to notice the change and
 * to finish its last transaction with the old key.
 */
const NODES_FOLLOW_MS = 2 * FOLLOW_INTERVAL_MS + 5_000;

export interface RotationParts {
  readonly runtime: Runtime;
  readonly kv: KeyValueStore;
  readonly jobs: Jobs;
  readonly databases: DatabaseRegistry;
  readonly ring: KeyRing;
  readonly source: KeySource;
  /** Whether nodes on other machines, which do not have this machine's key file, use the store. */
  readonly isSharedStore: boolean;
  /**
   * Reseals all values except documents and jobs: session secrets, rules and the local
   * configuration. Returns the number of resealed values.
   */
  readonly renewOthers: () => Promise<number>;
}

export interface RotationProgress {
  readonly state: "idle" | "sealing" | "waiting" | "checking" | "done" | "failed";
  /** Number of documents and jobs processed, in all passes. */
  readonly seenCount: number;
  /** Number of values resealed. */
  readonly renewedCount: number;
  /**
   * Ids of keys that were removed from the key file, or that can now be removed from the
   * environment.
   */
  readonly unneededIds: readonly string[];
  /** Reason for the failure. */
  readonly error: string | undefined;
}

export interface SecretsStatus {
  readonly record: KeyRecord;
  /** Ids of the keys available to this node, oldest first. */
  readonly hereIds: readonly string[];
  readonly source: string;
  readonly rotation: RotationProgress;
}

const IDLE: RotationProgress = {
  state: "idle",
  seenCount: 0,
  renewedCount: 0,
  unneededIds: [],
  error: undefined,
};

export class Rotation {
  readonly name = "server.secrets-rotation";
  readonly #parts: RotationParts;
  readonly #asked = new Notifier();
  #progress: RotationProgress = IDLE;

  constructor(parts: RotationParts) {
    this.#parts = parts;
  }

  async status(): Promise<SecretsStatus> {
    const { kv, ring, source } = this.#parts;
    const record = await kv.read(readKeyRecord);
    if (record === undefined)
      throw new Error("The keys of the store must exist before the node serves requests");
    return { record, hereIds: ring.ids, source: describeSource(source), rotation: this.#progress };
  }

  /**
   * Starts a rotation, or continues an interrupted one. Does nothing while a rotation is running.
   * Throws SECRETS_NO_NEW_KEY if a new key is needed but cannot be created here.
   */
  async begin(): Promise<void> {
    if (this.#isRunning) return;
    this.#progress = { ...IDLE, state: "sealing" };
    try {
      await this.#changeKey();
    } catch (error) {
      this.#progress = IDLE;
      throw error;
    }
    this.#asked.notify();
  }

  get #isRunning(): boolean {
    return ["sealing", "waiting", "checking"].includes(this.#progress.state);
  }

  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#asked.notified(signal);
      try {
        await this.#sealAll(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#progress = { ...this.#progress, state: "failed", error: String(error) };
      }
    }
  }

  async #changeKey(): Promise<void> {
    const { kv, ring } = this.#parts;
    const { record } = await this.status();
    ring.reload();
    const targetId = this.#targetId(record);
    await kv.transact(
      async (tx) => {
        const { inUse = [] } = (await readKeyRecord(tx)) ?? {};
        const others = inUse.filter((id) => id !== targetId);
        writeKeyRecord(tx, { sealingId: targetId, inUse: [...others, targetId] });
      },
      { whenUnknown: "retry" },
    );
    ring.sealWith(targetId);
  }

  /**
   * Returns the id of the next sealing key: the newest key in the ring if it is not the sealing key
   * yet, the key of an interrupted rotation, or a key created here.
   */
  #targetId({ sealingId, inUse }: KeyRecord): string {
    const { runtime, ring, source, isSharedStore } = this.#parts;
    const newestId = ring.ids.at(-1);
    if (newestId !== undefined && newestId !== sealingId) return newestId;
    if (inUse.length > 1) return sealingId;
    if (source.kind !== "file" || isSharedStore) throw new NoNewKeyError(source);
    const id = addKey(source.path, runtime.random);
    ring.reload();
    return id;
  }

  async #sealAll(signal: AbortSignal): Promise<void> {
    const { runtime, ring } = this.#parts;
    await this.#pass(signal);
    this.#progress = { ...this.#progress, state: "waiting" };
    await runtime.clock.sleep(NODES_FOLLOW_MS, signal);
    this.#progress = { ...this.#progress, state: "checking" };
    // Repeats the pass until nothing has to be resealed. A node that has not loaded the new key yet
    // still seals with the old one.
    while ((await this.#pass(signal)) > 0) await runtime.clock.sleep(FOLLOW_INTERVAL_MS, signal);
    const unneededIds = await this.#retireKeys();
    this.#progress = { ...this.#progress, state: "done", unneededIds };
    const { renewedCount } = this.#progress;
    runtime.trace.event("secrets.rotated", { keyId: ring.sealingId as string, renewedCount });
  }

  /**
   * Removes the older keys from the record, and then from the key file if there is one. Returns the
   * ids of the keys that are no longer needed.
   */
  async #retireKeys(): Promise<readonly string[]> {
    const { kv, ring, source } = this.#parts;
    const retired = await kv.transact(
      async (tx) => {
        const record = await readKeyRecord(tx);
        if (record === undefined || record.sealingId !== ring.sealingId) return [];
        writeKeyRecord(tx, { ...record, inUse: [record.sealingId] });
        return record.inUse.filter((id) => id !== record.sealingId);
      },
      { whenUnknown: "retry" },
    );
    if (source.kind !== "file") return retired;
    const kept = new Set(ring.ids.filter((id) => !retired.includes(id)));
    const removed = keepKeys(source.path, kept);
    ring.reload();
    return removed;
  }

  /**
   * Checks all sealed values once and reseals those that need it. Returns the number of resealed
   * values.
   */
  async #pass(signal: AbortSignal): Promise<number> {
    let renewedCount = await this.#parts.renewOthers();
    this.#count(0, renewedCount);
    renewedCount += await this.#passJobs(signal);
    for await (const name of this.#replicatorDatabases()) {
      renewedCount += await this.#passDocuments(name, signal);
    }
    return renewedCount;
  }

  async #passJobs(signal: AbortSignal): Promise<number> {
    const { kv, jobs } = this.#parts;
    let renewedCount = 0;
    let afterId: string | undefined;
    for (;;) {
      const wanted = { prefix: "", afterId, reverse: false, limit: PAGE_ROWS_MAX };
      const ids = await kv.read((tx) => jobs.ids(tx, REPLICATION_JOB_TYPE, wanted));
      renewedCount += await this.#renewEach(ids, signal, async (id) => {
        const name = { type: REPLICATION_JOB_TYPE, id };
        return this.#renew(async (tx) => Number(await jobs.renewRequest(tx, name, splitJobData)));
      });
      if (ids.length < PAGE_ROWS_MAX) return renewedCount;
      afterId = ids.at(-1);
    }
  }

  async *#replicatorDatabases(): AsyncIterable<string> {
    const { kv, databases } = this.#parts;
    let startName: string | undefined;
    for (;;) {
      const from = startName === undefined ? {} : { startName };
      const names = await kv.read((tx) => databases.names(tx, { ...from, limit: PAGE_ROWS_MAX }));
      yield* names.filter((name) => name !== startName && isReplicatorDatabase(name));
      if (names.length < PAGE_ROWS_MAX) return;
      startName = names.at(-1);
    }
  }

  async #passDocuments(name: string, signal: AbortSignal): Promise<number> {
    const { kv, databases } = this.#parts;
    let renewedCount = 0;
    let since = "0";
    for (;;) {
      const page = await kv.read(async (tx) => {
        const database = await databases.find(tx, name);
        return database?.changes.page(tx, { since, limit: PAGE_ROWS_MAX });
      });
      if (page === undefined) return renewedCount;
      renewedCount += await this.#renewEach(page.entries, signal, ({ id }) =>
        this.#renewDocument(name, id, signal),
      );
      const last = page.entries.at(-1);
      if (page.stoppedBy === "exhausted" || last === undefined) return renewedCount;
      since = last.sequence;
    }
  }

  /** Reseals all leaves of a document, in as many transactions as necessary. */
  async #renewDocument(name: string, id: string, signal: AbortSignal): Promise<number> {
    const { databases } = this.#parts;
    let renewedCount = 0;
    let leaf: number | undefined = 0;
    while (leaf !== undefined) {
      signal.throwIfAborted();
      const first: number = leaf;
      const renewed = await this.#renew(async (tx) => {
        const database = await databases.find(tx, name);
        return database?.bodyRenewal.renew(tx, id, first);
      });
      renewedCount += renewed?.renewedCount ?? 0;
      leaf = renewed?.nextLeaf;
    }
    return renewedCount;
  }

  #renew<Result>(renew: (tx: Transaction) => Promise<Result>): Promise<Result> {
    return this.#parts.kv.transact(renew, { whenUnknown: "retry" });
  }

  async #renewEach<Item>(
    items: readonly Item[],
    signal: AbortSignal,
    renew: (item: Item) => Promise<number>,
  ): Promise<number> {
    let renewedCount = 0;
    await forEachConcurrent(items, AT_ONCE_MAX, async (item) => {
      signal.throwIfAborted();
      const count = await renew(item);
      renewedCount += count;
      this.#count(1, count);
    });
    return renewedCount;
  }

  #count(seen: number, renewed: number): void {
    const { seenCount, renewedCount } = this.#progress;
    this.#progress = {
      ...this.#progress,
      seenCount: seenCount + seen,
      renewedCount: renewedCount + renewed,
    };
  }
}

/** Thrown if a new key is needed but this node cannot create one for all nodes. */
export class NoNewKeyError extends OperationalError {
  override readonly name = "NoNewKeyError";

  constructor(source: KeySource) {
    const place = describeSource(source);
    const reason =
      source.kind === "process"
        ? "The key of an in-memory store exists only until the process ends and cannot be rotated"
        : `Add a new key after the existing keys of ${place} on every node, restart the nodes, then repeat the command`;
    super("SECRETS_NO_NEW_KEY", "There is no newer key", { reason });
  }
}
