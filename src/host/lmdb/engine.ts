/**
 * The embedded store: LMDB with FoundationDB's semantics, shared by any number of processes of one
 * machine. Reads are synchronous, from snapshots; a thread groups commits (`committer.ts`). A
 * commit is durable when it resolves.
 *
 * The version of LMDB is pinned: docs/decisions/0010-lmdb-2.md.
 */
import type { Runtime } from "../../base/index.ts";
import {
  BufferedTransaction,
  type Engine,
  type EngineTransaction,
  KeyValueError,
  SlabPool,
  type StoreSpace,
} from "../../kv/index.ts";
import { LmdbChangeFeed } from "./change-feed.ts";
import { LmdbCommitQueue } from "./commit-queue.ts";
import { DiskRoom } from "./disk-room.ts";
import { removeDeadDrafts } from "./drafts.ts";
import { GIVEN_UP_REASON, isGivenUp, openEnvironment, unavailable } from "./environment.ts";
import type { LmdbDatabase } from "./layout.ts";
import { LockWakeUps } from "./lock-wake-ups.ts";
import { LoopTurn } from "./loop-turn.ts";
import { LmdbSnapshots } from "./snapshots.ts";

export interface LmdbOptions {
  readonly runtime: Runtime;
  /** Folder of the store, created if missing. Must not be on a network file system. */
  readonly directory: string;
  /** Initial map size, for tests of its growth. */
  readonly mapBytes?: number | undefined;
}

const LOOK_MS = 1_000;

/** Opens the store. Rejects with KV_UNUSABLE or KV_UNAVAILABLE and the reason. */
export async function openLmdbEngine(options: LmdbOptions): Promise<LmdbEngine> {
  const database = openEnvironment(options.directory, options.mapBytes);
  removeDeadDrafts(options.directory);
  const engine = new LmdbEngine(options, database);
  try {
    await engine.open();
    return engine;
  } catch (error) {
    await engine.close();
    throw error;
  }
}

export class LmdbEngine implements Engine {
  readonly name = "lmdb";
  /** Resolves when LMDB has failed permanently in this process. */
  readonly failed: Promise<KeyValueError>;
  readonly #clock: Runtime["clock"];
  readonly #trace: Runtime["trace"];
  readonly #directory: string;
  readonly #database: LmdbDatabase;
  readonly #snapshots: LmdbSnapshots;
  readonly #changes: LmdbChangeFeed;
  readonly #commits: LmdbCommitQueue;
  readonly #wakeUps: LockWakeUps;
  readonly #room: DiskRoom;
  readonly #pool = new SlabPool();
  readonly #turn = new LoopTurn();
  readonly #looks: NodeJS.Timeout;
  #failure: KeyValueError | undefined;
  #onFailed: (failure: KeyValueError) => void = () => {};
  #closing: Promise<void> | undefined;

  /** Internal; use `openLmdbEngine` instead. */
  constructor({ runtime, directory, mapBytes }: LmdbOptions, database: LmdbDatabase) {
    this.failed = new Promise((resolve) => {
      this.#onFailed = resolve;
    });
    this.#clock = runtime.clock;
    this.#trace = runtime.trace;
    this.#directory = directory;
    this.#database = database;
    this.#snapshots = new LmdbSnapshots(database);
    this.#changes = new LmdbChangeFeed(database, this.#snapshots, directory, (error) => {
      if (!isGivenUp(error)) throw error;
      this.#giveUp();
    });
    this.#room = new DiskRoom(runtime, directory);
    this.#commits = new LmdbCommitQueue(
      { directory, mapBytes },
      {
        committed: () => this.#changes.announce(),
        diskFull: (reason) => this.#room.refused(reason),
        givenUp: () => this.#giveUp(),
      },
    );
    this.#wakeUps = new LockWakeUps({ directory, mapBytes }, this.#clock.monotonicMs());
    this.#looks = setInterval(() => {
      this.#snapshots.freeOld();
      this.#room.look();
      this.#lookAtCommitter();
    }, LOOK_MS);
    this.#looks.unref();
  }

  /** Number of LMDB snapshots held by transactions. */
  get heldSnapshotCount(): number {
    return this.#snapshots.heldCount;
  }

  open(): Promise<void> {
    return this.#commits.open();
  }

  isAvailable(): boolean {
    return this.#failure === undefined;
  }

  isFull(): boolean {
    return this.#room.isFull;
  }

  space(): StoreSpace {
    return this.#snapshots.space();
  }

  begin(): EngineTransaction {
    this.#assertUsable();
    return new BufferedTransaction({
      clock: this.#clock,
      pool: this.#pool,
      turn: this.#turn,
      snapshot: () => this.#snapshot(),
      commit: (request) => {
        if (this.#failure !== undefined) throw this.#failure;
        return this.#commits.commit(request);
      },
      watch: (key, version) => this.#changes.arm(key, version),
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#changes.close();
    await this.#commits.close();
    clearInterval(this.#looks);
    await this.#wakeUps.close();
    await this.#database.close();
  }

  #snapshot(): ReturnType<LmdbSnapshots["take"]> {
    this.#assertUsable();
    try {
      return this.#snapshots.take();
    } catch (error) {
      if (isGivenUp(error)) this.#giveUp();
      throw unavailable(error, this.#directory);
    }
  }

  #lookAtCommitter(): void {
    if (this.#failure !== undefined) return;
    const waitedMs = this.#wakeUps.look(this.#commits.progress, this.#clock.monotonicMs());
    if (waitedMs !== undefined) this.#trace.event("kv.lock-wait", { waitedMs });
  }

  #assertUsable(): void {
    if (this.#closing !== undefined) throw new KeyValueError("KV_CLOSED", { closed: "store" });
    if (this.#failure !== undefined) throw this.#failure;
  }

  /**
   * Rejects all calls after a permanent failure. The process is ended by the part that awaits
   * `failed`.
   */
  #giveUp(): void {
    if (this.#failure !== undefined) return;
    const details = { reason: GIVEN_UP_REASON, directory: this.#directory };
    this.#failure = new KeyValueError("KV_UNAVAILABLE", details);
    this.#changes.close();
    this.#trace.event("kv.unavailable", { engine: this.name, reason: GIVEN_UP_REASON });
    this.#onFailed(this.#failure);
  }
}
