/**
 * The store on a FoundationDB cluster. When the cluster is away, calls wait until it is back, an event reports it, and
 * `isAvailable` returns false.
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
  /** Default: `FDB_CLUSTER_FILE`, or FoundationDB's own default place. */
  readonly clusterFile?: string | undefined;
  /** What the client must speak. The default is spoken by clients from 6.3 to 7.3. */
  readonly apiVersion?: number | undefined;
  /** What the package is told to have been built with; not above what the client library knows. */
  readonly headerVersion?: number | undefined;
  /** Every key is below this name: so a cluster holds several stores that know nothing of each other. */
  readonly prefix?: string | undefined;
  /** Watches that the client may have at once; above it, who waits looks for himself. The default is the most that there can be. */
  readonly watchCountMax?: number | undefined;
}

const API_VERSION = 630;

/** FoundationDB's highest value; without the option it is 10,000. A running job has one, and another one if it follows a database of this store. */
const WATCH_COUNT_MAX = 1_000_000;

/** FoundationDB's place for the cluster file where nothing is said. */
const DEFAULT_CLUSTER_FILE = "/etc/foundationdb/fdb.cluster";

/** A cluster that recovers from the loss of a process answers again within this time; longer is worth a line. */
const AWAY_AFTER_MS = 5_000;
const LOOK_EVERY_MS = 1_000;

/** For whom the client has no watch left. Each look is a transaction, and there are as many of them as watches too many. */
const WITHOUT_WATCH_MS = 5_000;

/** Opens the store; rejects with KV_UNUSABLE when the package, the client library or the cluster file is missing. */
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

/** Path of the cluster file, whether it is configured or not. */
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
  /** When each call that is under way began. */
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
    // A watch that is left would keep the process alive.
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

  /** Calls are in the order of their begin. */
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
        reason: `FoundationDB's cluster file cannot be read at ${clusterFile}: give --cluster-file or FDB_CLUSTER_FILE`,
        clusterFile,
      },
      { cause: error },
    );
  }
}
