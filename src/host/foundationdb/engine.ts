/**
 * The store on a FoundationDB cluster. While the cluster is unreachable, calls wait, an event
 * reports the outage, and `isAvailable` returns false.
 */
import { readFile } from "node:fs/promises";
import type { Runtime } from "../../base/index.ts";
import {
  type Engine,
  type EngineTransaction,
  KeyValueError,
  Subspace,
  SubspaceEngine,
} from "../../kv/index.ts";
import { fdbError } from "./errors.ts";
import { type FdbDatabase, type FdbWatch, loadFdbPackage } from "./package.ts";
import { FoundationDbTransaction } from "./transaction.ts";

export interface FoundationDbOptions {
  readonly runtime: Runtime;
  /** Path of the cluster file. Default: `FDB_CLUSTER_FILE`, or FoundationDB's own default path. */
  readonly clusterFile?: string | undefined;
  /** FoundationDB API version. Clients from 6.3 to 7.3 support the default. */
  readonly apiVersion?: number | undefined;
  /** Header version passed to the package; must not exceed the version of the client library. */
  readonly headerVersion?: number | undefined;
  /** Key prefix, which allows several independent stores in a cluster. */
  readonly prefix?: string | undefined;
  /**
   * Maximum number of watches (default: FoundationDB's maximum). Keys beyond this number are
   * polled.
   */
  readonly watchCountMax?: number | undefined;
}

const API_VERSION = 630;

/**
 * Highest number of watches that FoundationDB allows; its default is 10,000. A running job needs
 * one or two watches.
 */
const WATCH_COUNT_MAX = 1_000_000;

/** FoundationDB's default path of the cluster file. */
const DEFAULT_CLUSTER_FILE = "/etc/foundationdb/fdb.cluster";

/**
 * Duration after which an outage is reported. Longer than a cluster needs to recover from the loss
 * of a process.
 */
const AWAY_AFTER_MS = 5_000;
const LOOK_EVERY_MS = 1_000;

/** Interval for polling keys without a watch. Each poll is a transaction. */
const WITHOUT_WATCH_MS = 5_000;

/**
 * Opens the store. Rejects with KV_UNUSABLE if package, client library or cluster file is missing.
 */
export async function openFoundationDbEngine(options: FoundationDbOptions): Promise<Engine> {
  const { apiVersion = API_VERSION, headerVersion = API_VERSION } = options;
  const { watchCountMax = WATCH_COUNT_MAX } = options;
  const clusterFile = options.clusterFile ?? process.env.FDB_CLUSTER_FILE;
  await checkClusterFile(clusterFileOf(clusterFile));
  const fdb = await loadFdbPackage(apiVersion, headerVersion);
  const engine = openDatabase(options.runtime, clusterFileOf(clusterFile), () =>
    fdb.open(clusterFile, { max_watches: watchCountMax }),
  );
  if (options.prefix === undefined) return engine;
  return new SubspaceEngine(engine, Subspace.fromTuple([options.prefix]).prefix);
}

/** Returns the configured or default path of the cluster file. */
export function clusterFileOf(clusterFile: string | undefined): string {
  return clusterFile ?? process.env.FDB_CLUSTER_FILE ?? DEFAULT_CLUSTER_FILE;
}

function openDatabase(runtime: Runtime, clusterFile: string, open: () => FdbDatabase): Engine {
  try {
    return new FoundationDbEngine(runtime, clusterFile, open());
  } catch (error) {
    throw fdbError(error);
  }
}

class FoundationDbEngine implements Engine {
  readonly name = "foundationdb";
  readonly clearsRangesAtOnce = true;
  readonly #runtime: Runtime;
  readonly #clusterFile: string;
  readonly #database: FdbDatabase;
  readonly #watches = new Set<FdbWatch>();
  /** Calls in progress, oldest first. */
  readonly #calls = new Set<{ readonly sinceMs: number }>();
  readonly #look: NodeJS.Timeout;
  readonly #closing = new AbortController();
  #available = true;
  #closed = false;

  constructor(runtime: Runtime, clusterFile: string, database: FdbDatabase) {
    this.#runtime = runtime;
    this.#clusterFile = clusterFile;
    this.#database = database;
    this.#look = setInterval(() => this.#lookForDelay(), LOOK_EVERY_MS);
    this.#look.unref();
  }

  isAvailable(): boolean {
    return this.#available;
  }

  begin(): EngineTransaction {
    if (this.#closed) throw new KeyValueError("KV_CLOSED", { closed: "store" });
    return new FoundationDbTransaction(this.#database.rawCreateTransaction(), {
      watches: this.#watches,
      observe: (call) => this.#observe(call),
      pause: (signal) => {
        const ends = AbortSignal.any([this.#closing.signal, signal]);
        return this.#runtime.clock.sleep(WITHOUT_WATCH_MS, ends);
      },
    });
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#look);
    // Watches that are not cancelled would keep the process alive.
    for (const watch of this.#watches) watch.cancel();
    this.#closing.abort(new KeyValueError("KV_CLOSED", { closed: "watch" }));
    this.#database.close();
  }

  async #observe<T>(call: Promise<T>): Promise<T> {
    const entry = { sinceMs: this.#runtime.clock.monotonicMs() };
    this.#calls.add(entry);
    try {
      const result = await call;
      this.#setAvailable(true);
      return result;
    } finally {
      this.#calls.delete(entry);
    }
  }

  #lookForDelay(): void {
    const [oldest] = this.#calls;
    if (oldest === undefined) return;
    const waitedMs = this.#runtime.clock.monotonicMs() - oldest.sinceMs;
    if (waitedMs > AWAY_AFTER_MS) this.#setAvailable(false, waitedMs);
  }

  #setAvailable(available: boolean, waitedMs?: number): void {
    if (this.#available === available) return;
    this.#available = available;
    this.#runtime.trace.event(available ? "kv.available" : "kv.unavailable", {
      engine: this.name,
      ...(waitedMs === undefined
        ? {}
        : { clusterFile: this.#clusterFile, waitedMs: Math.round(waitedMs) }),
    });
  }
}

async function checkClusterFile(clusterFile: string): Promise<void> {
  try {
    await readFile(clusterFile);
  } catch (error) {
    throw new KeyValueError(
      "KV_UNUSABLE",
      {
        reason: `FoundationDB's cluster file cannot be read at ${clusterFile}: set --cluster-file or FDB_CLUSTER_FILE`,
        clusterFile,
      },
      { cause: error },
    );
  }
}
